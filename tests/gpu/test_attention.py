"""Dense attention on the device: head sizes, groups, masks, tails, views, repeatability, builds."""

from __future__ import annotations

import pytest
import torch

from tileops.attention import GroupedQueryAttentionDenseFwdOp
from tileops.attention.kernels import DenseAttentionCall, DenseAttentionPipelinedKernel
from tileops.attention.reference import grouped_query_attention_dense

HALVES = [torch.float16, torch.bfloat16]
# Weights are rounded before they meet values of order one, and the result once more.
TOLERANCE = {
    torch.float16: {"rtol": 2.0**-9, "atol": 1e-3},
    torch.bfloat16: {"rtol": 2.0**-6, "atol": 8e-3},
}
LENGTHS = [(2, 2), (127, 129), (128, 128), (193, 1000), (1025, 1025), (2048, 2048)]


def kernel_for(q, k, is_causal: bool, left=-1, right=-1, softcap=0.0):
    """The kernel that serves these tensors."""
    call = DenseAttentionCall(
        heads=q.shape[2],
        kv_heads=k.shape[2],
        head_dim=q.shape[3],
        is_decode=False,
        is_causal=is_causal,
        window_left=left,
        window_right=right,
        sm_scale=q.shape[3] ** -0.5,
        softcap=softcap,
        rotary_dim=0,
        rope_layout="neox",
        dtype=q.dtype,
        out_dtype=q.dtype,
        device=q.device,
    )
    assert DenseAttentionPipelinedKernel.refusal(call) is None
    return DenseAttentionPipelinedKernel.entry_for(call)[1]()


def tensors(draw, batch, rows, columns, heads, kv_heads, width, dtype):
    q = draw(batch, rows, heads, width, dtype=dtype)
    return q, *(draw(batch, columns, kv_heads, width, dtype=dtype) for _ in range(2))


def check(kernel, q, k, v) -> None:
    """Run and compare with float64 arithmetic on the same inputs."""
    out = kernel(q, k, v, *[None] * 5)
    wide = (part.double() for part in (q, k, v))
    assert out.dtype == q.dtype
    assert out.is_contiguous()
    left, right = kernel.window
    exact = grouped_query_attention_dense(
        *wide,
        is_causal=right == 0,
        window_size_left=left,
        window_size_right=right,
        softcap=kernel.group.softcap,
    )
    torch.testing.assert_close(out.double(), exact.double(), **TOLERANCE[q.dtype])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("width", [64, 128, 256])
def test_is_accurate_at_every_length(draw, width, is_causal, dtype):
    for rows, columns in LENGTHS:
        case = tensors(draw, 2, rows, columns, 4, 2, width, dtype)
        kernel = kernel_for(*case[:2], is_causal)
        for config in kernel.autotune_configs:
            kernel.config = config
            check(kernel, *case)


@pytest.mark.parametrize("width", [64, 128, 256])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (8, 1), (6, 2), (7, 7), (32, 8)])
def test_any_ratio_of_heads(draw, heads, kv_heads, width):
    case = tensors(draw, 3, 260, 333, heads, kv_heads, width, torch.bfloat16)
    check(kernel_for(*case[:2], True), *case)


@pytest.mark.parametrize("width", [64, 128, 256])
def test_fewer_keys_than_queries(draw, width):
    for columns in (1, 5, 200):
        case = tensors(draw, 2, 300, columns, 2, 1, width, torch.float16)
        check(kernel_for(*case[:2], False), *case)


@pytest.mark.parametrize("width", [64, 128, 256])
@pytest.mark.parametrize(
    ("left", "right"), [(0, 0), (1, 0), (100, 0), (5000, 0), (-1, 3), (70, 200), (0, -1)]
)
def test_windows(draw, left, right, width):
    for rows, columns in ((1025, 1025), (300, 900), (128, 129)):
        case = tensors(draw, 1, rows, columns, 4, 2, width, torch.bfloat16)
        check(kernel_for(*case[:2], right == 0, left, right), *case)


@pytest.mark.parametrize("width", [64, 128, 256])
@pytest.mark.parametrize("softcap", [1.0, 50.0])
def test_bounded_scores(draw, softcap, width):
    case = tensors(draw, 2, 700, 700, 4, 2, width, torch.float16)
    check(kernel_for(*case[:2], True, softcap=softcap), *case)


def test_no_keys_give_zeros(draw, programs):
    case = tensors(draw, 2, 3, 0, 2, 1, 64, torch.float16)
    assert (kernel_for(*case[:2], False)(*case, *[None] * 5) == 0).all()
    assert not programs


def test_views_are_read_as_they_are(draw):
    base = draw(2, 300, 8, 128, dtype=torch.float16)
    q, k, v = base[:, ::2, :4], base[:, 1::2, 4:6], base[:, :150, 6:]
    check(kernel_for(q, k, True), q, k, v)


def test_what_lies_beside_the_operands_does_not_matter(draw):
    base = torch.full((6, 200, 2, 64), torch.nan, dtype=torch.bfloat16, device="cuda")
    base[1:4] = draw(3, 200, 2, 64, dtype=torch.bfloat16)
    q, k, v = base[1:2], base[2:3], base[3:4]
    check(kernel_for(q, k, False), q, k, v)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("width", [64, 128, 256])
def test_large_calls_give_the_same_again_and_again(draw, width, is_causal):
    case = tensors(draw, 2, 4095, 4095, 16, 4, width, torch.bfloat16)
    kernel = kernel_for(*case[:2], is_causal)
    first = kernel(*case, *[None] * 5)
    for _ in range(50):
        # An error that moves would be a race.
        assert torch.equal(kernel(*case, *[None] * 5), first)


def test_the_op_chooses_by_the_number_of_queries(draw, serving):
    op = GroupedQueryAttentionDenseFwdOp()
    for rows in (100, 1):
        case = tensors(draw, 2, rows, 130, 4, 2, 64, torch.bfloat16)
        exact = grouped_query_attention_dense(*(part.double() for part in case))
        torch.testing.assert_close(op(*case).double(), exact.double(), **TOLERANCE[torch.bfloat16])
    assert serving(op, "dense_attention") == {
        "DenseAttentionPipelinedKernel",
        "DenseAttentionDecodeKernel",
    }


def test_lengths_and_batches_share_a_program(draw, programs):
    case = tensors(draw, 4, 500, 500, 4, 2, 128, torch.bfloat16)
    kernel = kernel_for(*case[:2], True)
    for batch in (1, 3, 4):
        for rows in (2, 100, 500):
            check(kernel, case[0][:batch, :rows], case[1][:batch], case[2][:batch])
    assert len(programs) == 1
