"""Reductions of innermost axes that TileLang makes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor

from tileops._core.dispatch.alignment import aligned
from tileops.kernels import Kernel
from tileops.reduction.kernels.layout import RowLayout
from tileops.reduction.kernels.reductions import (
    ReductionCall,
    ReductionFwdInterface,
    VarMeanFwdInterface,
)

HOPPER = 90
"""The architecture that the programs are made for."""

_BLOCKS = 1056  # among which few long rows are divided: eight for each multiprocessor


def dtype_name(dtype: torch.dtype) -> str:
    """The name of an element type in programs."""
    return str(dtype).removeprefix("torch.")


class _RowKernel(Kernel):
    """A reduction of rows that lie one after another.

    Args:
        function: name of the function, with the order of a norm.
        dtype: element type of the input.
        out_dtype: element type of the result.
        layout: how the program walks the rows.
        axes: the reduced axes.
        keepdim: whether they stay with length 1.
        correction: subtracted from the divisor of a variance.
    """

    supported_archs = frozenset({HOPPER})
    functions: ClassVar[frozenset[str]]

    def __init__(
        self,
        function: str,
        dtype: torch.dtype,
        out_dtype: torch.dtype,
        layout: RowLayout,
        axes: tuple[int, ...] = (1,),
        keepdim: bool = False,
        correction: float | None = None,
    ) -> None:
        super().__init__()
        self.function, self.dtype, self.out_dtype = function, dtype, out_dtype
        self.layout, self.axes, self.keepdim = layout, axes, keepdim
        self.correction = 1.0 if correction is None else correction

    @classmethod
    def refusal(cls, call: ReductionCall) -> str | None:
        """Refuses other functions and axes, and inputs that are rounded before they are reduced."""
        if function_of(call) not in cls.functions:
            return f"does not compute {function_of(call)}"
        if call.layout is None:
            return "reduces innermost axes of known, positive length"
        if call.dtype.is_complex:
            return "reduces no complex numbers"
        rounds = call.out_dtype.is_floating_point and call.out_dtype is not torch.float32
        if rounds and call.dtype is not call.out_dtype:
            return f"does not round {call.dtype} to {call.out_dtype} first"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: ReductionCall) -> tuple[Hashable, Callable[[], Any]]:
        """One build for all row counts, and for all row lengths of a layout."""
        assert call.layout is not None
        constants = (
            function_of(call),
            call.dtype,
            call.out_dtype,
            call.layout,
            call.axes,
            call.keepdim,
            call.correction,
        )
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Short rows share a block."""
        return {"rows": max(1, 128 // self.layout.lanes), "unroll": 4}

    def walk(self, config: Mapping[str, Any]) -> Any:
        """How the program walks the rows."""
        from tileops.reduction.programs import Rows

        layout = self.layout
        name = dtype_name(self.dtype)
        return Rows(name, layout.vector, layout.ragged, layout.lanes, **config)

    def elements(self, x: Tensor) -> tuple[Tensor, int, int]:
        """The elements as one axis, truths as bytes; the rows; their length."""
        length = prod(x.shape[axis] for axis in self.axes)
        line = aligned(x.contiguous()).view(-1)
        if x.dtype is torch.bool:
            line = line.view(torch.uint8)
        return line, x.numel() // length, length

    def result(self, x: Tensor) -> Tensor:
        """A new result for the input `x`."""
        kept = [
            1 if axis in self.axes else extent
            for axis, extent in enumerate(x.shape)
            if self.keepdim or axis not in self.axes
        ]
        return torch.empty(kept, dtype=self.out_dtype, device=x.device)


def _stored(result: Tensor) -> Tensor:
    """A result as the program stores it: one axis, truths as bytes."""
    line = result.view(-1)
    return line.view(torch.uint8) if result.dtype is torch.bool else line


def function_of(call: ReductionCall) -> str:
    """Name of the function, with the order of a norm."""
    if call.function != "norm":
        return call.function
    return f"norm {2 if call.ord is None else call.ord:g}"


class RowReductionKernel(_RowKernel, ReductionFwdInterface):
    """A fold of each row, read once; blocks that share a row leave the rest to a second launch."""

    functions = frozenset(
        {
            "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "norm 1", "norm 2",
            "norm inf", "any", "all", "count_nonzero", "logsumexp",
        }
    )  # fmt: skip

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program, or the two that share the work of long rows."""
        from tileops.reduction import programs

        fold, result = programs.FOLDS[self.function], dtype_name(self.out_dtype)
        walk = self.walk(config)
        if not self.layout.parts:
            return programs.build_row_fold(fold, walk, result).compile(HOPPER)
        fill = programs.build_row_parts(fold, walk).compile(HOPPER)
        merge = programs.build_merge(fold, result, lanes=128).compile(HOPPER)
        types = [getattr(torch, name) for name in fold.types]

        def launch(line: Tensor, output: Tensor, length: int) -> None:
            rows = output.numel()
            parts = max(1, min(-(-_BLOCKS // rows), length // (1 << 13)))
            states = [line.new_empty(rows * parts, dtype=kind) for kind in types]
            fill(line, states[0], states[-1], length, parts)
            merge(states[0], states[-1], output, length, parts)

        return launch

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes of the call spec."""
        line, _, length = self.elements(x)
        output = self.result(x)
        self.program()(line, _stored(output), length)
        return output


class RowSpreadKernel(_RowKernel, ReductionFwdInterface):
    """Variance or standard deviation of each row, read once from memory and again from caches."""

    functions = frozenset({"var", "std"})

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        return _spread_program(self, config, with_mean=False)

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes of the call spec."""
        line, _, length = self.elements(x)
        output = self.result(x)
        self.program()(line, output.view(-1), output.view(-1), length)
        return output


class RowVarMeanKernel(_RowKernel, VarMeanFwdInterface):
    """Variance and mean of each row, read once from memory and again from caches."""

    functions = frozenset({"var_mean"})

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        return _spread_program(self, config, with_mean=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce over the axes of the call spec."""
        line, _, length = self.elements(x)
        variance, mean = self.result(x), self.result(x)
        self.program()(line, variance.view(-1), mean.view(-1), length)
        return variance, mean


def _spread_program(
    kernel: _RowKernel, config: Mapping[str, Any], *, with_mean: bool
) -> Callable[..., None]:
    from tileops.reduction.programs import Spread, build_row_spread

    root, result = kernel.function == "std", dtype_name(kernel.out_dtype)
    spread = Spread(root, kernel.correction, with_mean, result)
    return build_row_spread(spread, kernel.walk(config)).compile(HOPPER)
