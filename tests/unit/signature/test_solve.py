"""What a call solves, in whatever order the declarations are written."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.nodes import Splice
from tileops._core.lang.printer import to_text
from tileops._core.signature import build_plan
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.plan import (
    CheckAxis,
    CheckRank,
    CheckSplice,
    ComputeLet,
    SolveAxis,
    SolveDtype,
    SolveSplice,
)

KINDS = "{M: Dim, N: Dim, K: Dim, S: Shape, U: Shape, T: 'DType[float16 | float32]'}"


def text_of(shapes, lets="", params="", forall=KINDS, rules="[]"):
    inputs = "".join(f"  {name}: {{dtype: T, shape: '{s}'}}\n" for name, s in shapes.items())
    return (
        f"forall: {forall}\n{params}inputs:\n{inputs}"
        f"outputs: {{y: {{dtype: T, shape: '[]'}}}}\n{lets}shape_rules: {rules}"
    )


def solved(spec):
    """The indices and lets of the only branch that have a value after solving."""
    analysis = Analysis(spec)
    (called,) = analysis.calls
    return {n for n in called.known if not n.startswith("rank of")}


RULES = [
    # rule 1
    ({"x": "[M, N]"}, {"M", "N"}),
    ({"x": "[M, M]"}, {"M"}),
    # rule 2
    ({"x": "[M, 2 * N]"}, {"M", "N"}),
    ({"x": "[M + 1]"}, {"M"}),
    ({"x": "[2 * (M + 3)]"}, {"M"}),
    ({"x": "[M + N]", "w": "[N]"}, {"M", "N"}),
    ({"x": "[M - p]"}, {"M"}),
    ({"x": "[p * M]"}, set()),
    ({"x": "[M * N]", "w": "[N]"}, {"N"}),
    ({"x": "[M // 2]"}, set()),
    ({"x": "[M // 2]", "w": "[M]"}, {"M"}),
    # rule 3
    ({"x": "[*S]"}, {"S"}),
    ({"x": "[*S, N]"}, {"S", "N"}),
    ({"x": "[M, *S, N]"}, {"S", "M", "N"}),
    ({"x": "[*S, *U]"}, set()),
    ({"x": "[*S, *U]", "w": "[*U]"}, {"S", "U"}),
    ({"x": "[*S, N, *U]"}, set()),
    ({"x": "[*S, N, *U]", "w": "[*S]"}, {"S", "U", "N"}),
    ({"x": "[*S, *q]"}, {"S"}),
    ({"x": "[*S[1:]]"}, set()),
    # located elements
    ({"x": "[M, *S, N, *U, K]"}, {"M", "K"}),
    ({"x": "[*S[:1], M]", "w": "[*S]"}, {"M", "S"}),
]


@pytest.mark.parametrize(("shapes", "found"), RULES)
def test_rules(spec_of, shapes, found):
    params = "params: {p: {type: int}, q: {type: 'tuple[int, ...]'}}\n"
    used = "".join(shapes.values())
    spec = spec_of(text_of(shapes, params=params))
    assert spec.faults == ()
    assert solved(spec) - {"T"} == found, used


@pytest.mark.parametrize(
    ("shapes", "lets", "found"),
    [
        ({"x": "[K]", "w": "[h, M]"}, {"h": "K // 2"}, {"K", "h", "M"}),
        ({"x": "[K]", "w": "[M + h]"}, {"h": "K // 2"}, {"K", "h", "M"}),
        ({"x": "[K]", "w": "[g * M]"}, {"g": "4"}, {"K", "g", "M"}),
        ({"x": "[*S]", "w": "[*U, *t]"}, {"t": "S[1:]"}, {"S", "t", "U"}),
        ({"x": "[b]", "w": "[K]"}, {"a": "K + 1", "b": "a + 1"}, {"K", "a", "b"}),
    ],
)
def test_lets_are_computed_when_their_names_are_known(spec_of, shapes, lets, found):
    written = "let: {" + ", ".join(f'{n}: "{e}"' for n, e in lets.items()) + "}\n"
    spec = spec_of(text_of(shapes, written))
    assert solved(spec) - {"T"} == found
    names = list(shapes)
    for order in permutations(names):
        again = spec_of(text_of({name: shapes[name] for name in order}, written))
        assert solved(again) - {"T"} == found


def step_texts(plan, *kinds):
    return [
        f"{step.tensor.name} {to_text(step.axis)}" for step in plan.call if isinstance(step, kinds)
    ]


def test_a_factor_that_is_a_parameter_is_only_compared(spec_of):
    plan = build_plan(
        spec_of(text_of({"x": "[M]", "w": "[p * M]"}, params="params: {p: {type: int}}\n"))
    )
    assert step_texts(plan, SolveAxis) == ["x M"]
    assert step_texts(plan, CheckAxis) == ["w p * M"]


def test_ranks_are_checked_before_axes_are_read(spec_of):
    plan = build_plan(spec_of(text_of({"x": "[M, *S, N]", "w": "[*S, K]", "v": "[]"})))
    ranks = [
        (s.tensor.name, s.axes, len(s.splices), s.open) for s in plan.call if type(s) is CheckRank
    ]
    assert ranks == [("x", 2, 0, True), ("w", 1, 1, False), ("v", 0, 0, False)]
    touched: set[str] = set()
    for step in plan.call:
        if isinstance(step, CheckRank):
            touched.add(step.tensor.name)
        elif isinstance(step, SolveAxis | SolveSplice | CheckAxis | CheckSplice):
            assert step.tensor.name in touched


def test_a_rank_is_completed_once_every_run_is_known(spec_of):
    shapes = {"x": "[M, *S, N, *U]", "w": "[*S]", "v": "[*U]"}
    plan = build_plan(spec_of(text_of(shapes)))
    ranks = [
        (len(s.splices), s.open) for s in plan.call if type(s) is CheckRank and s.tensor.name == "x"
    ]
    assert ranks == [(0, True), (2, False)]


def test_a_dtype_is_solved_once_and_compared_elsewhere(spec_of):
    inputs = (
        "inputs: {a: {dtype: 'promote_int_to_float(T)', shape: '[]'}, b: {dtype: T, shape: '[]'}}"
    )
    spec = spec_of(
        f"forall: {{T: 'DType[float16 | int8]'}}\n{inputs}\n"
        "outputs: {y: {dtype: T, shape: '[]'}}"
    )
    kinds = [
        (type(s).__name__, s.tensor.name)
        for s in build_plan(spec).call
        if "Dtype" in type(s).__name__
    ]
    assert kinds == [("SolveDtype", "b"), ("CheckDtype", "a")]


# Random signatures


@st.composite
def axes(draw, known, fresh):
    """An axis that is solvable once the names in `known` are, or only comparable."""
    index = draw(st.sampled_from(fresh))
    scale, offset = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    text = (
        index if scale == 1 else draw(st.sampled_from([f"{scale} * {index}", f"{index} * {scale}"]))
    )
    if known and draw(st.booleans()):
        return f"{text} + {draw(st.sampled_from(known))}"
    return f"{text} + {offset}" if offset else text


DIMS = ["A", "B", "C", "D", "E"]
SHAPES = ["P", "Q"]
FORALL = "{A: Dim, B: Dim, C: Dim, D: Dim, E: Dim, P: Shape, Q: Shape, T: 'DType[float16]'}"


@st.composite
def signatures(draw):
    """Shapes of a few inputs, with values for all names."""
    shapes = []
    for _ in range(draw(st.integers(1, 5))):
        parts = draw(st.lists(axes(DIMS, DIMS), min_size=0, max_size=3))
        runs = draw(st.lists(st.sampled_from(["*P", "*Q", "*P[:1]", "*(2, 3)"]), max_size=2))
        for run in runs:
            parts.insert(draw(st.integers(0, len(parts))), run)
        shapes.append(f"[{', '.join(parts)}]")
    values = {name: draw(st.integers(0, 9)) for name in DIMS}
    values |= {name: tuple(draw(st.lists(st.integers(0, 4), max_size=3))) for name in SHAPES}
    return shapes, values


class Scope:
    def __init__(self, values):
        self.values = values

    def value(self, name):
        return self.values[name]


def length_of(shape, values):
    result = []
    for axis in shape.node.axes:
        value = evaluate(axis.value if isinstance(axis, Splice) else axis, Scope(values))
        result += value if isinstance(axis, Splice) else [value]
    return tuple(result)


@settings(max_examples=60, deadline=None)
@given(signatures(), st.randoms(use_true_random=False))
def test_the_set_of_solved_indices_does_not_depend_on_the_order(spec_of, signature, random):
    shapes, _ = signature
    named = {f"x{i}": shape for i, shape in enumerate(shapes)}
    found = solved(spec_of(text_of(named, forall=FORALL)))
    for _ in range(3):
        order = list(named)
        random.shuffle(order)
        again = {name: named[name] for name in order}
        assert solved(spec_of(text_of(again, forall=FORALL))) == found


@settings(max_examples=60, deadline=None)
@given(signatures(), st.data())
def test_a_plan_recovers_the_indices_and_rejects_other_shapes(
    spec_of, run_plan, violation, signature, data
):
    shapes, values = signature
    named = {f"x{i}": shape for i, shape in enumerate(shapes)}
    spec = spec_of(text_of(named, forall=FORALL))
    analysis = Analysis(spec)
    (called,), (usage,) = analysis.calls, analysis.usages
    if any(name not in called.known for root in usage.roots for name in root.names):
        return  # not solvable; the checks reject such a spec
    plan = build_plan(spec)
    given_shapes = {name: length_of(t.shape, values) for name, t in spec.signature.inputs.items()}
    known = run_plan(plan, given_shapes)
    used = set().union(*(root.names for root in usage.roots)) - {"T"}
    assert {name: known[name] for name in used} == {name: values[name] for name in used}
    spoil(data, run_plan, violation, plan, spec, given_shapes)


def spoil(data, run_plan, violation, plan, spec, given_shapes):
    """Change one axis; what is accepted then must be a solution again."""
    candidates = [name for name, shape in given_shapes.items() if shape]
    if not candidates:
        return
    name = data.draw(st.sampled_from(candidates))
    place = data.draw(st.integers(0, len(given_shapes[name]) - 1))
    changed = list(given_shapes[name])
    changed[place] += data.draw(st.sampled_from([1, 2, 5]))
    spoiled = {**given_shapes, name: tuple(changed)}
    try:
        found = run_plan(plan, spoiled)
    except violation:
        return
    for tensor in spec.signature.inputs.values():
        assert length_of(tensor.shape, found) == spoiled[tensor.name]
    assert math.prod(len(shape) + 1 for shape in spoiled.values()) > 0


def test_steps_are_in_one_order_for_all_branches_that_rotate(spec_of, run_plan):
    """Three branches solve three indices from each other's sums in rotated order."""
    inputs = "".join(
        f"  {name}: {{dtype: float16, shape: '{shape}'}}\n"
        for name, shape in (("x", "[A + C]"), ("y", "[B + A]"), ("z", "[C + B]"))
    )
    inputs += "".join(
        f"  {name}: {{dtype: float16, shape: '[{index}]', optional: true}}\n"
        for name, index in (("p", "A"), ("q", "B"), ("r", "C"))
    )
    spec = spec_of(
        f"forall: {{A: Dim, B: Dim, C: Dim}}\ninputs:\n{inputs}"
        "outputs: {o: {dtype: float16, shape: '[A, B, C]'}}\n"
        "shape_rules: ['present(p) or present(q) or present(r)']"
    )
    plan = build_plan(spec)
    whole = {"x": (4,), "y": (5,), "z": (7,), "p": (1,), "q": (4,), "r": (3,)}
    for given_names in ("p", "q", "r", "pq", "qr", "pr", "pqr"):
        shapes = {n: s for n, s in whole.items() if n in "xyz" or n in given_names}
        known = run_plan(plan, shapes)
        assert (known["A"], known["B"], known["C"]) == (1, 4, 3)


def test_plans_are_deterministic(spec_of):
    text = text_of({"x": "[M, *S, N]", "w": "[*S, K]"}, "let: {k: 'K + M'}\n", rules="['k > 0']")
    assert build_plan(spec_of(text)) == build_plan(spec_of(text))
    steps = [type(step) for step in build_plan(spec_of(text)).call]
    assert steps.index(ComputeLet) > max(i for i, s in enumerate(steps) if s is SolveAxis)
    assert steps.index(SolveDtype) < steps.index(CheckRank)
