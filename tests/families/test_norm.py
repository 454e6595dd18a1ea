"""Norms: accuracy against float64, offsets, huge and special values, views, the kernel chosen."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tileops.norm import (
    AdaLayerNormBwdOp,
    AdaLayerNormFwdOp,
    AdaLayerNormZeroBwdOp,
    AdaLayerNormZeroFwdOp,
    FusedAddLayerNormFwdOp,
    FusedAddRMSNormBwdOp,
    FusedAddRMSNormFwdOp,
    LayerNormBwdOp,
    LayerNormFwdOp,
    RMSNormBwdOp,
    RMSNormFwdOp,
    reference,
)
from tileops.norm.kernels import RMSNormCall

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 3, 130), (5, 4097), (2, 2, 3, 5)])
def test_rms_norm_is_accurate(draw, close, dtype, shape):
    x, weight = draw(*shape, dtype=dtype), draw(shape[-1], dtype=dtype)
    op = RMSNormFwdOp(normalized_shape=shape[-1:], eps=1e-6)
    params = {"normalized_shape": shape[-1:], "eps": 1e-6}
    close(op(x, weight), reference.rms_norm(x, weight, **params))
    close(op(x), reference.rms_norm(x, **params))


def test_rms_norm_takes_several_trailing_axes(draw, close):
    x, weight = draw(2, 3, 4, 5), draw(4, 5)
    op = RMSNormFwdOp(normalized_shape=[4, 5])
    close(op(x, weight), reference.rms_norm(x, weight, normalized_shape=[4, 5]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_without_eps_uses_the_epsilon_of_float32(draw, close, dtype):
    x = draw(2, 64, dtype=dtype, scale=2.0**-9)
    given, default = RMSNormFwdOp([64], 2.0**-23), RMSNormFwdOp([64])
    assert torch.equal(default(x), given(x))
    close(default(x), F.rms_norm(x, (64,)))
    assert not torch.equal(default(x), RMSNormFwdOp([64], torch.finfo(torch.float16).eps)(x))


def test_rms_norm_of_zeros_is_zero(close):
    close(RMSNormFwdOp([9])(torch.zeros(2, 9)), torch.zeros(2, 9))


def test_rms_norm_of_huge_half_values_does_not_overflow(close):
    x = torch.full((2, 256), 60000.0, dtype=torch.float16)
    close(RMSNormFwdOp([256])(x), torch.ones(2, 256, dtype=torch.float16))


@pytest.mark.parametrize("value", [0.0, 1e-25, 1e-15, 1e15, 3e38])
def test_rms_norm_of_squares_beyond_float32_is_that_of_torch(close, value):
    x, weight = torch.full((2, 300), value), torch.full((300,), 3.0)
    close(RMSNormFwdOp([300], 1e-6)(x, weight), F.rms_norm(x, (300,), weight, 1e-6))
    for eps in (0.0, -1e-6, torch.inf, torch.nan):
        close(RMSNormFwdOp([300], eps)(x), F.rms_norm(x, (300,), eps=eps))


@pytest.mark.parametrize("special", [torch.nan, torch.inf])
def test_rms_norm_keeps_special_values_in_their_row(draw, special):
    x = draw(3, 33)
    x[1, 5] = special
    y = RMSNormFwdOp([33])(x)
    assert not y[1, 5].isfinite()
    assert y[[0, 2]].isfinite().all()


def test_norms_read_views(draw, close):
    base, weight = draw(6, 40), draw(40)[::2]
    x = base[::2, ::2]
    params = {"normalized_shape": [20]}
    close(RMSNormFwdOp([20])(x, weight), reference.rms_norm(x, weight, **params))
    close(LayerNormFwdOp([20])(x.T.contiguous().T, weight, weight),
          reference.layer_norm(x, weight, weight, **params))  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4,), (3, 7), (2, 3, 130), (3, 4097)])
def test_layer_norm_is_accurate(draw, close, dtype, shape):
    n = shape[-1]
    x, weight, bias = draw(*shape, dtype=dtype), draw(n, dtype=dtype), draw(n, dtype=dtype)
    op = LayerNormFwdOp(normalized_shape=[n])
    for affine in ((), (weight,), (weight, bias), (None, bias)):
        close(op(x, *affine), reference.layer_norm(x, *affine, normalized_shape=[n]))


@pytest.mark.parametrize("offset", [100.0, 1e4])
def test_layer_norm_centres_before_it_squares(draw, close, offset):
    x = draw(4, 512) + offset
    bound = 1e-5 + offset * 2.0**-22
    close(LayerNormFwdOp([512])(x), reference.layer_norm(x, normalized_shape=[512]), bound)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_add_equals_the_norm_of_the_rounded_sum(draw, dtype):
    x, residual, weight = draw(3, 70, dtype=dtype), draw(3, 70, dtype=dtype), draw(70, dtype=dtype)
    output, total = FusedAddRMSNormFwdOp(eps=1e-5)(x, residual, weight)
    assert torch.equal(total, x + residual)
    assert torch.equal(output, RMSNormFwdOp([70], 1e-5)(total, weight))
    bias = draw(70, dtype=dtype)
    output, total = FusedAddLayerNormFwdOp()(x, residual, weight, bias)
    assert torch.equal(total, x + residual)
    assert torch.equal(output, LayerNormFwdOp([70])(total, weight, bias))


def test_fused_add_is_accurate_and_writes_nothing(draw, close):
    tensors = draw(2, 5, 33), draw(2, 5, 33), draw(33)
    before = [tensor.clone() for tensor in tensors]
    expected = reference.fused_add_rms_norm(*tensors)
    for actual, wanted in zip(FusedAddRMSNormFwdOp()(*tensors), expected, strict=True):
        close(actual, wanted)
    bias = draw(33)
    expected = reference.fused_add_layer_norm(*tensors, bias)
    for actual, wanted in zip(FusedAddLayerNormFwdOp()(*tensors, bias), expected, strict=True):
        close(actual, wanted)
    assert all(map(torch.equal, tensors, before))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 3, 130)])
def test_ada_layer_norm_is_accurate(draw, close, dtype, shape):
    x, scale, shift, gate = (draw(*shape, dtype=dtype) for _ in range(4))
    close(AdaLayerNormFwdOp()(x, scale, shift), reference.ada_layer_norm(x, scale, shift))
    gated = reference.ada_layer_norm_zero(x, scale, shift, gate)
    close(AdaLayerNormZeroFwdOp()(x, scale, shift, gate), gated)
    turned = [part[None].expand(2, *shape).mT for part in (x, scale, shift, gate)]
    if len(shape) > 1:
        close(AdaLayerNormZeroFwdOp()(*turned), reference.ada_layer_norm_zero(*turned))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_of_ada_layer_norm_are_apart_and_may_lie_far_from_zero(draw, close, dtype):
    x, scale, shift = (draw(6, 40, dtype=dtype) for _ in range(3))
    x[1] += 1000
    expected = reference.ada_layer_norm(x, scale, shift)
    x[2, 3], x[4, 0] = torch.nan, torch.inf
    expected[[2, 4]] = torch.nan
    close(AdaLayerNormFwdOp()(x, scale, shift), expected, 1e-3 if dtype.itemsize == 4 else None)
    single = AdaLayerNormFwdOp()(*(each[:, :1] for each in (x[:2], scale[:2], shift[:2])))
    assert torch.equal(single, shift[:2, :1])


def test_ada_layer_norm_is_rounded_once(draw):
    x, scale, shift = (draw(30, 100, dtype=torch.float16) for _ in range(3))
    normed = F.layer_norm(x.float(), (100,))
    exact = torch.addcmul(shift.float(), normed, scale.float())
    assert torch.equal(AdaLayerNormFwdOp()(x, scale, shift), exact.half())


@pytest.mark.parametrize(
    ("n", "arch", "key"),
    [(7, 90, "on_chip"), (4096, 90, "on_chip"), (65536, 90, "streaming"), (4096, 80, "portable")],
)
def test_the_row_and_the_architecture_choose_the_kernel(n, arch, key):
    call = RMSNormCall(n, 1e-6, True, torch.float16, arch=arch)
    assert RMSNormFwdOp([n]).key_for("rms_norm", call) == key


def test_the_portable_kernel_serves_the_cpu():
    call = RMSNormCall(4096, 1e-6, True, torch.float16, device=torch.device("cpu"))
    assert RMSNormFwdOp([4096]).key_for("rms_norm", call) == "portable"


def test_rows_do_not_make_entries(draw):
    op = RMSNormFwdOp([16])
    for rows in range(1, 9):
        op(draw(rows, 16))
    assert len(op.built_entries("rms_norm")) == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_weight", [True, False])
def test_gradients_of_norms_are_accurate(draw, close, dtype, has_weight):
    x, grad = draw(6, 200, dtype=dtype) + 3, draw(6, 200, dtype=dtype)
    weight = draw(200, dtype=dtype) if has_weight else None
    for op, function in (
        (RMSNormBwdOp, reference.rms_norm_bwd),
        (LayerNormBwdOp, reference.layer_norm_bwd),
    ):
        found = op((200,))(grad, x, weight)
        wanted = function(grad, x, weight, normalized_shape=(200,))
        for one, other in zip(found, wanted, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                close(one, other, 1e-4 if dtype is torch.float32 else None)


def test_gradients_of_a_norm_of_nothing_are_zero():
    empty = torch.empty(0, 3)
    grad_x, grad_weight, grad_bias = LayerNormBwdOp((3,))(empty, empty, torch.ones(3))
    assert grad_x.shape == (0, 3)
    assert torch.equal(grad_weight, torch.zeros(3))
    assert torch.equal(grad_bias, torch.zeros(3))


def test_addends_have_gradients_of_their_own(draw):
    given = draw(4, 8), draw(4, 8), draw(4, 8), draw(8)
    grad_x, grad_residual, _ = FusedAddRMSNormBwdOp()(*given)
    assert torch.equal(grad_x, grad_residual)
    assert grad_x.data_ptr() != grad_residual.data_ptr()


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_modulated_norms_are_accurate(draw, close, dtype):
    grad, x, scale, shift, gate = (draw(2, 3, 130, dtype=dtype) for _ in range(5))
    bound = 1e-4 if dtype is torch.float32 else None
    for given, op, function in (
        ((grad, x, scale), AdaLayerNormBwdOp, reference.ada_layer_norm_bwd),
        ((grad, x, scale, shift, gate), AdaLayerNormZeroBwdOp, reference.ada_layer_norm_zero_bwd),
    ):
        for one, other in zip(op()(*given), function(*given), strict=True):
            close(one, other, bound)


def test_the_gradient_of_a_shift_is_memory_of_its_own(draw):
    grad, x, scale = (draw(4, 8) for _ in range(3))
    _, _, grad_shift = AdaLayerNormBwdOp()(grad, x, scale)
    assert torch.equal(grad_shift, grad)
    assert grad_shift.data_ptr() != grad.data_ptr()
