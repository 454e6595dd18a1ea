"""Norms of rows and channels on the device: accuracy, odd extents, views, 2³¹ elements, builds."""

from __future__ import annotations

import pytest
import torch

from tileops.norm import (
    AdaLayerNormFwdOp,
    AdaLayerNormZeroFwdOp,
    BatchNormBwdOp,
    FusedAddRMSNormFwdOp,
    GroupNormFwdOp,
    InstanceNormFwdOp,
    LayerNormFwdOp,
    RMSNormFwdOp,
    reference,
)
from tileops.norm.kernels import RMSNormOnChipKernel

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# One rounding to the dtype of a float32 result.
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 2.0**-10, "atol": 1e-4},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 1e-4},
}


def check(op: RMSNormFwdOp, x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Run the op and compare with float64 arithmetic on the same inputs."""
    output = op(x, weight)
    wide = reference.rms_norm(
        x.double(),
        None if weight is None else weight.double(),
        normalized_shape=op.normalized_shape,
        eps=op.eps,
    )
    assert output.dtype == x.dtype
    assert output.is_contiguous()
    torch.testing.assert_close(output.double(), wide, **TOLERANCE[x.dtype])
    return output


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 128, 1000, 1001, 2052, 4096, 16384, 1 << 15])
def test_rows_on_chip_are_accurate(draw, serving, n, dtype):
    op = RMSNormFwdOp([n], 1e-6)
    weight = draw(n, dtype=dtype)
    for rows in (1, 3, 257):
        check(op, draw(rows, n, dtype=dtype), weight)
    check(op, draw(5, n, dtype=dtype))
    assert serving(op, "rms_norm") == {"RMSNormOnChipKernel"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [(1 << 15) + 8, (1 << 15) + 1, 131072])
def test_streamed_rows_are_accurate(draw, serving, n, dtype):
    op = RMSNormFwdOp([n], 1e-6)
    check(op, draw(3, n, dtype=dtype), draw(n, dtype=dtype))
    check(op, draw(7, n, dtype=dtype))
    assert serving(op, "rms_norm") == {"RMSNormStreamingKernel"}


def test_several_axes_are_normalised(draw):
    op = RMSNormFwdOp([4, 32])
    check(op, draw(2, 3, 4, 32, dtype=torch.bfloat16), draw(4, 32, dtype=torch.bfloat16))


def test_views_are_read_as_they_are(draw):
    op = RMSNormFwdOp([128], 1e-6)
    base, weight = draw(40, 512, dtype=torch.float16), draw(256, dtype=torch.float16)
    check(op, base[::3, 128:256], weight[::2])
    check(op, base.T[:128].T, weight[:128])
    check(op, base.flatten()[1 : 1 + 3 * 128].view(3, 128), weight[3:131])


def test_an_empty_call_runs_nothing(draw, programs):
    op = RMSNormFwdOp([4096])
    assert op(draw(0, 4096)).shape == (0, 4096)
    assert not op.built_entries("rms_norm")
    assert not programs


def test_special_values_stay_in_their_row(draw):
    op = RMSNormFwdOp([4096])
    x = draw(3, 4096)
    x[1, 17] = torch.nan
    y = op(x)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()
    assert (op(torch.zeros(2, 4096, device="cuda")) == 0).all()


def test_offsets_beyond_31_bits_are_reached():
    n = 4096
    rows = (1 << 31) // n + 3
    x = torch.ones(rows, n, dtype=torch.bfloat16, device="cuda")
    x[-1] = 4.0
    x[-1, 0] = 0.0
    y = RMSNormFwdOp([n])(x)
    assert (y[:-1] == 1).all()
    assert y[-1, 0] == 0
    assert (y[-1, 1:] == 1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_500_row_counts_make_one_entry_and_one_program(draw, programs, dtype):
    op = RMSNormFwdOp([1024], 1e-6)
    weight = draw(1024, dtype=dtype)
    x = draw(500, 1024, dtype=dtype)
    whole = op(x, weight)
    for rows in range(1, 501):
        assert torch.equal(op(x[:rows], weight), whole[:rows])
    assert len(op.built_entries("rms_norm")) == 1
    assert len(programs) == 1


def test_tuning_changes_no_result(draw, monkeypatch, tmp_path):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    op = RMSNormFwdOp([4096], 1e-6)
    x, weight = draw(512, 4096, dtype=torch.bfloat16), draw(4096, dtype=torch.bfloat16)
    op.request_tune()
    check(op, x, weight)
    (kernel,) = op.iter_kernels()
    assert isinstance(kernel, RMSNormOnChipKernel)
    assert kernel.config in kernel.autotune_configs
    check(op, x, weight)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 64, 1001, 4096, 16384, 40000])
def test_layer_norm_is_accurate(draw, serving, n, dtype):
    op = LayerNormFwdOp([n], 1e-5)
    weight, bias = draw(n, dtype=dtype), draw(n, dtype=dtype)
    x = draw(37, n, dtype=dtype) + 8  # a sum of squares would lose the variance
    for affine in ((weight, bias), (weight, None), (None, bias), (None, None)):
        wide = [None if item is None else item.double() for item in affine]
        expected = reference.layer_norm(x.double(), *wide, normalized_shape=[n], eps=1e-5)
        tolerance = {"rtol": TOLERANCE[dtype]["rtol"], "atol": 1e-4}
        torch.testing.assert_close(op(x, *affine).double(), expected, **tolerance)
    assert serving(op, "layer_norm") <= {"LayerNormOnChipKernel", "LayerNormStreamingKernel"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 200, 1001, 4096, 8192, 16384, 40000])
def test_sum_and_norm_are_accurate(draw, serving, n, dtype):
    op = FusedAddRMSNormFwdOp(1e-6)
    x, residual, weight = draw(37, n, dtype=dtype), draw(37, n, dtype=dtype), draw(n, dtype=dtype)
    output, total = op(x, residual, weight)
    assert torch.equal(total, x + residual)
    expected = reference.rms_norm(total.double(), weight.double(), normalized_shape=[n], eps=1e-6)
    torch.testing.assert_close(output.double(), expected, **TOLERANCE[dtype])
    assert serving(op, "add_rms_norm") <= {"AddRMSNormOnChipKernel", "AddRMSNormStreamingKernel"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 1001, 1152, 4096, 16384])
def test_adaptive_layer_norm_is_accurate(draw, serving, n, dtype):
    x, scale, shift, gate = (draw(37, n, dtype=dtype) for _ in range(4))
    tolerance = {"rtol": TOLERANCE[dtype]["rtol"], "atol": 1e-3}
    wide = [item.double() for item in (x, scale, shift, gate)]
    for op, given in (
        (AdaLayerNormFwdOp(), (x, scale, shift)),
        (AdaLayerNormZeroFwdOp(), (x, scale, shift, gate)),
    ):
        expected = reference.ada_layer_norm(*wide[:3])
        if len(given) > 3:
            expected = reference.ada_layer_norm_zero(*wide)
        torch.testing.assert_close(op(*given).double(), expected, **tolerance)
        assert serving(op, "ada_layer_norm") == {"AdaLayerNormOnChipKernel"}


CHANNELS = (
    (32, 128, (32, 32)), (3, 24, (7, 7)), (2, 6, ()), (16, 128, (30, 30)), (1, 40, (3, 5, 7)),
    (8, 64, (60, 64)), (2, 10, (501, 7)),
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("groups", "channels", "space"), CHANNELS, ids=str)
def test_norms_of_channels_are_accurate(draw, serving, groups, channels, space, dtype):
    x = draw(3, channels, *space, dtype=dtype) + 3  # a sum of squares would lose the variance
    weight, bias = draw(channels, dtype=dtype), draw(channels, dtype=dtype)
    op = GroupNormFwdOp(groups)
    tolerance = {"rtol": TOLERANCE[dtype]["rtol"], "atol": 1e-4}
    expected = reference.group_norm(x.double(), weight.double(), bias.double(), num_groups=groups)
    torch.testing.assert_close(op(x, weight, bias).double(), expected, **tolerance)
    assert serving(op, "group_norm") == {"GroupNormOnChipKernel"}


@pytest.mark.parametrize("length", [900, 30000])
def test_norms_of_samples_are_accurate(draw, serving, length):
    x = draw(3, 6, length) + 3
    weight, bias = draw(6), draw(6)
    op = InstanceNormFwdOp()
    for affine in ((weight, bias), (weight, None), (None, bias), (None, None)):
        wide = [None if item is None else item.double() for item in affine]
        expected = reference.instance_norm(x.double(), None, None, *wide)
        torch.testing.assert_close(
            op(x, None, None, *affine).double(), expected, rtol=1e-5, atol=1e-4
        )
    assert serving(op, "instance_norm") == {"InstanceNormOnChipKernel"}


def test_running_statistics_are_left_to_torch(draw, serving):
    op = InstanceNormFwdOp()
    op(draw(2, 6, 100), draw(6), draw(6).square())
    assert serving(op, "instance_norm") == {"InstanceNormPortableKernel"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_batch_norm_are_accurate(draw, serving, dtype):
    op = BatchNormBwdOp()
    for shape in ((8, 64, 32, 32), (3, 5, 7, 7), (2, 1, 300, 1000), (4099, 37), (1, 2, 1)):
        grad, x = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype) + 1
        axes = (0, *range(2, len(shape)))
        mean = x.double().mean(axes).float()
        rstd = (x.double().var(axes, correction=0) + 1e-5).rsqrt().float()
        given = grad, x, draw(shape[1]), mean, rstd
        expected = reference.batch_norm_bwd(grad.double(), x.double(), *given[2:])
        grad_x, *others = op(*given)
        torch.testing.assert_close(grad_x.double(), expected[0], **TOLERANCE[dtype])
        scale = x[:, 0].numel() ** 0.5
        for found, exact in zip(others, expected[1:], strict=True):
            torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5 * scale)
    assert serving(op, "batch_norm_bwd") == {"BatchNormBwdTileKernel"}
    grad_x, *others = op(grad[:0], x[:0], *given[2:])
    assert grad_x.shape == (0, 2, 1)
    assert all(other.eq(0).all() for other in others)


def test_gradients_of_batch_norm_beyond_31_bits(draw):
    x = torch.zeros(2, 3, 1 << 29, dtype=torch.bfloat16, device="cuda")
    grad, op = x.clone(), BatchNormBwdOp()
    x[1, 2, -1], grad[1, 2, -1] = 2.0, 3.0
    weight, mean, rstd = torch.ones(3, 3, device="cuda")
    grad_x, grad_weight, grad_bias = op(grad, x, weight, mean, rstd)
    assert grad_weight.tolist() == [0.0, 0.0, 3.0]
    assert grad_bias.tolist() == [0.0, 0.0, 3.0]
    assert grad_x[1, 2, -1] == 3.0
    assert grad_x[0].abs().max() < 1e-8


def test_channels_beyond_31_bits_are_reached():
    samples = (1 << 31) // (64 * 4096) + 1
    x = torch.zeros(samples, 64, 4096, dtype=torch.bfloat16, device="cuda")
    x[-1, -1, -2:] = torch.tensor([1.0, -1.0], dtype=x.dtype, device=x.device)
    bias = torch.arange(64, dtype=x.dtype, device=x.device)
    y = GroupNormFwdOp(32)(x, None, bias)
    assert (y[:-1] == bias[:, None]).all()
    assert y[-1, -1, -2] > 100
    assert y[-1, -1, -1] < 1


def test_all_numbers_of_samples_make_one_entry_and_one_program(draw, programs):
    op, x = GroupNormFwdOp(8), draw(60, 32, 20, 20, dtype=torch.float16)
    whole = op(x)
    for samples in range(1, 61):
        assert torch.equal(op(x[:samples]), whole[:samples])
    assert len(op.built_entries("group_norm")) == 1
    assert len(programs) == 1
