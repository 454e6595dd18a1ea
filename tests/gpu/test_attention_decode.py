"""Attention by one query on the device: head sizes, groups, parts, windows, pages, captures."""

from __future__ import annotations

import pytest
import torch

from gpu.paged import TOLERANCE, Pages, check_paged
from tileops.attention import (
    GroupedQueryAttentionDenseFwdOp,
    GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp,
)
from tileops.attention.reference import grouped_query_attention_dense

HALVES = [torch.float16, torch.bfloat16]
LENGTHS = [1, 63, 64, 65, 1000, 4097]


def tensors(draw, batch, keys, heads, kv_heads, width, dtype):
    q = draw(batch, 1, heads, width, dtype=dtype)
    return q, *(draw(batch, keys, kv_heads, width, dtype=dtype) for _ in range(2))


def check(op, *case, **params) -> None:
    """Run and compare with float64 arithmetic on the same inputs."""
    out = op(*case)
    assert out.dtype == case[0].dtype
    assert out.is_contiguous()
    exact = grouped_query_attention_dense(*(part.double() for part in case), **params)
    torch.testing.assert_close(out.double(), exact.double(), **TOLERANCE[out.dtype])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [64, 128, 256])
def test_is_accurate_at_every_length(draw, serving, width, dtype):
    op = GroupedQueryAttentionDenseFwdOp()
    for batch in (1, 40):
        for keys in LENGTHS:
            check(op, *tensors(draw, batch, keys, 4, 2, width, dtype))
    assert serving(op, "dense_attention") == {"DenseAttentionDecodeKernel"}


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (8, 1), (6, 2), (7, 7), (32, 8), (160, 2)])
def test_any_ratio_of_heads(draw, heads, kv_heads):
    op = GroupedQueryAttentionDenseFwdOp()
    check(op, *tensors(draw, 3, 333, heads, kv_heads, 128, torch.bfloat16))


@pytest.mark.parametrize("window", [0, 1, 63, 64, 500, 5000])
def test_windows_and_bounds(draw, window):
    params = {"window_size_left": window, "softcap": 20.0}
    op = GroupedQueryAttentionDenseFwdOp(**params)
    for keys in (1, 64, 700, 2000):
        check(op, *tensors(draw, 2, keys, 8, 2, 128, torch.float16), **params)


def test_no_keys_give_zeros(draw, programs):
    op = GroupedQueryAttentionDenseFwdOp(is_causal=False)
    assert (op(*tensors(draw, 2, 0, 2, 1, 64, torch.float16)) == 0).all()
    assert not programs


def test_lengths_and_batches_share_a_program(draw, programs):
    op = GroupedQueryAttentionDenseFwdOp()
    for batch, keys in ((1, 3000), (3, 70), (64, 1)):
        check(op, *tensors(draw, batch, keys, 4, 2, 128, torch.bfloat16))
    assert len(programs) == 2


@pytest.mark.parametrize("width", [64, 128, 256])
def test_large_calls_give_the_same_again_and_again(draw, width):
    op = GroupedQueryAttentionDenseFwdOp()
    case = tensors(draw, 2, 20000, 16, 4, width, torch.bfloat16)
    first = op(*case)
    for _ in range(50):
        # An error that moves would be a race.
        assert torch.equal(op(*case), first)


CACHED, NEW = [100, 64, 0, 300, 5, 1023], [1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [64, 128, 256])
@pytest.mark.parametrize("page", [8, 16, 64, 256])
def test_pages_of_every_size(draw, serving, page, width, dtype):
    check_paged(draw, CACHED, NEW, 8, 2, width, page, dtype, "PagedDecodeKernel", serving)


@pytest.mark.parametrize("rotary", [32, 64, 128])
def test_rotation_is_exact_at_far_positions(draw, serving, rotary):
    params = {"fuse_rope": True, "rotary_dim": rotary, "max_position": 200_000, "rope_base": 5e5}
    case = ([150_001, 3], [1, 1], 4, 1, 128, 64, torch.bfloat16)
    check_paged(draw, *case, "PagedDecodeKernel", serving, **params)


def test_bounded_scores_over_pages(draw, serving):
    case = (CACHED, NEW, 8, 2, 128, 64, torch.float16)
    check_paged(draw, *case, "PagedDecodeKernel", serving, softcap=10.0)


def test_steps_are_captured_and_replayed_with_other_lengths(draw):
    held = Pages(draw, [500, 70], [1, 1], 2, 128, 64, torch.bfloat16)
    op = GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(64, 1)
    rows = [draw(2, count, 128, dtype=torch.bfloat16) for count in (8, 2, 2)]
    op(*held.arguments(*rows, held.pages))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = op(*held.arguments(*rows, held.pages))
    for _ in range(3):
        held.cached += 1
        rows[0].copy_(draw(2, 8, 128, dtype=torch.bfloat16))
        graph.replay()
        replayed = captured.clone()
        assert torch.equal(op(*held.arguments(*rows, held.pages)), replayed)
