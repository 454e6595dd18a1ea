"""Reductions, softmax on the device: accuracy, ragged rows, views, special values, builds, size."""

from __future__ import annotations

import pytest
import torch

from tileops import reduction
from tileops.reduction.kernels import FUNCTIONS, ReductionCall

HALVES = [torch.float16, torch.bfloat16]
DTYPES = [*HALVES, torch.float32]
# One rounding to the dtype of a float32 accumulation of terms of order one.
TOLERANCE = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-4},
    torch.float16: {"rtol": 2.0**-10, "atol": 1e-3},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 1e-3},
}
OPS = {
    "Sum": {}, "Mean": {}, "Amax": {}, "Amin": {}, "Argmax": {}, "Argmin": {}, "LogSumExp": {},
    "Var": {}, "Std": {"correction": 0}, "VarMean": {}, "CountNonzero": {},
}  # fmt: skip


def exact(op, x):
    axes = op._axes(x.dim())
    wide = x.double()
    result = op.result or torch.float64
    call = ReductionCall(
        op.function, x.dim(), axes, op.keepdim, wide.dtype, result, op.ord, op.correction
    )
    if op.function == "var_mean":
        return torch.var_mean(wide, axes, correction=op.correction, keepdim=op.keepdim)
    return FUNCTIONS[op.function](wide, call)


def check(op, x):
    outputs, wides = op(x), exact(op, x)
    if not isinstance(outputs, tuple):
        outputs, wides = (outputs,), (wides,)
    for output, wide in zip(outputs, wides, strict=True):
        tolerance = TOLERANCE.get(output.dtype, {"rtol": 0, "atol": 0})
        rounded = wide.to(output.dtype) if output.dtype in HALVES else wide
        torch.testing.assert_close(output.double(), rounded.double(), **tolerance, equal_nan=True)
        assert output.is_contiguous()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPS)
def test_rows_are_reduced(draw, name, dtype):
    op = getattr(reduction, f"{name}FwdOp")(dim=-1, **OPS[name])
    for rows, n in ((1, 2), (3, 7), (257, 64), (33, 1000), (5, 4097), (2048, 4096), (2, 300001)):
        check(op, draw(rows, n, dtype=dtype))
    served = {kernel.__name__ for kernel, _ in op.built_entries(*op.interfaces)}
    assert served <= {"RowReductionKernel", "RowVarMeanKernel"}


COLUMNS = (
    ((37, 520), 0), ((300, 8), 0), ((70, 33), 0), ((3, 77, 12), 1), ((100, 5), 0), ((1, 9), 0),
    ((8192, 4096), 0), ((300001, 3), 0), ((2, 6000, 40), 1), ((4, 128, 4096), (0, 2)),
    ((2, 3, 5, 37), (1, 3)), ((5000, 5, 12), (0, 2)),
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPS)
def test_columns_are_reduced(draw, serving, name, dtype):
    op = getattr(reduction, f"{name}FwdOp")(dim=1, **OPS[name])
    check(op, draw(3, 77, 12, dtype=dtype))
    check(op, draw(2, 6000, 40, dtype=dtype))
    (interface,) = op.interfaces
    assert serving(op, interface) <= {"ColumnReductionKernel", "ColumnVarMeanKernel"}


@pytest.mark.parametrize(("shape", "dim"), COLUMNS, ids=str)
def test_columns_of_any_extents(draw, shape, dim):
    check(reduction.SumFwdOp(dim=dim), draw(*shape, dtype=torch.bfloat16))
    check(reduction.VarMeanFwdOp(dim=dim), draw(*shape))
    if isinstance(dim, int):
        check(reduction.ArgmaxFwdOp(dim=dim), draw(*shape, dtype=torch.float16))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16])
@pytest.mark.parametrize("name", ["Any", "All", "CountNonzero"])
def test_truths_of_columns(draw, name, dtype):
    op = getattr(reduction, f"{name}FwdOp")(dim=0)
    for shape in ((33, 1100), (5000, 7)):
        x = (draw(*shape) > (3.0 if name == "Any" else -3.0)).to(dtype)
        assert torch.equal(op(x), exact(op, x))


