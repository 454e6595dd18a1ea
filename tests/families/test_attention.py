"""Packed attention: accuracy against float64, alignment, windows, caps, rope, float8, isolation."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from torch import Tensor

from tileops.attention import GroupedQueryAttentionVarlenFwdOp, reference
from tileops.attention.kernels import VarlenAttentionCall, VarlenAttentionPortableKernel
from tileops.errors import SignatureError

BOUND = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Tolerance by the result's dtype; float8 inputs are judged by 5e-2."""

LENGTHS = [
    ([3, 3, 5], [3, 3, 5]),
    ([2, 0, 7, 7, 1], [5, 4, 7, 7, 0]),
    ([5, 1, 6], [2, 9, 3]),
    ([1, 1, 1], [5, 5, 6]),
    ([33], [65]),
]


def offsets(lengths: list[int]) -> Tensor:
    """Where each request begins, and the end."""
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


def packed(draw, lengths, *, heads=4, kv_heads=2, width=16, dtype=torch.float32):
    """q, k, v and both offsets."""
    q_lens, kv_lens = lengths
    shapes = (sum(q_lens), heads), (sum(kv_lens), kv_heads), (sum(kv_lens), kv_heads)
    q, k, v = (draw(*shape, width, dtype=dtype) for shape in shapes)
    return q, k, v, offsets(q_lens), offsets(kv_lens)


