"""Kind inference: what each form stands for, and the numbered fault of each misuse."""

from __future__ import annotations

import pytest

from tileops._core.lang.faults import KindFault
from tileops._core.lang.infer import infer
from tileops._core.lang.kind_text import parse_kind
from tileops._core.lang.kinds import (
    BOOL,
    DIM,
    INT,
    INTS,
    SHAPE,
    UNKNOWN,
    VALUE,
    AdtKind,
    MaybeKind,
    SeqKind,
    union,
)
from tileops._core.lang.parser import parse_expression
from tileops._core.lang.positions import Position

T = parse_kind("DType[float16 | float32]")
NAMES = {
    "R": DIM,
    "C": DIM,
    "n": INT,
    "flip": BOOL,
    "S": SHAPE,
    "L": INTS,
    "mode": parse_kind("'slow' | 'exact'"),
    "T": T,
    "gain": VALUE,
    "cap": MaybeKind(INT),
    "pad": union([INT, parse_kind("'same'")]),
    "maybe_pad": MaybeKind(union([INT, parse_kind("'same'")])),
    "k": union([INT, SeqKind(INT, 2)]),
    "dim": MaybeKind(union([INT, INTS])),
    "out_dtype": MaybeKind(T),
    "layout": AdtKind("RowStore"),
    "maybe_layout": MaybeKind(AdtKind("RowStore")),
    "odd": UNKNOWN,
    "lost": AdtKind("Lost"),
}
ADTS = {
    "RowStore": {
        "dense": {"cols": DIM},
        "tiled": {"tile": DIM, "order": parse_kind("'row' | 'col'"), "cols": INT},
    }
}
BARRED = {"lens": "lens is readable in `values` only"}
POSITION = Position(NAMES.get, BARRED.get, tensors=("x", "y", "bias", "out"), adts=ADTS)
ROOFLINE = Position(NAMES.get, tensors=("x", "out"), sizes=True)
VALUES = Position({**NAMES, "lens": INTS}.get, root="generator")
REQUIRES = Position({**NAMES, "offsets": INTS}.get, root="predicate")


