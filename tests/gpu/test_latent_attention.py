"""Decoding over latent caches on the device: widths, heads, lengths, parts, repeatability."""

from __future__ import annotations

import pytest
import torch

from gpu.paged import TOLERANCE
from tileops.attention import MultiHeadLatentAttentionDecodeWithKVCacheFwdOp
from tileops.attention.reference import multi_head_latent_attention_decode_with_kv_cache

HALVES = [torch.float16, torch.bfloat16]


def tensors(draw, batch, entries, heads, width, dtype):
    queries = (draw(batch, heads, channels, dtype=dtype) for channels in (width, 64))
    return *queries, *(draw(batch, entries, 1, channels, dtype=dtype) for channels in (width, 64))


def check(op, case) -> None:
    """Run and compare with float64 arithmetic on the same inputs."""
    out = op(*case)
    exact = multi_head_latent_attention_decode_with_kv_cache(
        *(part.double().cpu() for part in case)
    )
    torch.testing.assert_close(out.double().cpu(), exact, **TOLERANCE[out.dtype])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [128, 256, 512])
@pytest.mark.parametrize("entries", [1, 64, 65, 128, 129, 1000, 4099])
def test_is_accurate_at_every_length(draw, serving, entries, width, dtype):
    op = MultiHeadLatentAttentionDecodeWithKVCacheFwdOp()
    for batch in (1, 3):
        check(op, tensors(draw, batch, entries, 64, width, dtype))
    assert serving(op, "latent_decode") == {"LatentDecodePipelinedKernel"}


@pytest.mark.parametrize("width", [128, 512])
@pytest.mark.parametrize("heads", [1, 16, 64, 100, 128])
def test_any_number_of_heads(draw, heads, width):
    op = MultiHeadLatentAttentionDecodeWithKVCacheFwdOp()
    check(op, tensors(draw, 2, 700, heads, width, torch.bfloat16))


def test_no_entries_give_zeros(draw, programs):
    op = MultiHeadLatentAttentionDecodeWithKVCacheFwdOp()
    assert (op(*tensors(draw, 2, 0, 64, 512, torch.float16)) == 0).all()
    assert not programs


@pytest.mark.parametrize("width", [128, 512])
@pytest.mark.parametrize("batch", [1, 40])
def test_large_calls_give_the_same_again_and_again(draw, batch, width):
    op = MultiHeadLatentAttentionDecodeWithKVCacheFwdOp()
    case = tensors(draw, batch, 5000, 128, width, torch.bfloat16)
    first = op(*case)
    for _ in range(50):
        # An error that moves would be a race.
        assert torch.equal(op(*case), first)
