"""However many row counts a memory-bound op meets, a TileLang kernel is built three times at most.

Calls are told apart by what ops put into call specs; no device is needed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator

import pytest
import torch

from tileops.elementwise.kernels import (
    AlibiTileKernel,
    DropoutCall,
    GatedCall,
    PointwiseCall,
    SinusoidalTileKernel,
)
from tileops.elementwise.kernels.layout import arrange
from tileops.kernels import CallSpec, Kernel
from tileops.norm.kernels import (
    AdaLayerNormCall,
    BatchNormBwdCall,
    GroupNormCall,
    InstanceNormCall,
    LayerNormCall,
    RMSNormCall,
)
from tileops.reduction.kernels import ReductionCall, ScanCall, SoftmaxCall
from tileops.reduction.kernels.layout import reduction_layout
from tileops.reduction.kernels.softmax import are_few
from tileops.rope.kernels import RotaryCall, access_to

BF16 = torch.bfloat16
HOPPER = {"arch": 90}
ROWS = range(1, 501)
OF_PARAMETERS = {AlibiTileKernel, SinusoidalTileKernel}  # an op knows all their extents
WIDE = torch.empty(500, 64, 48, dtype=BF16)


def pointwise(function: str, *shapes: Callable[[int], tuple[int, ...]]):
    def call(rows: int) -> CallSpec:
        layout = arrange([torch.empty(shape(rows), dtype=BF16) for shape in shapes], 2).layout
        return PointwiseCall(function, BF16, BF16, (), False, layout, **HOPPER)

    return call


def reduction(function: str, *axes: int):
    def call(rows: int) -> CallSpec:
        layout = reduction_layout(WIDE[:rows], axes)
        return ReductionCall(function, 3, axes, False, BF16, BF16, layout=layout, **HOPPER)

    return call


def softmax(n: int):
    return lambda rows: SoftmaxCall(2, 1, BF16, BF16, False, n, are_few(rows, n), **HOPPER)


def rotary(rows: int) -> CallSpec:
    access = access_to(torch.empty(2, rows, 4, 64, dtype=BF16), 64, False, None)
    return RotaryCall("neox", 64, 64, False, BF16, access, **HOPPER)


CALLS: dict[str, Callable[[int], CallSpec]] = {
    "rms norm": lambda rows: RMSNormCall(4096, 1e-6, True, BF16, **HOPPER),
    "rms norm, long": lambda rows: RMSNormCall(40000, 1e-6, True, BF16, **HOPPER),
    "layer norm": lambda rows: LayerNormCall(4096, 1e-6, True, True, BF16, **HOPPER),
    "layer norm, long": lambda rows: LayerNormCall(40000, 1e-6, True, True, BF16, **HOPPER),
    "adaptive layer norm": lambda rows: AdaLayerNormCall(4096, 1e-6, True, BF16, **HOPPER),
    "group norm": lambda rows: GroupNormCall(8, 32, 49, 1e-6, True, True, BF16, **HOPPER),
    "instance norm": lambda rows: InstanceNormCall(
        True, 0.1, 1e-6, False, True, True, BF16, 64, 49, **HOPPER
    ),
    "gradients of batch norm": lambda rows: BatchNormBwdCall(49, 49 * rows, BF16, **HOPPER),
    "gate": lambda rows: GatedCall("silu", 4096, BF16, **HOPPER),
    "dropout": lambda rows: DropoutCall(BF16, **HOPPER),
    "flat": pointwise("add", lambda rows: (rows, 63), lambda rows: (rows, 63)),
    "rows": pointwise("add", lambda rows: (rows, 64), lambda rows: (64,)),
    "odd rows": pointwise("add", lambda rows: (rows, 63), lambda rows: (63,)),
    "columns": pointwise("add", lambda rows: (rows, 64), lambda rows: (rows, 1)),
    "channels": pointwise("add", lambda rows: (rows, 8, 49), lambda rows: (8, 1)),
    "scan": lambda rows: ScanCall("cumsum", 2, 1, BF16, 4096, **HOPPER),
    "softmax": softmax(4096),
    "softmax, long": softmax(40000),
    "sum of rows": reduction("sum", 2),
    "sum of columns": reduction("sum", 0),
    "sum of inner columns": reduction("sum", 1),
    "sum of columns of rows": reduction("sum", 0, 2),
    "sum of all": reduction("sum", 0, 1, 2),
    "moments of rows": reduction("var_mean", 2),
    "moments of columns": reduction("var_mean", 0),
    "rotation": rotary,
}


def kernels() -> Iterator[type[Kernel]]:
    """The TileLang kernels of memory-bound ops."""
    for family in ("norm", "elementwise", "reduction", "rope"):
        for found in vars(importlib.import_module(f"tileops.{family}.kernels")).values():
            if inspect.isclass(found) and issubclass(found, Kernel) and found.needs_tilelang:
                yield found


def builds(name: str) -> set[tuple[type[Kernel], object]]:
    """What is built for 500 row counts."""
    calls = {CALLS[name](rows) for rows in ROWS}
    return {
        (kernel, kernel.entry_for(call)[0])
        for call in calls
        for kernel in kernels()
        if isinstance(call, kernel.request) and kernel.refusal(call) is None
    }


@pytest.mark.parametrize("name", CALLS)
def test_500_row_counts_make_three_builds_at_most(name: str) -> None:
    made = [kernel for kernel, _ in builds(name)]
    assert made
    assert all(made.count(kernel) <= 3 for kernel in made)


def test_every_kernel_is_met() -> None:
    met = {kernel for name in CALLS for kernel, _ in builds(name)}
    lacking = {kernel.__name__ for kernel in set(kernels()) - met - OF_PARAMETERS}
    assert not lacking, "each needs a call in CALLS that it serves"
