"""Matrix products: accuracy against float64, layouts, empty extents, views, the kernel chosen."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import BmmBwdOp, BmmFwdOp, GemmBwdOp, GemmFwdOp, reference
from tileops.gemm.kernels import GemmCall

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def bound(dtype: torch.dtype, k: int) -> float:
    """Tolerance of a product over `k` terms of unit size."""
    return {torch.float16: 1e-3 * max(1, k / 2048), torch.bfloat16: 1.6e-2}.get(dtype, 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (1, 33, 300), (2, 5, 7), (65, 66, 129)])
def test_gemm_is_accurate(draw, close, dtype, trans_a, trans_b, m, n, k):
    a = draw(*((k, m) if trans_a else (m, k)), dtype=dtype, scale=k**-0.5)
    b = draw(*((n, k) if trans_b else (k, n)), dtype=dtype)
    op = GemmFwdOp(trans_a, trans_b)
    expected = reference.gemm(a, b, trans_a=trans_a, trans_b=trans_b)
    close(op(a, b), expected, bound(dtype, k))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gradients_are_accurate_in_every_layout(draw, close, dtype, trans_a, trans_b):
    a = draw(*((129, 65) if trans_a else (65, 129)), dtype=dtype)
    b = draw(*((66, 129) if trans_b else (129, 66)), dtype=dtype)
    grad, layout = draw(65, 66, dtype=dtype, scale=0.1), {"trans_a": trans_a, "trans_b": trans_b}
    expected = reference.gemm_bwd(grad, a, b, **layout)
    for found, wanted in zip(GemmBwdOp(trans_a, trans_b)(grad, a, b), expected, strict=True):
        close(found, wanted, bound(dtype, 66))


def test_gradients_of_products_of_nothing(close):
    a, b = torch.empty(0, 3), torch.ones(2, 3)
    grad_a, grad_b = GemmBwdOp()(torch.empty(0, 2), a, b)
    close(grad_a, a)
    close(grad_b, torch.zeros(2, 3))
    grad_a, grad_b = BmmBwdOp()(torch.empty(2, 0, 4), torch.empty(2, 0, 3), torch.ones(2, 3, 4))
    close(grad_b, torch.zeros(2, 3, 4))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [4096, 10000])
def test_long_products_accumulate_in_float32(draw, close, dtype, k):
    a, b = draw(3, k, dtype=dtype), draw(4, k, dtype=dtype)
    close(GemmFwdOp()(a, b), reference.gemm(a, b), max(bound(dtype, k), 2e-4))


def test_a_product_over_nothing_is_zero(close):
    close(GemmFwdOp()(torch.empty(3, 0), torch.empty(2, 0)), torch.zeros(3, 2))
    close(BmmFwdOp()(torch.empty(2, 3, 0), torch.empty(2, 0, 4)), torch.zeros(2, 3, 4))


def test_empty_results(close):
    close(GemmFwdOp()(torch.ones(0, 3), torch.ones(2, 3)), torch.empty(0, 2))
    close(BmmFwdOp()(torch.ones(0, 3, 4), torch.ones(0, 4, 2)), torch.empty(0, 3, 2))


def test_views(draw, close):
    a, b = draw(40, 12).T[::2], draw(9, 80)[:, ::2]
    close(GemmFwdOp()(a, b), reference.gemm(a, b))
    close(GemmFwdOp(trans_b=False)(a, b.T), reference.gemm(a, b))
    left, right = draw(5, 3, 4).permute(1, 2, 0), draw(3, 6, 5).mT
    close(BmmFwdOp()(left, right), reference.bmm(left, right))


def test_a_transposed_view_is_the_other_layout(draw, close):
    op = GemmFwdOp(trans_b=False)
    a, weight = draw(16, 24), draw(8, 24)
    close(op(a, weight.T), reference.gemm(a, weight))
    close(op(a.T.contiguous().T, weight.T), reference.gemm(a, weight))
    assert {identity for _, identity in op.built_entries("gemm")} == {(False, True), (True, True)}


@pytest.mark.parametrize("special", [torch.nan, torch.inf])
def test_special_values_stay_in_their_row(draw, special):
    a, b = draw(4, 8), draw(5, 8)
    a[2, 3] = special
    d = GemmFwdOp()(a, b)
    assert not d[2].isfinite().any()
    assert d[[0, 1, 3]].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("batch", "m", "n", "k"), [(1, 1, 1, 1), (3, 2, 5, 7), (2, 33, 17, 130)])
def test_bmm_is_accurate(draw, close, dtype, batch, m, n, k):
    a, b = draw(batch, m, k, dtype=dtype, scale=k**-0.5), draw(batch, k, n, dtype=dtype)
    close(BmmFwdOp()(a, b), reference.bmm(a, b), bound(dtype, k))


@pytest.mark.parametrize(
    ("extents", "dtype", "arch", "key"),
    [
        ((4096, 4096, 7168), torch.bfloat16, 90, "pipelined"),
        ((4096, 4095, 7168), torch.bfloat16, 90, "portable"),
        ((4096, 4096, 7168), torch.float32, 90, "portable"),
        ((4096, 4096, 7168), torch.float16, 80, "portable"),
    ],
)
def test_extents_dtype_and_architecture_choose_the_kernel(extents, dtype, arch, key):
    call = GemmCall(*extents, False, True, dtype, arch=arch)
    assert GemmFwdOp().key_for("gemm", call) == key


def test_rows_do_not_make_entries(draw):
    op = GemmFwdOp()
    weight = draw(8, 16)
    for rows in range(1, 9):
        op(draw(rows, 16), weight)
    assert len(op.built_entries("gemm")) == 1


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(torch.float16, "fp16"), (torch.bfloat16, "bf16"), (torch.float32, "tf32")],
)
def test_products_are_priced_by_the_tensor_core(draw, dtype, unit):
    op = GemmFwdOp()
    op(draw(2, 3, dtype=dtype), draw(4, 3, dtype=dtype))
    assert op.roof_key() == f"tensor_core.{unit}"
    batched = BmmFwdOp()
    batched(draw(1, 2, 3, dtype=dtype), draw(1, 3, 4, dtype=dtype))
    assert batched.roof_key() == f"tensor_core.{unit}"


@pytest.mark.parametrize("compiles", [False, True])
def test_automatic_mixed_precision_leaves_products_as_they_are(draw, compiles):
    op = GemmFwdOp()
    a, b = draw(5, 7).requires_grad_(), draw(3, 7).requires_grad_()
    torch._dynamo.reset()
    function = torch.compile(op, fullgraph=True, backend="aot_eager") if compiles else op
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = function(a, b)
        assert (a @ b.T).dtype is torch.bfloat16  # what torch does
        found = torch.autograd.grad(product.sum(), (a, b))
    torch._dynamo.reset()
    assert torch.equal(product, op(a, b))
    assert all(map(torch.equal, found, torch.autograd.grad(op(a, b).sum(), (a, b))))
