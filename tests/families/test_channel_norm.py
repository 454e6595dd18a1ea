"""Norms of channels: accuracy, running statistics, evaluation, empty batches, limits."""

from __future__ import annotations

import math

import pytest
import torch

from tileops.errors import SignatureError
from tileops.norm import (
    BatchNormBwdOp,
    BatchNormFwdOp,
    GroupNormBwdOp,
    GroupNormFwdOp,
    InstanceNormFwdOp,
    reference,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
SHAPES = [(4, 6, 5, 7), (3, 6, 11), (2, 6, 1, 2, 3)]


def affine(draw, dtype):
    return (), (draw(6, dtype=dtype),), (draw(6, dtype=dtype), draw(6, dtype=dtype)), (
        None, draw(6, dtype=dtype),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (9, 6)])
def test_batch_norm_is_accurate(draw, close, dtype, shape):
    x = draw(*shape, dtype=dtype, scale=3.0) + 2
    running = draw(6), draw(6).square() + 0.1
    for factors in affine(draw, torch.float32):
        close(BatchNormFwdOp()(x, *running, *factors), reference.batch_norm(x, *running, *factors))
        trained = BatchNormFwdOp(training=True, eps=1e-3)(x, None, None, *factors)
        expected = reference.batch_norm(x, None, None, *factors, training=True, eps=1e-3)
        close(trained, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_instance_norm_is_accurate(draw, close, dtype, shape):
    x = draw(*shape, dtype=dtype, scale=3.0) + 2
    running = draw(6), draw(6).square() + 0.1
    for factors in affine(draw, dtype):
        expected = reference.instance_norm(x, None, None, *factors)
        close(
            InstanceNormFwdOp()(x, None, None, *factors),
            expected,
            4e-3 if dtype is torch.float16 else None,
        )
        evaluated = InstanceNormFwdOp(use_input_stats=False)(x, *running, *factors)
        params = {"use_input_stats": False}
        close(evaluated, reference.instance_norm(x, *running, *factors, **params))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", SHAPES)
def test_group_norm_is_accurate(draw, close, dtype, groups, shape):
    x = draw(*shape, dtype=dtype, scale=3.0) + 2
    for factors in affine(draw, dtype):
        expected = reference.group_norm(x, *factors, num_groups=groups)
        close(
            GroupNormFwdOp(groups)(x, *factors), expected, 4e-3 if dtype is torch.float16 else None
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0])
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (BatchNormFwdOp(True), reference.batch_norm),
        (InstanceNormFwdOp(), reference.instance_norm),
    ],
    ids=["batch", "instance"],
)
def test_running_statistics_are_updated(draw, close, dtype, momentum, op, expected):
    x = draw(4, 6, 5, 7, dtype=dtype, scale=3.0) + 2
    mean, var = draw(12)[::2], draw(6).square() + 0.1  # one of them strided
    wanted = mean.clone(), var.clone()
    params = {"training": True} if expected is reference.batch_norm else {}
    expected(x, *wanted, **params, momentum=momentum)
    op = type(op)(True, momentum)
    op(x, mean, var)
    close(mean.clone(), wanted[0])
    close(var, wanted[1])
    assert set(op.last_call.written) == {"running_mean", "running_var"}


@pytest.mark.parametrize(
    "op", [BatchNormFwdOp(), InstanceNormFwdOp(False)], ids=["batch", "instance"]
)
def test_evaluation_writes_nothing(draw, op):
    mean, var = draw(6), draw(6).square()
    before = mean.clone(), var.clone()
    op(draw(4, 6, 5), mean, var)
    assert torch.equal(mean, before[0])
    assert torch.equal(var, before[1])
    assert op.last_call.written == ()


@pytest.mark.parametrize(
    "op", [BatchNormFwdOp(True), InstanceNormFwdOp()], ids=["batch", "instance"]
)
@pytest.mark.parametrize("shape", [(0, 6, 5), (3, 6, 0)])
def test_an_empty_input_leaves_the_running_statistics(draw, op, shape):
    mean, var = draw(6), draw(6)
    before = mean.clone(), var.clone()
    assert op(torch.empty(shape), mean, var).shape == shape
    assert torch.equal(mean, before[0])
    assert torch.equal(var, before[1])


@pytest.mark.parametrize(
    "op", [BatchNormFwdOp(True), InstanceNormFwdOp(True)], ids=["batch", "instance"]
)
def test_an_expanded_running_statistic_is_refused(op):
    mean = torch.zeros(1).expand(6)
    with pytest.raises(SignatureError, match=r"running_mean.*overlaps itself"):
        op(torch.ones(2, 6, 4), mean, torch.ones(6))


