"""Reductions of rows and of columns that TileLang makes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned
from tileops._kernels.scratch import scratch
from tileops.kernels import Kernel
from tileops.reduction.kernels.layout import (
    COLUMN_THREADS,
    ColumnLayout,
    Geometry,
    RowLayout,
    column_parts,
    geometry,
    memory_order,
    places_of,
    row_parts,
)
from tileops.reduction.kernels.reductions import (
    ReductionCall,
    ReductionFwdInterface,
    VarMeanFwdInterface,
)


class _TileKernel(Kernel):
    """A reduction that reads its input where it lies.

    Args:
        function: name of the function, with the order of a norm.
        dtype: element type of the input.
        out_dtype: element type of the results.
        layout: how the program walks the input.
        axes: the reduced axes.
        keepdim: whether they stay with length 1.
        correction: subtracted from the divisor of a variance.
    """

    supported_archs = frozenset({HOPPER})
    functions: ClassVar[frozenset[str]]
    layouts: ClassVar[type[RowLayout] | type[ColumnLayout]]
    absent: ClassVar[str]
    """What a call lacks whose input does not lie as the program needs it."""

    def __init__(
        self,
        function: str,
        dtype: torch.dtype,
        out_dtype: torch.dtype,
        layout: Any,
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
        if not isinstance(call.layout, cls.layouts):
            return cls.absent
        if call.dtype.is_complex:
            return "reduces no complex numbers"
        rounds = call.out_dtype.is_floating_point and call.out_dtype is not torch.float32
        if rounds and call.dtype is not call.out_dtype:
            return f"does not round {call.dtype} to {call.out_dtype} first"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: ReductionCall) -> tuple[Hashable, Callable[[], Any]]:
        """One build for all extents of a layout."""
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

    def fold(self) -> Any:
        """What the program accumulates."""
        from tileops.reduction.programs import fold_of

        half = self.out_dtype.itemsize == 2
        return fold_of(self.function, half=half, correction=self.correction)

    def results(self, x: Tensor, count: int) -> list[Tensor]:
        """Launches the program: `count` new results for the input `x`, read as it lies."""
        order = memory_order(x)
        places_count = len(self.axes) > 1 and self.function.startswith("arg")
        if order is None or places_count:
            return self._launch(x, self.axes, count, keepdim=self.keepdim)
        axes = places_of(self.axes, order)
        back = sorted(range(x.dim()), key=order.__getitem__)
        made = self._launch(x.permute(order), axes, count, keepdim=True)
        turned = [item.permute(back) for item in made]
        return [(item if self.keepdim else item.squeeze(self.axes)).contiguous() for item in turned]

    def _launch(
        self, x: Tensor, axes: tuple[int, ...], count: int, *, keepdim: bool
    ) -> list[Tensor]:
        """The results for an input in the order of memory, or a copy of it."""
        kept = [
            1 if axis in axes else extent
            for axis, extent in enumerate(x.shape)
            if keepdim or axis not in axes
        ]
        made = [torch.empty(kept, dtype=self.out_dtype, device=x.device) for _ in range(count)]
        shape = geometry(tuple(x.shape), axes)
        assert shape is not None
        self.program()(_line(aligned(x.contiguous())), _line(made[0]), _line(made[-1]), shape)
        return made


def _line(tensor: Tensor) -> Tensor:
    """A contiguous tensor as programs see it: one axis, truths as bytes."""
    line = tensor.view(-1)
    return line.view(torch.uint8) if tensor.dtype is torch.bool else line


def _states(fold: Any, line: Tensor, *counts: int) -> list[Tensor]:
    """Memory for so many states each."""
    return scratch(line.device, *((len(fold.types), count) for count in counts))


def function_of(call: ReductionCall) -> str:
    """Name of the function, with the order of a norm."""
    if call.function != "norm":
        return call.function
    return f"norm {2 if call.ord is None else call.ord:g}"


class _RowKernel(_TileKernel):
    """A fold of each row, read once; a second launch merges what blocks of a row leave."""

    layouts = RowLayout
    absent = "reduces innermost axes of known, positive length"

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Short rows share a block."""
        return {"rows": max(1, 128 // self.layout.lanes), "unroll": 4}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction import programs

        layout, fold, result = self.layout, self.fold(), dtype_name(self.out_dtype)
        walk = row_walk(self.dtype, layout, **config)
        if layout.parts:
            shared = programs.build_row_fold_in_parts(fold, walk, result).compile(HOPPER)
        else:
            whole = programs.build_row_fold(fold, walk, result).compile(HOPPER)

        def launch(line: Tensor, first: Tensor, second: Tensor, shape: Geometry) -> None:
            if not layout.parts:
                whole(line, first, second, shape.length)
                return
            parts = row_parts(shape.width, shape.length, layout.vector)
            (states,) = _states(fold, line, shape.width * parts)
            shared(line, states, first, second, shape.length, parts)

        return launch


def row_walk(dtype: torch.dtype, layout: RowLayout, **config: Any) -> Any:
    """How a program walks rows."""
    from tileops.reduction.programs import Rows

    return Rows(dtype_name(dtype), layout.vector, layout.ragged, layout.lanes, **config)


class _ColumnKernel(_TileKernel):
    """A fold of each column, read once in the order of memory.

    Where some reduced axes are innermost, rows become states first. Where columns are few, blocks
    share one; a last launch merges what they leave.
    """

    layouts = ColumnLayout
    absent = "reduces axes outside kept ones, of known, positive length"

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Enough bytes in flight to hide the latency of memory."""
        return {"groups": COLUMN_THREADS // self.layout.lanes, "unroll": 4}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction import programs

        layout, fold, result = self.layout, self.fold(), dtype_name(self.out_dtype)
        name = dtype_name(self.dtype)
        walk = programs.Columns(name, layout.vector, layout.lanes, **config)
        if layout.rows is not None:
            return self._of_rows(fold, walk.of_states, result)
        if layout.parts:
            shared = programs.build_column_fold_in_parts(fold, walk, result).compile(HOPPER)
        else:
            whole = programs.build_column_fold(fold, walk, result).compile(HOPPER)

        def launch(line: Tensor, first: Tensor, second: Tensor, shape: Geometry) -> None:
            accesses = shape.width // layout.vector
            if not layout.parts:
                whole(line, first, second, shape.height, shape.height, accesses)
                return
            parts = column_parts(shape, layout)
            (states,) = _states(fold, line, shape.matrices * parts * shape.width)
            shared(line, states, first, second, shape.height, shape.height, accesses, parts)

        return launch

    def _of_rows(self, fold: Any, walk: Any, result: str) -> Callable[..., None]:
        """The program where columns are of the states of rows."""
        from tileops.reduction.programs import build_row_and_column_fold

        layout = self.layout
        shared = max(1, 128 // layout.rows.lanes)  # rows of a block where they are short
        rows = row_walk(self.dtype, layout.rows, rows=shared, unroll=4)
        program = build_row_and_column_fold(fold, rows, walk, result, sliced=layout.parts)
        compiled = program.compile(HOPPER)

        def launch(line: Tensor, first: Tensor, second: Tensor, shape: Geometry) -> None:
            matrices, height, width, length = shape
            parts = column_parts(shape, layout) if layout.parts else 1
            counts = [matrices * height * width, matrices * parts * width]
            states = _states(fold, line, *counts[: 1 + layout.parts])
            numbers = (height * length, length, height, width, parts)
            compiled(line, states[0], states[-1], first, second, *numbers)

        return launch


_FUNCTIONS = frozenset(
    {
        "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "norm 1", "norm 2", "norm inf",
        "any", "all", "count_nonzero", "logsumexp", "var", "std",
    }
)  # fmt: skip


class RowReductionKernel(_RowKernel, ReductionFwdInterface):
    """One result for each row."""

    functions = _FUNCTIONS

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes of the call spec."""
        return self.results(x, 1)[0]


class ColumnReductionKernel(_ColumnKernel, ReductionFwdInterface):
    """One result for each column."""

    functions = _FUNCTIONS

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes of the call spec."""
        return self.results(x, 1)[0]


class RowVarMeanKernel(_RowKernel, VarMeanFwdInterface):
    """Variance and mean of each row."""

    functions = frozenset({"var_mean"})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce over the axes of the call spec."""
        variance, mean = self.results(x, 2)
        return variance, mean


class ColumnVarMeanKernel(_ColumnKernel, VarMeanFwdInterface):
    """Variance and mean of each column."""

    functions = frozenset({"var_mean"})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce over the axes of the call spec."""
        variance, mean = self.results(x, 2)
        return variance, mean
