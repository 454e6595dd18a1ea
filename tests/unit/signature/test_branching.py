"""One merged plan does on every branch what that branch needs."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.nodes import Splice
from tileops._core.signature import build_plan
from tileops._core.signature.check import check_spec

DIMS = ["A", "B", "C", "D"]
FORALL = "{A: Dim, B: Dim, C: Dim, D: Dim, S: Shape, U: Shape}"


@st.composite
def axes(draw):
    first, second = draw(st.sampled_from(DIMS)), draw(st.sampled_from(DIMS))
    return draw(
        st.sampled_from(
            [
                first,
                f"2 * {first}",
                f"{first} + {second}",
                f"{first} if flip else 2 * {second}",
                f"{first} if present(x2) else {second}",
                f"{first} + half",
                "*S",
                "*U",
                "*(S if flip else U)",
                f"{first} if mode == 'a' else 3",
            ]
        )
    )


@st.composite
def signatures(draw):
    """The shapes of two required and up to three optional inputs, with values for all names."""
    count = draw(st.integers(0, 3))
    shapes = [f"[{', '.join(draw(st.lists(axes(), max_size=3)))}]" for _ in range(2 + count)]
    for place, solvable in enumerate(("[A, B, *S]", "[C, 2 * D + 1, *U]")):
        if draw(st.integers(0, 3)):
            shapes[place] = solvable
    conditions = ["true", "flip", '"not flip"', '"present(x2)"', "\"mode == 'a'\""]
    optional = ["false", "false", "true"]
    optional += [draw(st.sampled_from(conditions)) for _ in range(count - 1)]
    values = {name: draw(st.integers(0, 6)) for name in DIMS}
    values |= {name: tuple(draw(st.lists(st.integers(0, 3), max_size=2))) for name in "SU"}
    return shapes, optional, values


def text_of(shapes, optional):
    inputs = "".join(
        f'  x{i}: {{dtype: float16, shape: "{shape}", optional: {when}}}\n'
        for i, (shape, when) in enumerate(zip(shapes, optional, strict=False))
    )
    text = (
        f"forall: {FORALL}\n"
        "params: {flip: {type: bool}, mode: {type: \"'a' | 'b'\"}}\n"
        f"inputs:\n{inputs}outputs: {{y: {{dtype: float16, shape: '[half]'}}}}\n"
        'let: {half: "A // 2 if flip else B"}\n'
        "shape_rules: [\"flip or mode == 'a'\"]"
    )
    return text if len(shapes) > 2 else text.replace("present(x2)", "flip")


class Scope:
    def __init__(self, values, shapes):
        self.values, self.shapes = values, shapes

    def value(self, name):
        return self.values[name]

    def present(self, name):
        return name in self.shapes


def length_of(shape, scope):
    result = []
    for axis in shape.node.axes:
        value = evaluate(axis.value if isinstance(axis, Splice) else axis, scope)
        result += value if isinstance(axis, Splice) else [value]
    return tuple(result)


def given_inputs(spec, flip, mode, passed):
    """The inputs that a call has on a branch."""
    names = []
    for name, tensor in spec.signature.inputs.items():
        if tensor.optional is True:
            is_given = passed
        elif tensor.optional is False:
            is_given = True
        else:
            scope = Scope({"flip": flip, "mode": mode}, set(names))
            is_given = evaluate(tensor.optional.node, scope)
        names += [name] if is_given else []
    return names


@settings(max_examples=50, deadline=None)
@given(signatures())
def test_every_branch_recovers_its_indices(spec_of, run_plan, signature):
    shapes, optional, values = signature
    spec = spec_of(text_of(shapes, optional))
    assert spec.faults == ()
    if any(finding.level == "error" for finding in check_spec(spec)):
        return
    plan = build_plan(spec)
    for flip, mode, passed in product((False, True), "ab", (False, True)):
        if not flip and mode == "b":
            continue
        names = given_inputs(spec, flip, mode, passed)
        settled = {**values, "flip": flip, "mode": mode}
        settled["half"] = settled["A"] // 2 if flip else settled["B"]
        scope = Scope(settled, set(names))
        sizes = {name: length_of(spec.signature.inputs[name].shape, scope) for name in names}
        known = run_plan(plan, sizes, flip=flip, mode=mode)
        assert {n: v for n, v in known.items() if "rank" not in n} == {
            n: settled[n] for n in known if "rank" not in n
        }