@pytest.mark.parametrize(
    ("op", "shape", "given"),
    [
        (BatchNormFwdOp(True), (1, 6), ()),
        (BatchNormFwdOp(True), (1, 6, 1, 1), ()),
        (BatchNormFwdOp(), (2, 6, 3), ()),
        (InstanceNormFwdOp(), (4, 6, 1), ()),
        (InstanceNormFwdOp(), (4, 6), ()),
        (InstanceNormFwdOp(False), (2, 6, 3), ()),
        (GroupNormFwdOp(6), (1, 6), ()),
        (GroupNormFwdOp(4), (2, 6, 3), ()),
        (GroupNormFwdOp(0), (2, 6, 3), ()),
    ],
)  # fmt: skip
def test_calls_that_have_no_statistics_are_refused(op, shape, given):
    with pytest.raises(SignatureError, match="shape_rules"):
        op(torch.ones(shape), *given)


def test_running_statistics_come_together(draw):
    with pytest.raises(SignatureError, match="running_var"):
        BatchNormFwdOp(True)(draw(2, 6, 3), draw(6))
    with pytest.raises(SignatureError, match="running_var was passed"):
        BatchNormFwdOp(True)(draw(2, 6, 3), None, draw(6))


def test_affine_dtypes_differ_by_op(draw):
    x, half, full = draw(2, 6, 3, dtype=torch.float16), draw(6, dtype=torch.float16), draw(6)
    GroupNormFwdOp(2)(x, half)
    InstanceNormFwdOp()(x, None, None, half)
    BatchNormFwdOp(True)(x, None, None, full)
    with pytest.raises(SignatureError, match="expected float32, got float16"):
        BatchNormFwdOp(True)(x, None, None, half)
    for op in (GroupNormFwdOp(2), InstanceNormFwdOp()):
        with pytest.raises(SignatureError, match="expected float16, got float32"):
            op(x, weight=full)


@pytest.mark.parametrize("offset", [100.0, 1e4])
def test_statistics_are_of_centred_values(draw, close, offset):
    x = draw(8, 4, 300) + offset
    bound = 1e-5 + offset * 2.0**-22
    close(BatchNormFwdOp(True)(x), reference.batch_norm(x, training=True), bound)
    close(InstanceNormFwdOp()(x), reference.instance_norm(x), bound)
    close(GroupNormFwdOp(2)(x), reference.group_norm(x, num_groups=2), bound)


def test_views(draw, close):
    base = draw(5, 9, 4, 6)
    for x in (base.transpose(1, 3), base[1:, ::3, :, 2:], base[:1].expand(3, 9, 4, 6)):
        channels = x.shape[1]
        mean, var = draw(channels), draw(channels).square() + 1
        close(BatchNormFwdOp()(x, mean, var), reference.batch_norm(x, mean, var))
        close(InstanceNormFwdOp()(x), reference.instance_norm(x))
        close(GroupNormFwdOp(channels)(x), reference.group_norm(x, num_groups=channels))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (9, 6)])
def test_batch_norm_gradients_are_accurate(draw, close, dtype, shape):
    grad, x, weight = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype) + 1, draw(6)
    axes = (0, *range(2, len(shape)))
    mean = x.double().mean(axes).float()
    rstd = (x.double().var(axes, correction=0) + 1e-5).rsqrt().float()
    given = (grad, x, weight, mean, rstd)
    expected = reference.batch_norm_bwd(*given)
    for found, wanted in zip(BatchNormBwdOp()(*given), expected, strict=True):
        close(found, wanted, 1e-4 if found.dtype is torch.float32 else None)


def test_batch_norm_gradients_agree_with_autograd(draw):
    x = draw(4, 3, 5).double().requires_grad_()
    weight, bias = (draw(3).double().requires_grad_() for _ in range(2))
    grad = draw(4, 3, 5)
    y = torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True)
    wanted = torch.autograd.grad(y, (x, weight, bias), grad.double())
    data = x.detach().float()
    mean, rstd = data.mean((0, 2)), (data.var((0, 2), correction=0) + 1e-5).rsqrt()
    found = BatchNormBwdOp()(grad, data, weight.detach().float(), mean, rstd)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-4, atol=1e-5)


def test_gradients_of_an_empty_batch_are_zero():
    grad_x, *others = BatchNormBwdOp()(torch.empty(0, 3), torch.empty(0, 3), *torch.ones(3, 3))
    assert grad_x.shape == (0, 3)
    assert all(torch.equal(other, torch.zeros(3)) for other in others)


def test_infinities_stay_in_their_group(draw):
    x = draw(2, 4, 6)
    x[1, 2, 3] = math.inf
    y = GroupNormFwdOp(2)(x)
    assert y[1, 2:].isnan().all()
    assert y[0].isfinite().all()
    assert y[1, :2].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_weight", [True, False])
def test_group_norm_gradients_are_accurate(draw, close, dtype, has_weight):
    grad, x = draw(3, 6, 5, 7, dtype=dtype), draw(3, 6, 5, 7, dtype=dtype) + 1
    weight = draw(6, dtype=dtype) if has_weight else None
    found = GroupNormBwdOp(2)(grad, x, weight)
    for one, other in zip(
        found, reference.group_norm_bwd(grad, x, weight, num_groups=2), strict=True
    ):
        assert (one is None) == (other is None)
        if one is not None:
            close(one, other, 1e-4 if one.dtype is torch.float32 else None)