def test_special_values_in_columns(draw):
    x = draw(900, 40)
    x[17, 0] = torch.nan
    x[:, 1] = -torch.inf
    x[5, 2] = torch.inf
    x[[9, 400], 3] = 50.0
    x[:, 4] = 0.0
    for name in ("Amax", "Amin", "Argmax", "Sum", "LogSumExp", "Var"):
        check(getattr(reduction, f"{name}FwdOp")(dim=0), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [1, 2, torch.inf])
def test_norms(draw, order, dtype):
    op = reduction.VectorNormFwdOp(order, dim=-1)
    for rows, n in ((1, 1), (33, 1000), (5, 4097)):
        check(op, draw(rows, n, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64, *DTYPES])
@pytest.mark.parametrize("name", ["Any", "All", "CountNonzero"])
def test_truths(draw, name, dtype):
    op = getattr(reduction, f"{name}FwdOp")(dim=-1)
    for n in (1, 100, 4099):
        x = (draw(64, n) > (3.0 if name == "Any" else -3.0)).to(dtype)
        assert torch.equal(op(x), exact(op, x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(draw, dtype):
    check(reduction.ProdFwdOp(dim=-1), (1 + draw(64, 1000) * 0.01).to(dtype))


@pytest.mark.parametrize("dim", [0, 1, (0, 2), (1, 2), None, (0, 1), -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_any_axes(draw, dim, keepdim):
    for dtype in (torch.bfloat16, torch.float32):
        x = draw(4, 33, 136, dtype=dtype)
        for kind in (reduction.SumFwdOp, reduction.AmaxFwdOp, reduction.VarFwdOp):
            check(kind(dim=dim, keepdim=keepdim), x)


def test_views_are_read_as_they_are(draw):
    base = draw(40, 520, dtype=torch.bfloat16)
    for view in (
        base[::3, 8:264],
        base.T,
        base[:, 1:],
        base.flatten()[1:5001],
        base[3].expand(9, 520),
    ):
        check(reduction.SumFwdOp(dim=-1), view)
        check(reduction.ArgmaxFwdOp(dim=-1), view)


def test_transposed_inputs_are_not_copied(draw, serving):
    x = draw(40, 33, 520, dtype=torch.bfloat16).permute(2, 0, 1)
    for dim in (0, 1, -1, (0, 1), (1, 2), None):
        for keepdim in (False, True):
            check(reduction.SumFwdOp(dim=dim, keepdim=keepdim), x)
            if not isinstance(dim, tuple):
                check(reduction.ArgmaxFwdOp(dim=dim, keepdim=keepdim), x)
    op = reduction.SumFwdOp(dim=-1)
    op(x)
    assert serving(op, "reduction") == {"ColumnReductionKernel"}


def test_special_values(draw):
    x = draw(6, 4096)
    x[0, 17] = torch.nan
    x[1] = -torch.inf
    x[2, 5] = torch.inf
    x[3, [9, 4000]] = 50.0
    x[4] = 0.0
    for name in ("Amax", "Amin", "Argmax", "Sum", "LogSumExp"):
        check(getattr(reduction, f"{name}FwdOp")(dim=-1), x)
    for kind in (reduction.SoftmaxFwdOp, reduction.LogSoftmaxFwdOp):
        for y in (x, x.repeat(1, 10)):
            wide = kind(dim=-1)(y.cpu().double().float())
            torch.testing.assert_close(
                kind(dim=-1)(y).cpu(), wide, rtol=2e-5, atol=2e-5, equal_nan=True
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log", [False, True])
def test_softmax(draw, serving, dtype, log):
    op = (reduction.LogSoftmaxFwdOp if log else reduction.SoftmaxFwdOp)(dim=-1)
    function = torch.log_softmax if log else torch.softmax
    sizes = (
        (1, 1),
        (70, 64),
        (33, 1000),
        (5, 4097),
        (2048, 4096),
        (64, 1 << 14),
        (4, 102400),
        (3, 50001),
        (70, 20000),
    )
    for rows, n in sizes:
        x = draw(rows, n, dtype=dtype, scale=3.0)
        torch.testing.assert_close(
            op(x).double(), function(x.double(), -1), rtol=TOLERANCE[dtype]["rtol"], atol=1e-4
        )
    assert serving(op, "softmax") == {
        "SoftmaxOnChipKernel",
        "SoftmaxSplitKernel",
        "SoftmaxStreamingKernel",
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_scans(draw, serving, dtype):
    op = reduction.CumsumFwdOp(dim=-1)
    for rows, n in ((1, 1), (70, 64), (33, 1001), (2048, 4096), (3, 50000)):
        x = draw(rows, n, dtype=dtype) * 0.1
        tolerance = {"rtol": TOLERANCE[dtype]["rtol"], "atol": 2e-3}
        torch.testing.assert_close(op(x).double(), x.double().cumsum(-1), **tolerance)
    product = (1 + draw(70, 200) * 0.01).to(dtype)
    torch.testing.assert_close(
        reduction.CumprodFwdOp(dim=-1)(product).double(), product.double().cumprod(-1),
        **TOLERANCE[dtype],
    )  # fmt: skip
    assert serving(op, "scan") == {"RowScanKernel"}


def test_500_row_counts_make_three_entries_at_most(draw, programs):
    x = draw(500, 1024, dtype=torch.bfloat16)
    for op in (reduction.SumFwdOp(dim=-1), reduction.SoftmaxFwdOp(dim=-1)):
        whole = op(x)
        for rows in range(1, 501):
            assert torch.equal(op(x[:rows]), whole[:rows])
        assert len(op.built_entries(*op.interfaces)) <= 3
    columns = reduction.AmaxFwdOp(dim=0)
    for rows in range(1, 501):
        assert torch.equal(columns(x[:rows]), x[:rows].amax(0))
    assert len(columns.built_entries(*columns.interfaces)) <= 3
    assert len(programs) <= 9


def test_more_than_31_bits_of_elements():
    n = 4096
    rows = (1 << 31) // n + 3
    x = torch.ones(rows, n, dtype=torch.bfloat16, device="cuda")
    x[-1, -1] = 9.0
    y = reduction.SumFwdOp(dim=-1, dtype=torch.float32)(x)
    assert (y[:-1] == n).all()
    assert y[-1] == n + 8
    assert reduction.ArgmaxFwdOp(dim=-1)(x)[-1] == n - 1
    columns = reduction.SumFwdOp(dim=0, dtype=torch.float32)(x)
    assert (columns[:-1] == rows).all()
    assert columns[-1] == rows + 8


def test_more_than_31_bits_of_elements_are_one_sum():
    count = (1 << 31) + 3 * 4096
    x = torch.ones(count // 4096, 4096, dtype=torch.bfloat16, device="cuda")
    x[-1, -1] = 9.0
    total = reduction.SumFwdOp(dtype=torch.float32)(x)
    assert abs(total.item() - (count + 8)) <= 1e-6 * count
    assert reduction.AmaxFwdOp()(x) == 9
    assert reduction.ArgmaxFwdOp()(x) == count - 1
    assert reduction.CountNonzeroFwdOp()(x) == count


def test_softmax_and_scans_of_more_than_31_bits_of_elements():
    n = 4096
    x = torch.zeros((1 << 31) // n + 3, n, dtype=torch.bfloat16, device="cuda")
    x[-1, -1] = 40.0
    y = reduction.SoftmaxFwdOp(dim=-1)(x)
    assert (y[:-1] == 1 / n).all()
    assert y[-1, -1] == 1
    del y
    z = reduction.CumsumFwdOp(dim=-1)(x)
    assert (z[:-1] == 0).all()
    assert (z[-1, :-1] == 0).all()
    assert z[-1, -1] == 40
