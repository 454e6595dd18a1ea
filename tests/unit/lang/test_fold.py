"""Folding, what trees read, walking them, and dtype expressions."""

from __future__ import annotations

import pytest

from tileops._core.lang.dtype_terms import infer_dtype
from tileops._core.lang.faults import KindFault
from tileops._core.lang.fold import fold
from tileops._core.lang.kind_text import parse_kind
from tileops._core.lang.kinds import DIM, UNKNOWN, MaybeKind
from tileops._core.lang.nodes import Constant
from tileops._core.lang.parser import parse_expression, parse_shape
from tileops._core.lang.positions import Position
from tileops._core.lang.printer import to_text
from tileops._core.lang.reads import FieldRead, PayloadRead, reads
from tileops._core.lang.walk import children, deepest, rebuild, walk

KNOWN = {"flip": True, "off": False, "mode": "row", "n": 2, "layout.kind": "dense", "cap.value": 5}
PRESENCE = {"bias": False, "cap": True}


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("R if flip else C", "R"),
        ("R if off else C", "C"),
        ("R if mode == 'row' else 1 // 0", "R"),
        ("R if x > 0 else n + 1", "R if x > 0 else 3"),
        ("off and 1 // 0 > R", "False"),
        ("1 // 0 > R and off", "False"),
        ("x > 1 // 0 or flip", "True"),
        ("flip and R > 0", "R > 0"),
        ("R > 0 and flip and C > 0", "R > 0 and C > 0"),
        ("off or R > 0 or off", "R > 0"),
        ("flip and flip", "True"),
        ("off or off", "False"),
        ("R > 0 and (flip and C > 0)", "R > 0 and C > 0"),
        ("not present(bias) or bias_rule > 0", "True"),
        ("present(cap) and cap.value > R", "5 > R"),
        ("present(other)", "present(other)"),
        ("layout.kind == 'dense' and layout.cols > 0", "layout.cols > 0"),
        ("layout.kind == 'tiled' and layout.tile > 0", "False"),
        ("(n + 1) * R", "3 * R"),
        ("R * n * n", "R * 2 * 2"),
        ("1 // 0", "1 // 0"),
        ("1 // (n - 2) + R", "1 // 0 + R"),
        ("(1, n)", "(1, 2)"),
        ("(1, R)", "(1, R)"),
        ("len((1, n)) + R", "2 + R"),
        ("broadcast((1, n), (3, 1))", "(3, 2)"),
        ("broadcast((n,), (3,))", "broadcast((2,), (3,))"),
        ("sum(a * n for a in (1, 2))", "6"),
        ("sum(a * R for a in (1, n))", "sum(a * R for a in (1, 2))"),
        ("all(sum(a * b for a in (1, 2)) > 0 for b in (1, 2))", "True"),
        ("all(present(bias) for b in (1,))", "False"),
        ("max((), default=n)", "2"),
        ("max(())", "max(())"),
        ("repeat(1, 3)", "repeat(1, 3)"),
        ("prefix_sum((1, n))", "prefix_sum((1, 2))"),
        ("sum(len(repeat(1, a)) for a in (1, 2))", "sum(len(repeat(1, a)) for a in (1, 2))"),
        ("unheard(1)", "unheard(1)"),
        ("inf * 0", "inf * 0"),
        ("bytes(x)", "bytes(x)"),
        ("S[n:]", "S[2:]"),
        ("-n", "-2"),
        ("category(n)", "'int'"),
    ],
)
def test_fold(text, folded):
    assert to_text(fold(parse_expression(text), KNOWN, PRESENCE)) == folded


def test_fold_takes_sequences_as_tuples():
    folded = fold(parse_expression("dim"), {"dim": [1, [2]]}, {})
    assert folded == Constant((1, (2,)))


def test_reads():
    tree = parse_expression(
        "a.value + b.kind + c.value.f + b.g + sum(d * q for d in e) + present(z) + bytes(w)"
        " + a.value"
    )
    found = reads(tree)
    assert found.names == ("a", "b", "c", "q", "e")
    assert (found.presences, found.sizes) == (("z",), ("w",))
    assert found.payloads == (
        PayloadRead("a", (0, 7)),
        PayloadRead("c", (19, 26)),
        PayloadRead("a", (85, 92)),
    )
    assert found.fields == (FieldRead("c", "f", (19, 28)), FieldRead("b", "g", (31, 34)))
    assert reads(parse_shape("[*S, 2 * N]")).names == ("S", "N")
    assert reads(parse_shape("Store[flip, N]")).names == ("flip", "N")


def test_walk_and_rebuild():
    tree = parse_expression("f(a, k=b) + S[c:]")
    assert [to_text(node) for node in walk(tree)] == [
        "f(a, k=b) + S[c:]", "f(a, k=b)", "a", "b", "S[c:]", "S", "c"
    ]  # fmt: skip
    assert [to_text(child) for child in children(tree)] == ["f(a, k=b)", "S[c:]"]
    assert rebuild(tree, lambda child: child) is tree
    assert to_text(rebuild(tree, lambda child: Constant(1))) == "1 + 1"
    assert deepest(tree, 3) is None
    assert to_text(deepest(tree, 2)) == "a"


T = parse_kind("DType[float16 | int8]")
DTYPES = Position({"T": T, "out": MaybeKind(T), "N": DIM, "odd": UNKNOWN}.get, tensors=("x",))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("T", "DType[float16 | int8]"),
        ("float32", "DType[float32]"),
        ("odd", "?"),
        ("promote_int_to_float(T)", "DType[float16 | float32]"),
        ("coalesce_dtype(out, float32)", "DType[float16 | float32 | int8]"),
        ("coalesce_dtype(out, promote_int_to_float(T))", "DType[float16 | float32 | int8]"),
        ("promote_int_to_float(coalesce_dtype(out, T))", "DType[float16 | float32]"),
    ],
)
def test_dtype_expression(text, kind):
    assert str(infer_dtype(parse_expression(text), DTYPES)) == kind


@pytest.mark.parametrize(
    ("text", "check", "message"),
    [
        ("T if flip else float32", 17, "is not a dtype expression"),
        ("'float32'", 17, "a dtype stands unquoted here: float32"),
        ("out", 17, "out may be absent; use coalesce_dtype(out, …)"),
        ("coalesce_dtype(T, out)", 17, "out may be absent"),
        ("promote_int_to_float(out)", 17, "out may be absent"),
        ("N", 17, "N is Dim, not a dtype"),
        ("x", 17, "x is no dtype, not a dtype"),
        ("Z", 14, "Z is not declared"),
        ("category(T)", 17, "category is not a dtype expression"),
        ("coalesce_dtype(T)", 16, "coalesce_dtype takes 2 positional arguments, got 1"),
        ("3", 17, "3 is not a dtype expression"),
    ],
)
def test_no_dtype_expression(text, check, message):
    with pytest.raises(KindFault) as caught:
        infer_dtype(parse_expression(text), DTYPES)
    assert (caught.value.check, message in str(caught.value)) == (check, True), caught.value
