"""Reductions and softmax: every function; rows that are short, long, ragged, shared by blocks;
columns that are narrow, wide, shared by blocks, and of rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.reduction.kernels import (
    FUNCTIONS,
    ColumnReductionKernel,
    ColumnVarMeanKernel,
    ReductionCall,
    RowReductionKernel,
    RowScanKernel,
    RowVarMeanKernel,
    SoftmaxOnChipKernel,
    SoftmaxSplitKernel,
    SoftmaxStreamingKernel,
)
from tileops.reduction.kernels.layout import ColumnLayout, RowLayout, reduction_layout

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
RESULT = {"argmax": torch.int64, "argmin": torch.int64, "count_nonzero": torch.int64,
          "any": torch.bool, "all": torch.bool}  # fmt: skip


def _values(shape, dtype, function, generator) -> Tensor:
    x = torch.randn(shape, generator=generator)
    if function in ("any", "all", "count_nonzero"):
        x = (x > (1.5 if function == "any" else -3)).float()
    if function == "prod":
        x = 1 + x * 0.01
    if function.startswith("arg") and x.shape[-1] > 4:
        best = 9.0 if function == "argmax" else -9.0
        x[0, x.shape[1] // 2] = x[0, 1] = x[x.shape[0] // 2, 2] = best
        x[-1, 3] = x[-1, 4] = torch.nan
    return x.to(dtype)


def _case(
    name, function, shape, dtype, axes, layout, out_dtype=None, correction=None, view=None, **more
):
    """A reduction of `shape`, or of a view of it, over `axes`."""
    out_dtype = out_dtype or RESULT.get(function, dtype)
    is_spread, spread = function in ("var", "std", "var_mean"), None
    if is_spread:
        spread = 1.0 if correction is None else correction
    columns = isinstance(layout, ColumnLayout)
    if function == "var_mean":
        kernel = ColumnVarMeanKernel if columns else RowVarMeanKernel
    else:
        kernel = ColumnReductionKernel if columns else RowReductionKernel
    name_, _, order = function.partition(" ")
    call = ReductionCall(
        name_, len(shape), axes, False, torch.float64, RESULT.get(function, torch.float64),
        float(order) if order else None, spread,
    )  # fmt: skip

    def inputs(generator: torch.Generator) -> tuple[Tensor]:
        x = _values(shape, dtype, function, generator)
        return (view(x) if view else x,)

    def expected(x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        if function == "var_mean":
            return torch.var_mean(x, axes)
        if is_spread and math.prod(shape[axis] for axis in axes) <= spread:
            return torch.full(shape[:1], torch.nan)
        return FUNCTIONS[name_](x, call)

    constants = (function, dtype, out_dtype, layout, axes, False, spread)
    return Case(f"{function}, {name}", kernel, constants, inputs, expected, **more)


def _rows(name, function, rows, n, dtype, lanes=128, parts=False, **more):
    vector = 16 // dtype.itemsize
    layout = RowLayout(vector, n % vector != 0, lanes, parts)
    return _case(name, function, (rows, n), dtype, (1,), layout, **more)


def _columns(name, function, shape, dtype, axes=(0,), **more):
    given, view = torch.empty(shape, dtype=dtype), more.get("view")
    layout = reduction_layout(view(given) if view else given, axes)
    assert isinstance(layout, ColumnLayout)
    parts = more.pop("parts", False)
    assert layout.parts == parts
    return _case(name, function, shape, dtype, axes, layout, **more)


def _softmax(kernel, name, rows, n, dtype, log, length, out_dtype=None, **more):
    def inputs(generator: torch.Generator) -> tuple[Tensor]:
        x = torch.randn(rows, n, generator=generator) * 3
        x[0, : n // 2] = -torch.inf
        return (x.to(dtype),)

    def expected(x: Tensor) -> Tensor:
        return torch.log_softmax(x, 1) if log else torch.softmax(x, 1)

    constants = (length, dtype, out_dtype or dtype, log)
    return Case(name, kernel, constants, inputs, expected, **more)


def _scan(name, function, rows, n, dtype, vector, long=False, **more):
    def inputs(generator: torch.Generator) -> tuple[Tensor]:
        x = torch.randn(rows, n, generator=generator)
        return ((x if function == "cumsum" else 1 + x * 0.01).to(dtype),)

    def expected(x: Tensor) -> Tensor:
        return getattr(torch, function)(x, 1)

    return Case(name, RowScanKernel, (function, dtype, vector, long), inputs, expected, **more)


CASES = (
    _rows("row of a block", "sum", 3, 4096, BF16, contains=("read_once<uint4>",)),
    _rows("part of a step", "mean", 3, 5000, F32, contains=("read_once<uint4>",)),
    _rows("rows of a warp", "amax", 9, 72, F16, lanes=32),
    _rows("ragged", "sum", 5, 4099, BF16),
    _rows("shorter than an access", "sum", 70, 3, F16, lanes=32),
    _rows("one element", "amin", 5, 1, F32, lanes=32),
    _rows("ragged", "argmax", 5, 1003, BF16),
    _rows("rows of a block", "argmin", 3, 2048, F32),
    _rows("half", "prod", 3, 256, F16, lanes=32),
    _rows("half", "norm 1", 3, 520, BF16),
    _rows("float32", "norm 2", 3, 520, F32),
    _rows("half", "norm inf", 3, 520, F16),
    _rows("half", "logsumexp", 3, 4096, BF16),
    _rows("ragged", "logsumexp", 3, 1001, F32),
    _rows("truths", "any", 7, 1000, torch.bool),
    _rows("floats", "all", 7, 100, F32, lanes=32),
    _rows("integers", "count_nonzero", 3, 1030, torch.int64),
    _rows("float32 result", "sum", 3, 512, BF16, out_dtype=F32),
    _rows("shared", "sum", 2, 40000, BF16, lanes=256, parts=True),
    _rows("shared, ragged", "argmax", 3, 40003, F16, lanes=256, parts=True),
    _rows("shared", "logsumexp", 2, 40000, F32, lanes=256, parts=True),
    _rows("row of a block", "var", 3, 4096, F32),
    _rows("ragged", "std", 9, 101, F32, lanes=32),
    _rows("no divisor", "var", 3, 1, F32, lanes=32),
    _rows("a negative divisor", "std", 3, 40, F32, lanes=32, correction=50.0),
    _rows("a negative divisor and no spread", "var", 3, 1, F32, lanes=32, correction=2.0),
    _rows("long", "var_mean", 2, 10000, F32, lanes=512),
    _rows("shared", "var_mean", 2, 40000, F32, lanes=256, parts=True),
    _columns("wide", "sum", (37, 520), BF16, contains=("uint4",)),
    _columns("one access wide", "mean", (300, 8), BF16),
    _columns("narrow accesses", "amax", (50, 66), F16),
    _columns("odd", "amin", (70, 33), F32),
    _columns("several matrices", "argmax", (3, 77, 12), F32, axes=(1,)),
    _columns("narrow", "argmin", (100, 5), BF16),
    _columns("wide", "prod", (40, 264), F32),
    _columns("wide", "norm 2", (40, 264), F16),
    _columns("wide", "logsumexp", (41, 72), BF16),
    _columns("truths", "all", (33, 1100), torch.bool),
    _columns("integers", "count_nonzero", (90, 6), torch.int64),
    _columns("wide", "std", (41, 72), BF16),
    _columns("several matrices", "var_mean", (2, 41, 36), F32, axes=(1,)),
    _columns("two rows", "var", (2, 36), F32),
    _columns("transposed", "argmax", (41, 72), F32, axes=(1,), view=lambda x: x.T),
    _columns("turned", "sum", (3, 21, 64), BF16, axes=(2,), view=lambda x: x.permute(2, 0, 1)),
    _columns("shared", "sum", (700, 264), BF16, parts=True),
    _columns("shared, one column an access", "logsumexp", (1500, 3), F32, parts=True),
    _columns("shared", "argmax", (2, 600, 40), F16, axes=(1,), parts=True),
    _columns("of rows", "sum", (4, 9, 300), F16, axes=(0, 2)),
    _columns("of rows, ragged", "var_mean", (2, 3, 5, 37), F32, axes=(1, 3)),
    _columns("of rows", "logsumexp", (3, 5, 600), F16, axes=(0, 2)),
    _columns("of rows, shared", "std", (600, 5, 12), F32, axes=(0, 2), parts=True),
    _softmax(SoftmaxOnChipKernel, "row of a block", 3, 4096, BF16, False, 4096),
    _softmax(SoftmaxOnChipKernel, "rows of a warp", 9, 200, F16, False, 200),
    _softmax(SoftmaxOnChipKernel, "logarithm, odd", 3, 1001, F32, True, 1001),
    _softmax(SoftmaxOnChipKernel, "float32 result", 3, 512, BF16, False, 512, F32),
    _softmax(SoftmaxSplitKernel, "part of a step", 2, 20000, BF16, False, 8),
    _softmax(SoftmaxSplitKernel, "logarithm", 3, 9001, F32, True, 1),
    _softmax(SoftmaxStreamingKernel, "part of a step", 2, 20000, BF16, False, 8),
    _softmax(SoftmaxStreamingKernel, "logarithm", 2, 9001, F32, True, 1),
    _scan("sum", "cumsum", 3, 4096, BF16, 8, contains=("uint4", "store_global_128")),
    _scan("part of a tile", "cumsum", 2, 5000, F16, 8),
    _scan("odd width", "cumsum", 2, 1001, F32, 1),
    _scan("product", "cumprod", 3, 256, F32, 4),
    _scan("long", "cumsum", 2, 20000, BF16, 8, True),
)  # fmt: skip
