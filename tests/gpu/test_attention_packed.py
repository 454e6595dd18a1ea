"""Attention of packed requests on the device: lengths, windows, pages, rotation, repeatability."""

from __future__ import annotations

import pytest
import torch

from gpu.paged import TOLERANCE, check_paged
from tileops.attention import GroupedQueryAttentionVarlenFwdOp
from tileops.attention.reference import grouped_query_attention_varlen

HALVES = [torch.float16, torch.bfloat16]
ROWS, COLUMNS = [100, 0, 512, 1, 300, 700, 5], [3000, 50, 512, 999, 0, 300, 5]


def tensors(draw, rows, columns, heads, kv_heads, width, dtype):
    """Operands of packed requests; what lies behind the last request's keys is NaN."""
    q = draw(sum(rows), heads, width, dtype=dtype)
    memory = torch.full((2, sum(columns) + 200, kv_heads, width), torch.nan, device="cuda").to(
        dtype
    )
    memory[:, : sum(columns)] = draw(2, sum(columns), kv_heads, width, dtype=dtype)
    starts = [torch.tensor([0, *part]).cumsum(0).int().cuda() for part in (rows, columns)]
    return q, *memory[:, : sum(columns)], *starts


def check(op, case, **params) -> None:
    """Run and compare with float64 arithmetic on the same inputs."""
    out = op(*case)
    exact = grouped_query_attention_varlen(
        *(part.double() for part in case[:3]), *case[3:], **params
    )
    assert out.is_contiguous()
    torch.testing.assert_close(out.double(), exact.double(), **TOLERANCE[out.dtype])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("width", [64, 128, 256])
def test_requests_of_any_lengths(draw, serving, width, is_causal, dtype):
    op = GroupedQueryAttentionVarlenFwdOp(is_causal=is_causal)
    case = tensors(draw, ROWS, COLUMNS, 4, 2, width, dtype)
    check(op, case, is_causal=is_causal)
    assert serving(op, "varlen_attention") == {"VarlenAttentionPipelinedKernel"}


@pytest.mark.parametrize("width", [64, 128, 256])
@pytest.mark.parametrize(("left", "right"), [(0, -1), (100, -1), (33, 20), (-1, 7)])
def test_windows(draw, left, right, width):
    params = {"window_size_left": left, "window_size_right": right, "is_causal": right < 0}
    op = GroupedQueryAttentionVarlenFwdOp(**params)
    check(op, tensors(draw, ROWS, COLUMNS, 4, 2, width, torch.bfloat16), **params)


def test_bounded_scores(draw):
    op = GroupedQueryAttentionVarlenFwdOp(softcap=10.0)
    check(op, tensors(draw, ROWS, COLUMNS, 8, 1, 128, torch.float16), softcap=10.0)


@pytest.mark.parametrize("requests", [1, 31, 32, 33, 300])
def test_any_number_of_requests(draw, requests):
    lengths = [(7 * i) % 40 for i in range(requests)]
    op = GroupedQueryAttentionVarlenFwdOp()
    check(op, tensors(draw, lengths or [3], lengths or [3], 2, 1, 128, torch.bfloat16))


def test_lengths_share_a_program(draw, programs):
    op = GroupedQueryAttentionVarlenFwdOp()
    for rows in ([5], [300, 2], [1] * 50):
        check(op, tensors(draw, rows, rows, 4, 2, 128, torch.bfloat16))
    assert len(programs) == 1


def test_large_calls_give_the_same_again_and_again(draw):
    op = GroupedQueryAttentionVarlenFwdOp()
    case = tensors(draw, [4000, 1, 2777], [4000, 1, 3000], 16, 4, 128, torch.bfloat16)
    first = op(*case)
    for _ in range(50):
        # An error that moves would be a race.
        assert torch.equal(op(*case), first)


CACHED, NEW = [100, 64, 0, 300, 5, 1023], [40, 1, 200, 0, 129, 64]
KERNEL = "PagedPrefillPipelinedKernel"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [64, 128, 256])
@pytest.mark.parametrize("page", [8, 16, 64, 192, 256])
def test_pages_of_every_size(draw, serving, page, width, dtype):
    check_paged(draw, CACHED, NEW, 8, 2, width, page, dtype, KERNEL, serving)


@pytest.mark.parametrize(("width", "rotary"), [(64, 64), (128, 32), (128, 128), (256, 256)])
def test_rotation(draw, serving, width, rotary):
    params = {"fuse_rope": True, "rotary_dim": rotary, "max_position": 1000, "rope_base": 5e5}
    case = (CACHED, NEW, 4, 1, width, 64, torch.bfloat16)
    check_paged(draw, *case, KERNEL, serving, **params)


def test_every_key_and_bounded_scores(draw, serving):
    case = (CACHED, NEW, 8, 2, 128, 64, torch.float16)
    check_paged(draw, *case, KERNEL, serving, softcap=10.0, is_causal=False)
