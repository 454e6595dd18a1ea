"""Numbers and tensors that the signature admits and nothing can hold."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tileops.errors import SignatureError

HUGE = 10**5000
SHOWN = "an integer of 16610 bits"

FLAT = """
FlatFwdOp:
  signature:
    forall: {S: Shape, T: "DType[float16 | float64]"}
    params:
      n: {type: int}
      gain: {type: float, default: 1.0}
      sizes: {type: "list[int]", default: [1]}
      held: {dtype: float32, shape: "[*reduced(S, (), False, 'noop')]", optional: true}
    inputs: {x: {dtype: T, shape: "[*S]"}}
    outputs: {y: {dtype: T, shape: "[*S, n]"}}
    shape_rules: ["n * gain > -1.0", "prod(sizes) > 0"]
"""


@pytest.fixture
def flat(op_for):
    return lambda n=1, **values: op_for(
        FLAT, **{"n": n, "gain": 1.0, "sizes": [1], "held": None, **values}
    )


def fault_of(call):
    with pytest.raises(SignatureError) as caught:
        call()
    assert type(caught.value) is SignatureError
    return f"{caught.value.phase} {caught.value.declaration}: {caught.value.fault}"


ONES = "shape (1, 1, 1, 1, 1, 1, 1, 1, …)"


def test_tensors_have_at_most_64_axes(flat):
    assert flat().check(x=torch.ones([1] * 63).half()).shape("y") == (1,) * 64
    x = torch.ones([1] * 70).half()
    text = f'call inputs.x.shape "[*S]": expected at most 64 axes, got 70: {ONES}'
    for _ in range(2):
        assert fault_of(lambda: flat().check(x=x)) == text
    assert fault_of(lambda: flat().plan.output_shapes(flat(), {"x": (1,) * 70})) == text
    text = f'call outputs.y.shape "[*S, n]": would have 65 axes, more than 64: {ONES}'
    assert fault_of(lambda: flat().check(x=torch.ones([1] * 64).half())) == text
    assert fault_of(lambda: flat().plan.output_shapes(flat(), {"x": (1,) * 64})) == text
    fault = fault_of(lambda: flat(held=torch.ones([1] * 65)))
    assert fault.startswith("construction params.held.shape ")
    assert fault.endswith(f": expected at most 64 axes, got 65: {ONES}")


def test_outputs_have_at_most_as_many_bytes_as_can_be_counted(flat):
    half, double = torch.ones(2).half(), torch.ones(2).double()
    assert flat(2**60).check(x=half).shape("y") == (2, 2**60)
    text = f'call outputs.y.shape "[*S, n]": (2, {2**60}) float64 is more than memory can hold'
    assert fault_of(lambda: flat(2**60).check(x=double)) == text
    text = (
        'call outputs.y.shape "[*S, n]": (2, an integer of 997 bits) is more than memory can hold'
    )
    op = flat(10**300)
    assert fault_of(lambda: op.plan.output_shapes(op, {"x": (2,)})) == text
    empty = torch.empty(0).half()
    assert flat(2**63 - 1).check(x=empty).shape("y") == (0, 2**63 - 1)
    assert "is more than memory can hold" in fault_of(lambda: flat(2**63).check(x=empty))


def test_lengths_that_no_tensor_has(flat):
    op = flat()
    fault = fault_of(lambda: op.plan.output_shapes(op, {"x": (3, HUGE)}))
    assert fault == f'call inputs.x.shape "[*S]": no tensor is so long: shape (3, {SHOWN})'


def test_sizes_of_a_trace_are_not_judged(flat):
    mode = FakeTensorMode(shape_env=ShapeEnv())
    dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC])
    x = mode.from_tensor(torch.ones(3).half(), symbolic_context=dynamic)
    op = flat(2**62)
    assert "more than memory" in fault_of(lambda: op.check(x=torch.ones(3).half()))
    assert op.plan.check(op, {"x": x}).shape("y")[1] == 2**62


def test_numbers_that_are_too_large_for_floats(flat):
    text = 'construction params.gain.type "float": expected a number that a float can hold, got '
    assert fault_of(lambda: flat(gain=10**400)) == f"{text}an integer of 1329 bits"
    assert fault_of(lambda: flat(gain=-HUGE)) == f"{text}{SHOWN}"
    assert flat(gain=10**308)._construction_indices.parameters["gain"] == 10**308
    fault = fault_of(lambda: flat(HUGE, gain=0.5))
    assert fault.startswith(
        'construction shape_rules[0] "n * gain > -1.0": n * gain: int too large'
    )
    assert f"n={SHOWN}" in fault


def test_computed_numbers_that_are_too_large(flat):
    fault = fault_of(lambda: flat(sizes=[HUGE, 2]))
    gist = 'construction shape_rules[1] "prod(sizes) > 0": prod: an integer of more than 4096 bits'
    assert fault.startswith(gist)


DOMAINS = {
    "unique_axes(n, 1)": f"unique_axes: axis {SHOWN} is out of range for rank 1 (n={SHOWN})",
    "ceil_div(1, -n) > 0": f"ceil_div needs b > 0, got b={SHOWN}",
    "per_axis(sizes, 0, n) > 0": f"per_axis needs {SHOWN} values, got 1",
    "per_axis(sizes, n, 1) > 0": f"per_axis needs 0 <= i < n, got i={SHOWN}, n=1",
    "mhc.expansion(-n) > 0": f"mhc.expansion needs q = n * n + 2 * n for some n > 0, got q={SHOWN}",
    "sizes[n] > 0": f"no item {SHOWN} of",
}


@pytest.mark.parametrize("rule", DOMAINS)
def test_failures_show_large_numbers_by_their_size(op_for, rule):
    text = FLAT.replace("prod(sizes) > 0", rule).replace("n * gain > -1.0", "gain > 0")
    fault = fault_of(lambda: op_for(text, n=HUGE, gain=1.0, sizes=[1], held=None))
    assert f'"{rule}": ' in fault
    assert DOMAINS[rule] in fault
    assert len(fault) < 300
