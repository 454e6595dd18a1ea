"""What the specs cannot say: numbers, and who serves the stages."""

from __future__ import annotations

import pytest
import torch
from tileops import SignatureError, manifest

from tileops_example_pack.ops import CappedLogitsFwdOp, SoftcapFwdOp


def test_small_values_pass_and_large_ones_are_bounded() -> None:
    y = SoftcapFwdOp(cap=2.0)(torch.tensor([1e-3, -1e-3, 1e6, -1e6]))
    torch.testing.assert_close(y, torch.tensor([1e-3, -1e-3, 2.0, -2.0]), rtol=1e-4, atol=1e-6)


def test_logits_are_the_product_bounded() -> None:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(2, 3, 16, generator=generator)
    weight = torch.randn(7, 16, generator=generator)
    op = CappedLogitsFwdOp(cap=5.0)
    expected = 5.0 * torch.tanh(hidden @ weight.T / 5.0)
    torch.testing.assert_close(op(hidden, weight), expected, rtol=1e-5, atol=1e-5)
    stages = op.last_call.stages
    assert [len(stages[name]) for name in ("project", "cap")] == [1, 1]
    assert op.eval_roofline()[0] == 2 * 6 * 16 * 7 + 3 * 6 * 7


def test_one_build_serves_every_size() -> None:
    op = SoftcapFwdOp()
    for count in range(1, 9):
        op(torch.zeros(count))
    assert len(op.built_entries("softcap")) == 1


def test_what_the_spec_forbids_is_refused_in_its_words() -> None:
    with pytest.raises(SignatureError, match='shape_rules.0. "cap > 0" does not hold: cap=-1.0'):
        SoftcapFwdOp(cap=-1.0)


def test_specs_and_code_agree() -> None:
    assert manifest.validate(["SoftcapFwdOp", "CappedLogitsFwdOp"]).findings == []
