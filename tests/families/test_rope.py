"""Rotary embeddings: accuracy against float64, tables that grow, scaling, limits, views."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from tileops.errors import SignatureError
from tileops.rope import (
    LongRoPEBwdOp,
    LongRoPEFwdOp,
    RoPEBwdOp,
    RoPEFwdOp,
    RoPELlama31FwdOp,
    RoPENeoxPositionIdsBwdOp,
    RoPENeoxPositionIdsFwdOp,
    YaRNFwdOp,
    reference,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
INF, NAN = math.inf, math.nan
VARIANTS = {
    "plain": (RoPEFwdOp, reference.rope, {}),
    "interleaved": (RoPEFwdOp, reference.rope, {"rope_layout": "interleaved", "base": 500.0}),
    "llama": (RoPELlama31FwdOp, reference.rope_llama31, {"base": 500000.0}),
    "llama-short": (RoPELlama31FwdOp, reference.rope_llama31, {"original_max_position": 64}),
    "yarn": (YaRNFwdOp, reference.yarn, {}),
    "yarn-small": (YaRNFwdOp, reference.yarn, {"scale": 0.5, "attn_factor": 0.7}),
    "yarn-step": (YaRNFwdOp, reference.yarn, {"beta_fast": 9e9, "beta_slow": 8e9}),
    "long": (LongRoPEFwdOp, reference.long_rope, {"max_position_embeddings": 131072}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", VARIANTS)
def test_is_accurate(draw, close, dtype, name):
    op, expected, params = VARIANTS[name]
    row = draw(300, 64, dtype=dtype)
    close(op(**params)(row), expected(row, **params))
    heads = draw(2, 33, 3, 8, dtype=dtype)
    params = {**params, "input_layout": "2d"}
    close(op(**params)(heads), expected(heads, **params))


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_the_gradient_turns_back(draw, layout):
    x = draw(1, 300, 2, 64)
    there = RoPEFwdOp(layout, "2d")(x)
    torch.testing.assert_close(RoPEBwdOp(layout, "2d")(there), x, rtol=0, atol=1e-5)


def test_the_gradient_has_the_amplitude_of_the_rotation(draw):
    x = draw(300, 64)
    params = {"max_position_embeddings": 131072}
    there, back = LongRoPEFwdOp(**params), LongRoPEBwdOp(**params)
    torch.testing.assert_close(back(there(x)), x * there.amplitude() ** 2, rtol=0, atol=1e-5)


def test_channels_beside_the_rotated_ones_have_their_gradient_bit_for_bit(draw):
    grad, positions = draw(5, 2, 12), torch.tensor([3, 0, 1, 7, 7])
    op = RoPENeoxPositionIdsBwdOp(8, rotary_dim=8)
    assert torch.equal(op(grad, positions)[..., 8:], grad[..., 8:])


@pytest.mark.parametrize("name", VARIANTS)
def test_views(draw, close, name):
    op, _, params = VARIANTS[name]
    op = op(**params, input_layout="2d")
    base = draw(3, 4, 9, 20)
    for x in (base.transpose(1, 2), base[:, 1:, ::2, 2:10], base[:1, :, :1].expand(2, 4, 5, 20)):
        close(op(x), op(x.clone()), 0)
    close(op(base[..., ::2]), op(base[..., ::2].clone()), 0)


def test_large_positions_are_accurate(draw, close):
    x = draw(131072, 4)
    close(RoPEFwdOp()(x), reference.rope(x))
    close(RoPELlama31FwdOp()(x), reference.rope_llama31(x))


def test_the_table_grows_and_rarely(draw, close):
    op = RoPEFwdOp()
    made = set()
    for length in (5, 3, 6, 7, 8, 9, 2):
        x = draw(length, 8)
        close(op(x), reference.rope(x))
        made.add(op.tables[8, x.device].cos.data_ptr())
    assert len(made) == 2
    x = draw(4, 16)
    close(op(x), reference.rope(x))
    assert {width for width, _ in op.tables} == {8, 16}


def test_the_table_grows_between_compiled_calls(draw, close):
    torch._dynamo.reset()
    op = RoPEFwdOp()
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (4, 300, 20):
        x = draw(length, 8)
        close(compiled(x), reference.rope(x))


def test_copies_rotate_alike(draw):
    x = draw(5, 8)
    op = YaRNFwdOp()
    result = op(x)
    for twin in (copy.copy(op), copy.deepcopy(op)):
        assert torch.equal(twin(x), result)


def test_lengths_share_one_entry(draw):
    op = RoPEFwdOp(input_layout="2d")
    for shape in ((1, 2, 3, 8), (2, 5, 4, 8), (3, 9, 1, 8)):
        op(draw(*shape))
    assert len(op.built_entries("rotary")) == 1


def test_position_0_is_scaled_and_nothing_else(draw, close):
    x = draw(1, 8)
    close(RoPEFwdOp()(x), x, 0)
    close(YaRNFwdOp()(x), x * (0.1 * math.log(16) + 1))
    longer = LongRoPEFwdOp(max_position_embeddings=4096**2)
    close(longer(x), x * math.sqrt(2))


@pytest.mark.parametrize("op", [RoPEFwdOp, RoPELlama31FwdOp, YaRNFwdOp, LongRoPEFwdOp])
def test_odd_and_empty_heads_are_refused(draw, op):
    for width in (7, 0):
        with pytest.raises(SignatureError, match=rf"D % 2 == 0.*D={width}"):
            op()(draw(3, width))
    assert op()(draw(0, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    ("op", "params"),
    [
        (RoPEFwdOp, {"base": 0.0}),
        (RoPEFwdOp, {"base": NAN}),
        (RoPELlama31FwdOp, {"scale_factor": 0.0}),
        (RoPELlama31FwdOp, {"low_freq_factor": NAN}),
        (RoPELlama31FwdOp, {"high_freq_factor": 1.0}),
        (YaRNFwdOp, {"base": 1.0}),
        (YaRNFwdOp, {"scale": 0.0}),
        (YaRNFwdOp, {"original_max_position": 0}),
        (YaRNFwdOp, {"beta_fast": INF}),
        (YaRNFwdOp, {"beta_slow": 0.0}),
        (LongRoPEFwdOp, {"max_position_embeddings": 0}),
        (LongRoPEFwdOp, {"original_max_position_embeddings": 1}),
        (RoPENeoxPositionIdsFwdOp, {"max_position": 0}),
        (RoPENeoxPositionIdsFwdOp, {"max_position": 2**31 + 1}),
        (RoPENeoxPositionIdsFwdOp, {"max_position": 9, "base": -1.0}),
    ],
)
def test_parameters_out_of_range_are_refused(op, params):
    with pytest.raises(SignatureError, match="shape_rules") as raised:
        op(**params)
    assert raised.value.phase == "construction"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", DTYPES)
def test_factors_of_every_dtype(draw, close, dtype, factor):
    factors = (1 + draw(4).abs()).to(factor)
    params = {"rescale_factors": factors, "max_position_embeddings": 8192}
    x = draw(50, 8, dtype=dtype)
    close(LongRoPEFwdOp(**params)(x), reference.long_rope(x, **params))


def test_infinite_factors_stop_a_pair_and_nan_spoils_it(draw, close):
    x = draw(6, 4)
    factors = torch.tensor([INF, NAN])
    y = LongRoPEFwdOp(rescale_factors=factors)(x)
    close(y[:, ::2].clone(), x[:, ::2].clone(), 0)
    assert y[:, 1::2].isnan().all()


def test_factors_must_be_one_per_pair(draw):
    op = LongRoPEFwdOp(rescale_factors=torch.ones(3))
    with pytest.raises(SignatureError, match=r'rescale_factors\.shape "\[D // 2\]"'):
        op(draw(5, 8))


def test_other_factors_give_another_table(draw, close):
    x = draw(7, 4)
    op = LongRoPEFwdOp(rescale_factors=torch.ones(2))
    close(op(x), reference.rope(x))
    op.rescale_factors = torch.tensor([2.0, 3.0])
    close(op(x), reference.long_rope(x, rescale_factors=op.rescale_factors))


def test_factors_changed_in_place_give_another_table(draw, close):
    x = draw(7, 4)
    op = LongRoPEFwdOp(rescale_factors=torch.ones(2))
    for factor in (2.0, 3.0):
        op(x)
        op.rescale_factors.mul_(factor)
        close(op(x), reference.long_rope(x, rescale_factors=op.rescale_factors))
    assert op.table(7, 4, x.device) is op.table(7, 4, x.device)


def test_factors_that_count_no_changes(draw, close):
    x = draw(7, 4)
    with torch.inference_mode():
        factors = torch.tensor([2.0, 3.0])
    op = LongRoPEFwdOp(rescale_factors=factors)
    for _ in range(2):
        close(op(x), reference.long_rope(x, rescale_factors=factors))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("rotary_dim", [None, 6, 2, 10])
def test_positions_are_rotated_as_given(draw, close, dtype, ids, rotary_dim):
    x = draw(9, 3, 10, dtype=dtype)
    positions = torch.tensor([0, 1, 2, 0, 7, 99, 3, 3, 50], dtype=ids)
    params = {"max_position": 100, "rotary_dim": rotary_dim}
    expected = reference.rope_neox_position_ids(x, positions, **params)
    op = RoPENeoxPositionIdsFwdOp(**params)
    close(op(x, positions), expected)
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    close(op(turned, positions.repeat(2, 1).T[:, 0]), expected)


def test_positions_beyond_any_table_are_computed(draw, close):
    x = draw(3, 2, 4)
    positions = torch.tensor([5, 2**30, 2**31 - 1])
    params = {"max_position": 2**31}
    op = RoPENeoxPositionIdsFwdOp(**params)
    close(op(x, positions), reference.rope_neox_position_ids(x, positions, **params))
    assert not op.tables


def test_channels_that_are_not_rotated_arrive_bit_for_bit():
    x = torch.zeros(2, 1, 6, dtype=torch.float16)
    x[..., 4] = NAN
    x[..., 5] = -0.0
    x.view(torch.int16)[..., 4] += 3  # a NaN with a payload
    y = RoPENeoxPositionIdsFwdOp(8, rotary_dim=4)(x, torch.tensor([1, 2]))
    assert torch.equal(y[..., 4:].view(torch.int16), x[..., 4:].view(torch.int16))


@pytest.mark.parametrize("rotary_dim", [0, -2, 3, 12])
def test_a_rotary_width_that_does_not_fit_is_refused(draw, rotary_dim):
    with pytest.raises(SignatureError, match="r <= D and r % 2 == 0"):
        RoPENeoxPositionIdsFwdOp(8, rotary_dim=rotary_dim)(draw(2, 1, 10), torch.arange(2))
