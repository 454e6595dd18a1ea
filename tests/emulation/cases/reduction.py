"""Reductions and softmax: every function; rows that are short, long, ragged, shared by blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.reduction.kernels import (
    FUNCTIONS,
    ReductionCall,
    RowReductionKernel,
    RowScanKernel,
    RowSpreadKernel,
    RowVarMeanKernel,
    SoftmaxOnChipKernel,
    SoftmaxStreamingKernel,
)
from tileops.reduction.kernels.layout import RowLayout

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
RESULT = {"argmax": torch.int64, "argmin": torch.int64, "count_nonzero": torch.int64,
          "any": torch.bool, "all": torch.bool}  # fmt: skip


def _values(rows, n, dtype, function, generator) -> Tensor:
    x = torch.randn(rows, n, generator=generator)
    if function in ("any", "all", "count_nonzero"):
        x = (x > (1.5 if function == "any" else -3)).float()
    if function == "prod":
        x = 1 + x * 0.01
    if function.startswith("arg") and n > 4:
        x[0, n // 2] = x[0, 1] = 9.0 if function == "argmax" else -9.0
        x[-1, 3] = x[-1, 4] = torch.nan
    return x.to(dtype)


def _case(kernel, name, function, rows, n, dtype, layout, out_dtype=None, correction=None, **more):
    out_dtype = out_dtype or RESULT.get(function, dtype)
    name_, _, order = function.partition(" ")
    call = ReductionCall(
        name_, 2, (1,), False, torch.float64, RESULT.get(function, torch.float64),
        float(order) if order else None, correction,
    )  # fmt: skip

    def inputs(generator: torch.Generator) -> tuple[Tensor]:
        return (_values(rows, n, dtype, function, generator),)

    def expected(x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        if function == "var_mean":
            return torch.var_mean(x, 1)
        if correction is not None and n <= correction:
            return torch.full((rows,), torch.nan)
        return FUNCTIONS[name_](x, call)

    constants = (function, dtype, out_dtype, layout, (1,), False, correction)
    return Case(name, kernel, constants, inputs, expected, **more)


def _rows(name, function, rows, n, dtype, lanes=128, parts=False, **more):
    vector = 16 // dtype.itemsize
    layout = RowLayout(vector, n % vector != 0, lanes, parts)
    kernel = {"var": RowSpreadKernel, "std": RowSpreadKernel, "var_mean": RowVarMeanKernel}.get(
        function, RowReductionKernel
    )
    if kernel is not RowReductionKernel:
        more.setdefault("correction", 1.0)
    return _case(kernel, f"{function}, {name}", function, rows, n, dtype, layout, **more)


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
    _rows("row of a block", "sum", 3, 4096, BF16, contains=("uint4",)),
    _rows("part of a step", "mean", 3, 5000, F32, contains=("float4",)),
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
    _softmax(SoftmaxOnChipKernel, "row of a block", 3, 4096, BF16, False, 4096),
    _softmax(SoftmaxOnChipKernel, "rows of a warp", 9, 200, F16, False, 200),
    _softmax(SoftmaxOnChipKernel, "logarithm, odd", 3, 1001, F32, True, 1001),
    _softmax(SoftmaxOnChipKernel, "float32 result", 3, 512, BF16, False, 512, F32),
    _softmax(SoftmaxStreamingKernel, "part of a step", 2, 20000, BF16, False, 8),
    _softmax(SoftmaxStreamingKernel, "logarithm", 2, 9001, F32, True, 1),
    _scan("sum", "cumsum", 3, 4096, BF16, 8, contains=("uint4", "store_global_128")),
    _scan("part of a tile", "cumsum", 2, 5000, F16, 8),
    _scan("odd width", "cumsum", 2, 1001, F32, 1),
    _scan("product", "cumprod", 3, 256, F32, 4),
    _scan("long", "cumsum", 2, 20000, BF16, 8, True),
)  # fmt: skip
