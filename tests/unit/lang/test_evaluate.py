"""Evaluation: values, failures with their place, bounded cost; generators and predicates."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace

import pytest

from tileops._core.lang.evaluate import evaluate, generate, holds
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.limits import MAX_ITEMS, MAX_STEPS
from tileops._core.lang.parser import parse_expression
from tileops._core.lang.primitives.sampling import generator_for
from tileops._core.lang.values import AdtView
from tileops.manifest import primitives

VALUES = {
    "R": 3,
    "C": 5,
    "z": 0,
    "S": (2, 3),
    "L": [2, 3],
    "H": 9,
    "k": 3,
    "s": 0,
    "flip": True,
    "mode": "row",
    "T": "float16",
    "gain": 0.5,
    "cap": None,
    "given": 4,
    "big": 1 << 4000,
    "layout": AdtView("tiled", {"tile": 4, "order": "row"}),
    "held": SimpleNamespace(kind="masked", max_m=2),
    "many": tuple(range(1000)),
    "phase": 1 + 2j,
}


class Scope:
    """The names of VALUES, and tensors of 7 bytes."""

    def value(self, name):
        return VALUES[name]

    def present(self, name):
        return VALUES.get(name) is not None

    def bytes(self, name):
        if VALUES.get(name, 0) is None:
            raise KeyError(name)
        return 7


def value(text):
    return evaluate(parse_expression(text), Scope())


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("R * C - 1", 14),
        ("-R // 2", -2),
        ("-R % 2", 1),
        ("R - 2 * C", -7),
        ("R * gain", 1.5),
        ("inf > R", True),
        ("0 < R <= 3", True),
        ("0 < R < 3", False),
        ("S == (2, 3)", True),
        ("L == S", True),
        ("L != (2, 4)", True),
        ("S < (2, 4)", True),
        ("R in S", True),
        ("R not in (1, 2)", True),
        ("(1, 2) in ((1, 2), (3, 4))", True),
        ("mode == 'row' and T != 'int8'", True),
        ("not flip or R > 2", True),
        ("flip or 1 // z > 0", True),
        ("not flip and 1 // z > 0", False),
        ("R if flip else 1 // z", 3),
        ("S[-1] + S[0]", 5),
        ("S[:1]", (2,)),
        ("L[::-1]", [3, 2]),
        ("(R, C)[1]", 5),
        ("()", ()),
        ("given.value + 1", 5),
        ("layout.kind", "tiled"),
        ("layout.value.tile", 4),
        ("held.max_m", 2),
        ("present(cap)", False),
        ("present(given)", True),
        ("bytes(x) * 2", 14),
        ("sum(a * R for a in S)", 15),
        ("max(a for a in S)", 3),
        ("max(a for a in (), default=2)", 2),
        ("all(all(a + b > 3 for a in S) for b in S)", True),
        ("all(a > 2 for a in S)", False),
        ("len(many)", 1000),
        ("ceil_div(R, 2)", 2),
        ("broadcast(S, (1,))", (2, 3)),
        ("per_axis((None, 2), 0, 2, fallback=R)", 3),
        ("coalesce_dtype(cap, T)", "float16"),
        ("repeat(1, 3)", [1, 1, 1]),
        ("1e300 * 1e300", math.inf),
        ("None if flip else R", None),
    ],
)
def test_value(text, result):
    found = value(text)
    assert found == result
    assert type(found) is type(result)


FAULTS = {
    "R // z": "R // z divides by 0",
    "R % (C - 5)": "R % (C - 5) divides by 0",
    "S[2]": "S[2]: no item 2 of (2, 3)",
    "S[-3]": "S[-3]: no item -3 of (2, 3)",
    "R[0]": "no item 0 of 3",
    "S[::z]": "slice step cannot be zero",
    "ghost + 1": "ghost is not known",
    "log2(R)": "log2 is not a built-in",
    "cap.value": "cap is absent",
    "bytes(cap)": "cap is absent",
    "layout.cols": "layout has no cols: it is tiled(tile=4, order='row')",
    "'a' * R": "'a' is 'a', no number",
    "S + S": "S is (2, 3), no number",
    "not R": "R is 3, no truth value",
    "R and flip": "R is 3, no truth value",
    "1 if R else 2": "R is 3, no truth value",
    "phase < 1": "not supported between instances",
    "phase // 2": "phase // 2: ",
    "R < mode": "not supported between instances",
    "R in C": "not iterable",
    "all(a for a in R)": "R is 3, no sequence",
    "pool.out(H, k, s, 0, 1, False)": "pool.out needs stride > 0, got stride=0 (H=9, k=3)",
    "ceil_div(R, C - 5)": "ceil_div needs b > 0, got b=0 (R=3)",
    "max(())": "max of no items needs a default",
    "per_axis(S, R, 2)": "per_axis needs 0 <= i < n, got i=3, n=2 (S=(2, 3))",
    "broadcast(S, (4,))": "broadcast: sizes 3 and 4 do not agree (S=(2, 3))",
    "reduced(S, 7, False, 'full')": "reduced: axis 7 is out of range for rank 2 (S=(2, 3))",
    "mhc.expansion(R + 1)": "needs q = n * n + 2 * n for some n > 0, got q=4",
    "prod(mode)": "prod:",
    "big * big": "big * big: an integer of more than 4096 bits",
    "prod((big, big))": "prod: an integer of more than 4096 bits",
    "gain + big": "int too large to convert to float",
}


@pytest.mark.parametrize("text", FAULTS)
def test_failure(text):
    with pytest.raises(EvaluationFault) as caught:
        value(text)
    assert FAULTS[text] in str(caught.value)
    assert caught.value.span != (0, 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("repeat(1, 10000000000)", f"repeat makes at most {MAX_ITEMS} items"),
        ("balanced_sizes(5, 10000000000)", "balanced_sizes makes at most"),
        (" * ".join(["big"] * 90), "an integer of more than 4096 bits"),
        ("sum(sum(sum(a for a in many) for b in many) for c in many)", f"more than {MAX_STEPS}"),
        ("all(all(many == many for a in many) for b in many)", f"more than {MAX_STEPS}"),
        ("all(all(sum(many) > 1 for a in many) for b in many)", f"more than {MAX_STEPS}"),
        ("all(all(len(many[:]) > 1 for a in many) for b in many)", f"more than {MAX_STEPS}"),
    ],
)
def test_cost_is_bounded(text, reason):
    start = time.process_time()
    with pytest.raises(EvaluationFault, match=reason):
        value(text)
    assert time.process_time() - start < 5


def test_a_variable_ends_with_its_form():
    with pytest.raises(EvaluationFault, match="a is not known"):
        value("sum(a for a in S) + a")


def test_generate():
    call = parse_expression("prefix_sum(balanced_sizes(R + C, 3))")
    assert generate(call, Scope(), "Op:t") == ((4,), [0, 3, 6, 8])
    call = parse_expression("topk_ids(R, 2, C)")
    expected = primitives.topk_ids(3, 2, 5, rng=generator_for("Op:t"))
    assert generate(call, Scope(), "Op:t") == expected
    with pytest.raises(EvaluationFault, match=r"topk_ids needs k <= experts, got k=9, experts=5"):
        generate(parse_expression("topk_ids(R, H, C)"), Scope(), "Op:t")
    with pytest.raises(EvaluationFault, match=f"key_windows makes at most {MAX_ITEMS} items"):
        text = "key_windows((20000000,), 0, 20000000, 'end')"
        generate(parse_expression(text), Scope(), "Op:t")


def test_holds():
    call = parse_expression("prefix_offsets(R + C)")
    assert holds(call, [0, 3, 8], Scope())
    assert not holds(call, [0, 3], Scope())
    with pytest.raises(EvaluationFault, match="chunk_offsets_of needs c > 0, got c=0"):
        holds(parse_expression("chunk_offsets_of(S, z)"), [0], Scope())
