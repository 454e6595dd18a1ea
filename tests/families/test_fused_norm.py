"""Norms fused with quantisation and with rotation: accuracy, saturation, writes in place."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from tileops.errors import SignatureError
from tileops.norm import FusedAddRMSNormPerTokenQuantFwdOp, FusedQKNormRoPEFwdOp, reference

HALF = [torch.float16, torch.bfloat16]
DTYPES = [*HALF, torch.float32]
QUANT = [torch.float8_e4m3fn, torch.int8]


def tensors(draw, dtype, *shape):
    return draw(*shape, dtype=dtype), draw(*shape, dtype=dtype), draw(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("quant", QUANT)
@pytest.mark.parametrize("bound", [None, 1.5])
def test_rows_are_quantised(draw, close, dtype, quant, bound):
    given = tensors(draw, dtype, 3, 5, 130)
    params = {"quant_dtype": quant, "scale_ub": bound}
    q, scale, total = FusedAddRMSNormPerTokenQuantFwdOp(**params)(*given)
    expected = reference.fused_add_rms_norm_per_token_quant(*given, **params)
    close(total, expected[2], 0)
    close(scale, expected[1])
    canonical = partial(
        reference.fused_add_rms_norm_per_token_quant_canonical,
        x=given[0], residual=given[1], weight=given[2], **params,
    )  # fmt: skip
    assert torch.equal(canonical((q,))[0], canonical(expected[:1])[0])
    largest = 127 if quant is torch.int8 else 448
    top = q.float().abs().amax(-1)
    assert (top >= largest).all() if bound else torch.equal(top, torch.full((3, 5), float(largest)))


@pytest.mark.parametrize("quant", QUANT)
def test_dequantised_rows_are_near(draw, quant):
    given = tensors(draw, torch.bfloat16, 4, 256)
    q, scale, total = FusedAddRMSNormPerTokenQuantFwdOp(quant)(*given)
    y = reference.rms_norm(total.double(), given[2].double(), normalized_shape=(256,), eps=1e-6)
    error = (q.double() * scale - y).abs()
    step = scale.double() / 2 if quant is torch.int8 else y.abs() / 16 + scale.double() * 2**-10
    assert (error <= step * 1.001).all()


@pytest.mark.parametrize("quant", QUANT)
def test_either_code_of_a_number_halfway_is_right_and_no_other(quant):
    """Half of the largest code: 63.5 of int8, which becomes 63 or 64, and 224 of float8, exact."""
    x = torch.tensor([[1.0, 0.5]], dtype=torch.float16)
    given = (x, torch.zeros_like(x), torch.ones(2, dtype=torch.float16))
    code, *_ = reference.fused_add_rms_norm_per_token_quant(*given, quant_dtype=quant)
    forms = {
        bits: reference.fused_add_rms_norm_per_token_quant_canonical(
            ((code.view(torch.uint8) + torch.tensor([[0, bits]], dtype=torch.uint8)).view(quant),),
            *given, quant_dtype=quant,
        )[0].tolist()
        for bits in (0, 1, 254, 255)
    }  # fmt: skip
    right = [bits for bits, form in forms.items() if form == forms[0]]
    assert right == ([0, 255] if quant is torch.int8 else [0])


@pytest.mark.parametrize("quant", QUANT)
def test_a_row_of_zeros_has_a_finite_scale(quant):
    zeros = torch.zeros(2, 8, dtype=torch.float16)
    q, scale, _ = FusedAddRMSNormPerTokenQuantFwdOp(quant)(zeros, zeros, zeros[0] + 1)
    assert scale.flatten().tolist() == [1.0, 1.0]
    assert not q.float().any()


@pytest.mark.parametrize("quant", QUANT)
def test_a_bound_saturates(quant):
    x = torch.tensor([[1.0, 1.0, -1.0, -1.0]], dtype=torch.float16)
    op = FusedAddRMSNormPerTokenQuantFwdOp(quant, scale_ub=0.5)
    q, scale, _ = op(x, torch.zeros_like(x), torch.ones(4, dtype=torch.float16))
    low, high = (-128.0, 127.0) if quant is torch.int8 else (-448.0, 448.0)
    assert q.float().tolist() == [[high, high, low, low]]
    assert scale.item() == pytest.approx(0.5 / high)


def test_what_is_refused(draw):
    with pytest.raises(SignatureError, match="eps > 0"):
        FusedAddRMSNormPerTokenQuantFwdOp(eps=0.0)
    with pytest.raises(SignatureError, match="scale_ub"):
        FusedAddRMSNormPerTokenQuantFwdOp(scale_ub=0.0)
    with pytest.raises(SignatureError, match="float32 is not in T"):
        FusedAddRMSNormPerTokenQuantFwdOp()(*tensors(draw, torch.float32, 2, 4))
    with pytest.raises(SignatureError, match="N > 0"):
        FusedAddRMSNormPerTokenQuantFwdOp()(*tensors(draw, torch.float16, 2, 0))


def heads(draw, dtype=torch.float32, cache=torch.float32, tokens=7, width=8, rotated=6):
    """Rows of three query heads and two key and value heads, weights, table, positions."""
    angles = draw(20, rotated // 2)
    table = torch.cat((angles.cos(), angles.sin()), 1).to(cache)
    weights = draw(width, dtype=dtype), draw(width, dtype=dtype)
    positions = torch.arange(tokens) * 3 % 20
    return draw(tokens, 7 * width, dtype=dtype), *weights, table, positions


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cache", DTYPES)
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("rotated", [2, 6, 8])
def test_heads_are_normalised_and_rotated(draw, close, dtype, cache, layout, rotated):
    given = heads(draw, dtype, cache, rotated=rotated)
    expected = given[0].clone()
    params = {"num_heads": 3, "num_kv_heads": 2, "rope_layout": layout}
    reference.fused_qk_norm_rope(expected, *given[1:], **params)
    values = given[0][:, 5 * 8 :].clone()
    assert FusedQKNormRoPEFwdOp(**params)(*given) is None
    close(given[0], expected)
    assert torch.equal(given[0][:, 5 * 8 :], values)


def test_views_are_written_through(draw, close):
    qkv, *others = heads(draw)
    expected = qkv.clone()
    FusedQKNormRoPEFwdOp(3, 2)(expected, *others)
    base = torch.zeros(56, 14)
    view = base.T[::2]
    view.copy_(qkv)
    FusedQKNormRoPEFwdOp(3, 2)(view, *others)
    close(view.contiguous(), expected)
    assert not base.T[1::2].any()
    with pytest.raises(SignatureError, match=r"qkv.*overlaps itself"):
        FusedQKNormRoPEFwdOp(3, 2)(qkv[:1].expand(7, 56), *others)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"rotated": 10}, "R <= D"),
        ({"rotated": 0}, "0 < R"),
        ({"width": 9, "rotated": 6}, None),
    ],
)
def test_widths_that_fit_or_not(draw, change, fault):
    given = heads(draw, **change)
    op = FusedQKNormRoPEFwdOp(3, 2)
    if fault is None:
        op(*given)
    else:
        with pytest.raises(SignatureError, match=fault):
            op(*given)


def test_rows_of_another_width_are_refused(draw):
    given = heads(draw)
    with pytest.raises(SignatureError, match=r"qkv\.shape.*axis 1 has length 56, expected 40"):
        FusedQKNormRoPEFwdOp(1, 2)(*given)
    with pytest.raises(SignatureError, match="R % 2 == 0"):
        FusedQKNormRoPEFwdOp(3, 2)(*given[:3], given[3][:, :5], given[4])
    with pytest.raises(SignatureError, match="num_heads > 0"):
        FusedQKNormRoPEFwdOp(0, 2)


@pytest.mark.parametrize("tokens", [7, 30])
def test_values_and_unread_rows_of_the_table_cost_nothing(draw, tokens):
    given = heads(draw, torch.float16, torch.float32, tokens)
    op = FusedQKNormRoPEFwdOp(3, 2)
    op(*given)
    flops, traffic = op.eval_roofline()
    assert flops == tokens * 5 * (4 * 8 + 3 * 6)
    rows = min(tokens, 20)
    assert traffic == 2 * 2 * tokens * 5 * 8 + 2 * 2 * 8 + 8 * tokens + 4 * rows * 6


def test_infinities_stay_in_their_head(draw):
    given = heads(draw)
    given[0][2, 9] = math.inf
    FusedQKNormRoPEFwdOp(3, 2)(*given)
    spoilt = given[0].view(7, 7, 8).isnan().any(-1)
    assert spoilt.nonzero().tolist() == [[2, 1]]
