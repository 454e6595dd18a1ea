"""Inputs whose presence decides about themselves alone: found, and planned as on every branch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from signature.conftest import read
from tileops._core.signature import branches
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.build import build_plan
from tileops._core.signature.guards import NEVER
from tileops.errors import SignatureError

SPEC = """
ManyFwdOp:
  signature:
    forall: {{N: Dim, S: Shape, K: Dim, T: "DType[float16 | float32]", U: "DType[int32]"}}
    params: {{flag: {{type: bool, default: false}}, k: {{type: int, default: 1}}}}
    inputs:
      x: {{dtype: T, shape: "[N, *S]"}}
      z: {{dtype: T, shape: "F[flag, N]"}}
      o: {{dtype: T, shape: "[2 * N + 1, *S]", optional: true, contiguous: true}}
      p: {{{other}, optional: true}}
    outputs: {{y: {{dtype: T, shape: "[{half}]"}}}}
    let: {{half: "N // 2"}}
    types:
      F: {{params: {{f: Bool, n: Dim}}, match: f,
          cases: [{{when: false, is: "[n, 1]"}}, {{when: true, is: "[1, n]"}}]}}
    shape_rules: ["{rule}"]
  roofline: {{flops: "{flops}"}}
"""


def spec_of(other='dtype: float32, shape: "[N]"', rule="k > 0", flops="N", half="half"):
    return read(SPEC.format(other=other, rule=rule, flops=flops, half=half))


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({}, {"o", "p"}),
        ({"rule": "present(o) or N > 0"}, {"p"}),
        ({"flops": "bytes(o)"}, {"p"}),
        ({"other": 'dtype: T, shape: "[K]"', "half": "K"}, {"o"}),
        ({"other": 'dtype: U, shape: "[N]"'}, {"o"}),
        ({"other": 'dtype: T, shape: "[N]", mutated: true'}, {"o"}),
        ({"other": 'dtype: int32, shape: "[N]", values: "full((N,), 1)"'}, {"o"}),
        ({"other": 'dtype: T, shape: "[N - 1]"'}, {"o"}),
        ({"other": 'dtype: T, shape: "[k]"'}, {"o"}),
        ({"other": 'dtype: T, shape: "[half]"'}, {"o"}),
        ({"other": 'dtype: T, shape: "F[flag, N]"'}, {"o"}),
        ({"other": 'dtype: T, shape: "[*S, N]"'}, {"o", "p"}),
    ],
)
def test_which_are_independent(parts, found):
    facts = Analysis(spec_of(**parts)).branches
    assert facts.independent == found
    assert facts.count == 2 ** len(found) * facts.related_count


@pytest.mark.parametrize("other", ['dtype: float32, shape: "[N]"', 'dtype: U, shape: "[K, N]"'])
def test_each_branch_takes_the_steps_that_it_would_take_alone(monkeypatch, other):
    spec = spec_of(other=other)
    short = build_plan(spec)
    monkeypatch.setattr(branches, "independent_inputs", lambda facts: frozenset())
    whole, analysis = build_plan(spec), Analysis(spec)
    assert short.discriminants == whole.discriminants
    assert len(analysis.branches.accepted.points) == 8
    for point in analysis.branches.accepted.points:
        taken = [
            [replace(step, guard=NEVER) for step in plan.call if step.guard.holds(point)]
            for plan in (short, whole)
        ]
        assert taken[0] == taken[1]
    assert short.outputs == whole.outputs
    assert short.effects == whole.effects


def test_calls_of_a_plan_cover_what_may_be_left_out():
    found = list(Analysis(spec_of()).branches.calls())
    assert [tuple(point) for point in found] == [("flag", "o", "p")] * 8
    assert len({tuple(point.values()) for point in found}) == 8


MANY = """
MoreFwdOp:
  signature:
    forall: {N: Dim, T: "DType[float16 | float32]"}
    inputs:
      x: {dtype: T, shape: "[N]"}
INPUTS
    outputs: {y: {dtype: T, shape: "[N]"}}
""".replace(
    "INPUTS",
    "\n".join(f"      o{n}: {{dtype: T, shape: '[N]', optional: true}}" for n in range(20)),
)


def test_twenty_inputs_that_may_be_left_out(op_for):
    op = op_for(MANY)
    x = torch.empty(3)
    record = op.check(x=x, o4=x, o19=x)
    assert [n for n in range(20) if record.present(f"o{n}")] == [4, 19]
    assert record.derived_bytes() == 4 * 12
    assert op.check(x=x).derived_bytes() == 2 * 12
    with pytest.raises(SignatureError, match=r"inputs\.o7\.shape.*axis 0 has length 2, expected 3"):
        op.check(x=x, o4=x, o7=torch.empty(2))
    with pytest.raises(SignatureError, match=r"inputs\.o0\.dtype"):
        op.check(x=x, o0=x.half())


def test_calls_are_as_few_as_cover_each_of_many_inputs():
    found = list(Analysis(read(MANY)).branches.calls())
    assert len(found) == 1 + 1 + 20 + 20
    assert {sum(point.values()) for point in found} == {0, 1, 19, 20}
