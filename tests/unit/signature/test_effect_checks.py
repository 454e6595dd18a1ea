"""What an operator writes and returns against what is charged a write: agreement and difference."""

from __future__ import annotations

import pytest

from tileops._core.signature import effect_checks
from tileops._core.signature.check import check_spec
from tileops._core.signature.effects import OperatorSchema

SIGNATURE = """
forall: {S: Shape}
params: {in_place: {type: bool}}
inputs:
  acc: {dtype: float32, shape: "[*S]", mutated: in_place}
  old: {dtype: float32, shape: "[*S]", mutated: true, write_only: true}
  bias: {dtype: float32, shape: "[*S]", optional: true, mutated: true}
outputs:
  sum: {dtype: float32, shape: "[*S]", alias: acc}
  more: {dtype: float32, shape: "[*S]", buffer: out}
  last: {dtype: float32, shape: "[*S]", nullable: "present(bias)"}
"""


def test_every_effect_agrees(spec_of):
    assert check_spec(spec_of(SIGNATURE)) == ()


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("written", "the operator writes [], charged are ['old']"),
        ("returned", "the operator returns ['more'], charged are ['more', 'sum']"),
        ("buffered", "the operator returns ['sum'], charged are ['more', 'sum']"),
    ],
)
def test_an_effect_that_the_operator_does_not_have(spec_of, monkeypatch, lost, message):
    """The branch named is the first: nothing optional passed, except `out` where it matters."""

    def without(facts, point) -> OperatorSchema:
        return original(facts, point)._replace(**{lost: ()})

    original = effect_checks.operator_schema
    monkeypatch.setattr(effect_checks, "operator_schema", without)
    found = [finding for finding in check_spec(spec_of(SIGNATURE)) if "[V33]" in finding.message]
    assert {finding.field for finding in found} == {"signature"}
    assert any(finding.message.startswith(f"[V33] {message}") for finding in found), found
    where = {"written": "present(bias)=false", "returned": "in_place=false"}
    assert all(where.get(lost, "present(out)=true") in finding.message for finding in found[:1])