def kind_of(text, position=POSITION, wanted=None):
    return str(infer(parse_expression(text), position, wanted))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("3", "Dim"),
        ("-3", "Int"),
        ("1.5", "Value"),
        ("inf", "Value"),
        ("True", "Bool"),
        ("'a'", "'a'"),
        ("2 * C + R", "Dim"),
        ("R - C", "Int"),
        ("-R", "Int"),
        ("R // 2", "Dim"),
        ("R % 2", "Dim"),
        ("R // n", "Int"),
        ("R // C", "Int"),
        ("n // 2", "Int"),
        ("R * gain", "Value"),
        ("-gain", "Value"),
        ("R > 0 and not flip", "Bool"),
        ("0 < R <= C", "Bool"),
        ("R == C", "Bool"),
        ("S == (1, R)", "Bool"),
        ("L == S", "Bool"),
        ("T == 'float16'", "Bool"),
        ("gain == 'anything'", "Bool"),
        ("S < (1, 2)", "Bool"),
        ("R in S", "Bool"),
        ("mode in ('slow', 'exact')", "Bool"),
        ("R if flip else 1", "Dim"),
        ("R if flip else n", "Int"),
        ("R if flip else None", "Maybe[Dim]"),
        ("S if flip else (1, n)", "Seq[Int]"),
        ("'a' if flip else 'b'", "'a' | 'b'"),
        ("T if flip else 'int8'", "DType[float16 | float32 | int8]"),
        ("S[0]", "Dim"),
        ("S[1:]", "Shape"),
        ("L[n]", "Int"),
        ("(R, n)", "Seq[Int] of 2"),
        ("()", "Seq[nothing] of 0"),
        ("cap.value + 1", "Int"),
        ("layout.kind", "'dense' | 'tiled'"),
        ("layout.tile", "Dim"),
        ("layout.cols", "Int"),
        ("maybe_layout.value.order", "'col' | 'row'"),
        ("present(cap) or present(x) or present(out)", "Bool"),
        ("all(a > 0 for a in S)", "Bool"),
        ("sum(a * n for a in S)", "Int"),
        ("sum(S)", "Dim"),
        ("prod(L)", "Int"),
        ("len(S)", "Dim"),
        ("max((R, C))", "Int"),
        ("max((), default=R)", "Int"),
        ("broadcast(S, (R, 1))", "Shape"),
        ("reduced(S, dim, flip, 'full')", "Shape"),
        ("valid_axes(dim, len(S)) and unique_axes(None, 2)", "Bool"),
        ("per_axis(k, 0, 2)", "Int"),
        ("per_axis(cap, 0, 2, fallback=R)", "Int"),
        ("ceil_div(R, 2)", "Dim"),
        ("ceil_div(n, 2)", "Int"),
        ("coalesce_dtype(out_dtype, T)", "DType[float16 | float32]"),
        ("coalesce_dtype(None, 'int8')", "'int8'"),
        ("promote_int_to_float('int8')", "DType[float32]"),
        ("promote_int_to_float(T)", "DType[float16 | float32]"),
        ("category(gain)", "'bool' | 'complex' | 'float' | 'int'"),
        ("category(T) == category(flip)", "Bool"),
        ("representable(gain, T)", "Bool"),
        ("mhc.expansion(R)", "Dim"),
        ("pool.out(R, 3, 2, 0, 1, flip)", "Dim"),
        ("odd + 1", "?"),
        ("odd == 'x'", "Bool"),
        ("odd[0]", "?"),
        ("odd.value", "?"),
        ("odd.field", "?"),
        ("lost.anything", "?"),
        ("present(odd)", "Bool"),
    ],
)
def test_kind_of(text, kind):
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "0 if pad == 'same' else pad * 2",
        "pad * 2 if pad != 'same' else 0",
        "0 if 'same' == pad else pad * 2",
        "pad * 2 if not pad == 'same' else 0",
        "pad * 2 if pad not in ('same',) else 0",
        "pad == 'same' or pad > 0",
        "pad != 'same' and pad > 0",
        "not (pad == 'same' or flip) and pad > 0",
        "0 if pad == 'same' and True else 1",
        "maybe_pad.value != 'same' and maybe_pad.value > 0",
        "maybe_pad.value == 'same' or maybe_pad.value > 0",
        "not present(cap) or cap.value > 0",
        "cap.value if present(cap) else R",
        "R if mode == 'slow' else (C if mode == 'exact' else mode + 1)",
    ],
)
def test_narrowing_admits(text):
    infer(parse_expression(text), POSITION)


@pytest.mark.parametrize(
    "text",
    [
        "pad * 2 if pad == 'same' else 0",
        "pad == 'same' and pad > 0",
        "pad != 'same' or pad > 0",
        "pad == 'same' and flip or pad > 0",
    ],
)
def test_narrowing_does_not_admit(text):
    with pytest.raises(KindFault) as caught:
        infer(parse_expression(text), POSITION)
    assert caught.value.check == 15