def tables(draw, rows: int, half: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of random angles."""
    angles = draw(rows, half, scale=3.0)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def expected(*tensors, **params) -> Tensor:
    return reference.grouped_query_attention_varlen(*tensors, **params)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("is_causal", [True, False])
def test_is_accurate(draw, close, dtype, lengths, is_causal):
    tensors = packed(draw, lengths, dtype=dtype)
    op = GroupedQueryAttentionVarlenFwdOp(is_causal=is_causal)
    close(op(*tensors), expected(*tensors, is_causal=is_causal), BOUND[dtype])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("window", [(2, -1), (0, 0), (-1, 1), (3, 2), (100, 100)], ids=str)
@pytest.mark.parametrize("is_causal", [True, False])
def test_windows(draw, close, lengths, window, is_causal):
    tensors = packed(draw, lengths)
    params = {
        "is_causal": is_causal,
        "window_size_left": window[0],
        "window_size_right": window[1],
    }
    op = GroupedQueryAttentionVarlenFwdOp(**params)
    close(op(*tensors), expected(*tensors, **params), 1e-5)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("params", [{"softcap": 2.0}, {"softcap": 0.0}, {"sm_scale": 0.7}], ids=str)
def test_caps_and_scales(draw, close, dtype, lengths, params):
    tensors = packed(draw, lengths, dtype=dtype)
    op = GroupedQueryAttentionVarlenFwdOp(**params)
    close(op(*tensors), expected(*tensors, **params), BOUND[dtype])


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [None, 6])
def test_rope(draw, close, dtype, layout, rotary_dim):
    tensors = packed(draw, ([2, 4, 1], [6, 4, 3]), dtype=dtype)
    params = {"pos_encoding_mode": "rope", "rotary_dim": rotary_dim, "rope_layout": layout}
    rope = tables(draw, 6, (rotary_dim or 16) // 2, dtype)
    op = GroupedQueryAttentionVarlenFwdOp(**params, validate_inputs=True)
    actual = op(*tensors, rope_cos=rope[0], rope_sin=rope[1])
    close(actual, expected(*tensors, None, None, None, *rope, **params), BOUND[dtype])


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("extra", [{}, {"softcap": 3.0}, {"pos_encoding_mode": "rope"}], ids=str)
def test_float8(draw, close, out_dtype, extra):
    tensors = packed(draw, ([2, 3], [4, 5]), dtype=torch.float8_e4m3fn)
    scales = [draw(2, 2).abs() + 0.5 for _ in range(3)]
    rope = tables(draw, 5, 8, out_dtype) if "pos_encoding_mode" in extra else ()
    op = GroupedQueryAttentionVarlenFwdOp(out_dtype=out_dtype, **extra)
    wanted = expected(*tensors, *scales, *rope, out_dtype=out_dtype, **extra)
    close(op(*tensors, *scales, *rope), wanted, 5e-2)


@pytest.mark.parametrize("heads", [(4, 4), (6, 1), (12, 4)], ids=str)
@pytest.mark.parametrize("width", [1, 5, 64, 80])
def test_heads_and_widths(draw, close, heads, width):
    tensors = packed(draw, LENGTHS[1], heads=heads[0], kv_heads=heads[1], width=width)
    close(GroupedQueryAttentionVarlenFwdOp()(*tensors), expected(*tensors), 1e-5)


def test_rows_that_see_nothing_are_zero(draw):
    tensors = packed(draw, ([5, 2], [2, 0]))
    out = GroupedQueryAttentionVarlenFwdOp()(*tensors)
    assert not out[:3].any()
    assert not out[5:].any()
    assert out[3:5].all()


def test_no_query_is_an_empty_result(draw):
    out = GroupedQueryAttentionVarlenFwdOp()(*packed(draw, ([0, 0], [3, 0])))
    assert out.shape == (0, 4, 16)


def test_views(draw, close):
    q, k, v, *cu = packed(draw, ([4, 4], [4, 4]), heads=8, width=32)
    views = q[:, ::2, ::2], k[:, :, 1::2], v.flip(0)[:, :, :16]
    close(GroupedQueryAttentionVarlenFwdOp()(*views, *cu), expected(*views, *cu), 1e-5)


def kernel(**changes) -> VarlenAttentionPortableKernel:
    """A portable kernel whose calls may be sent down either path."""
    facts = {
        "heads": 4, "kv_heads": 2, "head_dim": 16, "is_causal": True, "window_left": -1,
        "window_right": -1, "sm_scale": 0.25, "softcap": 0.0, "rotary_dim": 0,
        "rope_layout": "neox", "dtype": torch.float32, "out_dtype": torch.float32,
    }  # fmt: skip
    return VarlenAttentionPortableKernel(VarlenAttentionCall(**{**facts, **changes}))


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("window", [(-1, -1), (2, -1), (3, 2)], ids=str)
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_one_mask_gives_what_requests_one_by_one_give(
    draw, close, lengths, window, is_causal, softcap
):
    left, right = window
    served = kernel(is_causal=is_causal, window_left=left, window_right=right, softcap=softcap)
    tensors = packed(draw, lengths)
    close(served._under_mask(*tensors).contiguous(), served._by_request(*tensors), 1e-5)


@pytest.mark.parametrize("special", [torch.nan, torch.inf])
@pytest.mark.parametrize("spoilt", ["k", "v"])
@pytest.mark.parametrize("path", ["_under_mask", "_by_request"])
def test_special_values_stay_in_their_request(draw, special, spoilt, path):
    q, k, v, *cu = packed(draw, ([3, 3, 3], [3, 3, 3]))
    {"k": k, "v": v}[spoilt][4] = special
    out = getattr(kernel(is_causal=False), path)(q, k, v, *cu)
    assert out[:3].isfinite().all()
    assert out[6:].isfinite().all()
    assert not out[3:6].isfinite().all()


@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("cu_seqlens_q", [0, 3, 7]),
        ("cu_seqlens_q", [1, 3, 8]),
        ("cu_seqlens_kv", [0, 6, 5]),
        ("cu_seqlens_kv", [0, 4, 9]),
    ],
)
def test_validation_names_the_offsets(draw, name, starts):
    q, k, v, cu_q, cu_kv = packed(draw, ([3, 5], [3, 5]))
    given = {"cu_seqlens_q": cu_q, "cu_seqlens_kv": cu_kv}
    given[name] = torch.tensor(starts, dtype=torch.int32)
    with pytest.raises(SignatureError, match=r"offsets start at 0, never decrease") as raised:
        GroupedQueryAttentionVarlenFwdOp(validate_inputs=True)(q, k, v, **given)
    assert raised.value.declaration.startswith(f"inputs.{name}.requires[0]")
    assert raised.value.phase == "call"


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_positions_outside_the_tables_read_the_nearest_row(draw, close, rows):
    tensors = packed(draw, ([4, 2], [3, 7]))
    rope = tables(draw, rows, 8, torch.float32)
    params = {"pos_encoding_mode": "rope", "is_causal": False}
    actual = GroupedQueryAttentionVarlenFwdOp(**params)(*tensors, None, None, None, *rope)
    close(actual, expected(*tensors, None, None, None, *rope, **params), 1e-5)


def test_lengths_do_not_make_entries(draw):
    op = GroupedQueryAttentionVarlenFwdOp()
    for length in range(1, 9):
        op(*packed(draw, ([1, length], [length, length])))
    assert len(op.built_entries("varlen_attention")) == 1


@pytest.mark.parametrize(
    ("params", "scores", "keys"),
    [
        ({"is_causal": False}, 2 * 5 + 3 * 3, 8),
        ({}, 4 + 5 + 1 + 2 + 3, 8),
        ({"window_size_left": 1}, 2 + 2 + 1 + 2 + 2, 3 + 3),
        ({"is_causal": False, "window_size_left": 0, "window_size_right": 0}, 5, 2 + 3),
        ({"softcap": 4.0}, 15, 8),
    ],
    ids=str,
)
def test_roofline_counts_visible_scores_and_reached_keys(draw, params, scores, keys):
    op = GroupedQueryAttentionVarlenFwdOp(**params)
    op(*packed(draw, ([2, 3], [5, 3])))
    per_score = 4 * 16 + 5 + (3 if "softcap" in params else 0)
    rows = 2 * 5 * 4 * 16 + 2 * keys * 2 * 16
    assert op.eval_roofline() == (4 * (scores * per_score + 5 * 16), 4 * rows + 2 * 3 * 4)
    assert op.roof_key() == "tensor_core.tf32"