FAULTS = {
    "x.shape == (R, C)": (13, '`shape: "[R, C]"` on x'),
    "(R,) == x.shape": (13, '`shape: "[R]"` on x'),
    "x.shape == (R, len(S))": (13, '`shape: "[R, len(S)]"` on x'),
    "x.shape[0] == R": (13, "the shape of a tensor is not read"),
    "y.shape == x.shape": (13, "give y and x the same term"),
    "ghost.shape == (R,)": (13, "on ghost"),
    "half == C // 2": (13, 'let: {half: "C // 2"}'),
    "C // 2 == half": (13, 'let: {half: "C // 2"}'),
    "x.ndim == 2": (13, "`len(S)`"),
    "x.dtype == T": (13, "use the dtype index"),
    "S.count(1)": (13, "S.count is not in the language; use a primitive"),
    "S.size": (13, "use a primitive"),
    "(R).kind": (13, "use a primitive"),
    "(S if flip else S).kind": (13, "use a primitive"),
    "max(R, C)": (13, "max takes one sequence; write `max((R, C))`"),
    "None": (13, "None stands only as"),
    "(R, None)": (13, "None stands only as"),
    "R + Z": (14, "Z is not declared"),
    "lens[0]": (14, "lens is readable in `values` only"),
    "x + 1": (14, "x is a tensor; its contents are no value"),
    "float16": (14, "write it quoted, 'float16'"),
    "present(R)": (14, "R is never absent"),
    "present(lens)": (14, "lens is readable in `values` only"),
    "present(Z)": (14, "Z is not declared"),
    "bytes(x)": (14, "roofline formulas only"),
    "layout.rows": (14, "RowStore has no field rows"),
    "all(R > 0 for R in S)": (14, "R is declared already"),
    "all(x > 0 for x in S)": (14, "x is declared already"),
    "all(all(a > 0 for a in S) for a in S)": (14, "a is declared already"),
    "flip + 1": (15, "flip is Bool where a number is needed"),
    "-mode": (15, "where a number is needed"),
    "not R": (15, "R is Dim where Bool is needed"),
    "flip and R": (15, "R is Dim where Bool is needed"),
    "R if R else C": (15, "R is Dim where Bool is needed"),
    "mode == 'fast'": (15, "'fast' is not one of 'exact' | 'slow'"),
    "'fast' == mode": (15, "'fast' is not one of"),
    "mode in ('slow', 'fast')": (15, "'fast' is not one of"),
    "T == 'float17'": (15, "'float17' is not one of DType[float16 | float32]"),
    "R == flip": (15, "R is Dim and flip is Bool, which are never equal"),
    "R == S": (15, "which are never equal"),
    "R in (flip, True)": (15, "which are never equal"),
    "'a' in mode": (15, "where a sequence is needed"),
    "S < 3": (15, "`<` orders numbers or sequences, not Shape and Dim"),
    "mode < mode": (15, "`<` orders numbers or sequences"),
    "R[0]": (15, "R is Dim where a sequence is needed"),
    "k[0]": (15, "where a sequence is needed"),
    "S[gain]": (15, "gain is Value where Int is needed"),
    "S[gain:]": (15, "gain is Value where Int is needed"),
    "(R, 'a')": (15, "the items of a tuple are of one kind, not Dim, 'a'"),
    "R if flip else 'a'": (15, "the arms are Dim and 'a'"),
    "R if flip else gain": (15, "the arms are Dim and Value"),
    "cap + 1": (15, "cap may be absent; read cap.value"),
    "cap == 1": (15, "cap may be absent; read cap.value"),
    "cap": (15, "cap may be absent; read cap.value"),
    "1 == (R if flip else None)": (15, "may be absent and is not compared"),
    "R.value": (15, "R is never absent; read R itself"),
    "maybe_layout.kind": (15, "read maybe_layout.value.kind"),
    "all(a for a in R)": (15, "R is Dim where a sequence is needed"),
    "log2(R)": (16, "log2 is not a built-in primitive"),
    "ceildiv(R, 2)": (16, "did you mean 'ceil_div'?"),
    "pool.inn(R)": (16, "pool.inn is not a built-in primitive"),
    "ceil_div(R)": (16, "ceil_div takes (a, b), got 1 argument"),
    "ceil_div(R, 2, 3)": (16, "got 3 arguments"),
    "broadcast()": (16, "broadcast takes (shape, …), got 0 arguments"),
    "ceil_div(R, b=2)": (16, "takes no argument by the name b (none)"),
    "max(S, start=2)": (16, "takes no argument by the name start (default)"),
    "per_axis(k, 0, 2, 1, fallback=2)": (16, "fallback is given twice"),
    "ceil_div(R, 0)": (16, "ceil_div needs b > 0, got b=0"),
    "moe.capacity(layout, R, 2)": (16, "needs MGroupedLayout for layout, got RowStore"),
    "reduced(S, dim, flip, 'all')": (16, "for mode, got 'all'"),
    "broadcast(R)": (16, "needs Shape for shape, got Dim"),
    "category(mode)": (16, "for value, got 'exact' | 'slow'"),
    "category(S)": (16, "for value, got Shape"),
    "representable(gain, 'float17')": (16, "needs DType for d"),
    "representable(T, T)": (16, "for value"),
    "all(a for a in S)": (16, "needs Seq[Bool] for items, got Shape"),
    "prefix_sum(L)": (16, "prefix_sum is a generator, which stands in `values` only"),
    "in_range(0, 1)": (16, "in_range is a predicate, which stands in `requires` only"),
    "repeat(1, 4)": (16, "stands in rows and generator arguments only"),
    "R // 0": (29, "R // 0 divides by 0"),
    "R % (0)": (29, "divides by 0"),
    "(R, C)[2]": (29, "(R, C)[2] is out of range: (R, C) is Seq[Dim] of 2"),
    "(R, C)[-3]": (29, "out of range"),
    "()[0]": (29, "out of range"),
    "S[1::0]": (29, "S[1::0] steps by 0"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_fault(text):
    check, message = FAULTS[text]
    with pytest.raises(KindFault) as caught:
        infer(parse_expression(text), POSITION)
    assert (caught.value.check, message in str(caught.value)) == (check, True), caught.value


def test_fault_points_at_the_part():
    text = "R > 0 and C + Z > 0"
    with pytest.raises(KindFault) as caught:
        infer(parse_expression(text), POSITION)
    assert text[slice(*caught.value.span)] == "Z"


def test_wanted_kind_is_required():
    with pytest.raises(KindFault, match="flip is Bool where Int is needed"):
        kind_of("flip", wanted=INT)
    assert kind_of("R", wanted=INT) == "Dim"


def test_bare_maybe_stands_only_where_a_maybe_is_wanted():
    assert kind_of("cap", wanted=MaybeKind(INT)) == "Maybe[Int]"
    assert kind_of("None", wanted=MaybeKind(INT)) == "None"
    assert kind_of("R", wanted=MaybeKind(INT)) == "Dim"


def test_long_subjects_are_cut():
    with pytest.raises(KindFault) as caught:
        kind_of(" + ".join(["R"] * 40), wanted=BOOL)
    assert len(str(caught.value)) < 100


def test_roofline_measures_tensors():
    assert kind_of("2 * bytes(x)", ROOFLINE) == "Dim"
    for name in ("z", "out"):
        with pytest.raises(KindFault, match=f"{name} names no tensor") as caught:
            kind_of(f"bytes({name})", ROOFLINE)
        assert caught.value.check == 23


def test_generator_position():
    assert kind_of("prefix_sum(lens)", VALUES) == "Seq[Int]"
    assert kind_of("prefix_sum(balanced_sizes(R, 4))", VALUES) == "Seq[Int]"
    assert kind_of("key_windows(lens, 0, max((n, 0)), 'end')", VALUES) == "Seq[Int]"
    for text, message in {
        "repeat(1, 4)": "repeat is not a generator",
        "lens": "expected a call of a generator",
        "prefix_sums(lens)": "prefix_sums is not a generator; did you mean 'prefix_sum'?",
        "prefix_sum(chunk_offsets(lens, 2))": "chunk_offsets is a generator",
        "chunk_indices(lens, 0)": "chunk_indices needs c > 0, got c=0",
        "key_windows(lens, -1, 2, 'end')": "key_windows needs first >= 0, got first=-1",
        "key_windows(lens, 0, 2, 'middle')": "for side, got 'middle'",
    }.items():
        with pytest.raises(KindFault) as caught:
            kind_of(text, VALUES)
        assert caught.value.check == 16
        assert message in str(caught.value)


def test_predicate_position():
    assert kind_of("chunk_offsets_of(offsets, R)", REQUIRES) == "Bool"
    assert kind_of("in_range(0, 2 * R)", REQUIRES) == "Bool"
    with pytest.raises(KindFault, match="prefix_sum is not a predicate"):
        kind_of("prefix_sum(offsets)", REQUIRES)


@pytest.mark.parametrize("form", ["0 if 0 < ({}) < 9 else 1", "1 if ({}) in (2, 3) else 4"])
def test_cost_does_not_grow_with_nesting(form):
    text = "R"
    for _ in range(25):
        text = form.format(text)
    infer(parse_expression(text), POSITION)
