"""Kernels of pointwise and gated functions that TileLang makes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import BOUNDARY, aligned, widest_access
from tileops.elementwise.kernels.layout import RANKS, Layout, arrange, in_reach
from tileops.elementwise.kernels.pointwise import (
    BinaryFwdInterface,
    GatedCall,
    GatedFwdInterface,
    PointwiseCall,
    TernaryFwdInterface,
    UnaryFwdInterface,
)
from tileops.kernels import Kernel


class PointwiseTileKernel(Kernel, UnaryFwdInterface, BinaryFwdInterface, TernaryFwdInterface):
    """Pointwise functions in one pass over memory, in accesses of up to 16 bytes.

    Args:
        function: name of the function.
        dtype: element type of the data operands.
        out_dtype: element type of the result.
        settings: the function's parameters.
        layout: how the operands lie.
        inplace: whether the result is written into the operand.
    """

    supported_archs = frozenset({HOPPER})

    DTYPES = frozenset(
        {
            torch.float32, torch.float16, torch.bfloat16, torch.bool,
            torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        }
    )  # fmt: skip
    """Element types of operands."""
    _MASKS: Mapping[str, int] = {"where": 0, "masked_fill": 1}  # place of an operand of truths

    def __init__(
        self,
        function: str,
        dtype: torch.dtype,
        out_dtype: torch.dtype,
        settings: tuple[tuple[str, Any], ...],
        layout: Layout,
        inplace: bool,
    ) -> None:
        super().__init__()
        self.function, self.dtype, self.out_dtype = function, dtype, out_dtype
        self.settings, self.layout, self.inplace = settings, layout, inplace

    @classmethod
    def refusal(cls, call: PointwiseCall) -> str | None:
        """Refuses other element types, and operands that do not fit its indices."""
        layout = call.layout
        if layout is None:
            return "needs to know how the operands lie"
        if call.dtype not in cls.DTYPES:
            return f"has no element type {call.dtype}"
        if call.inplace and layout.rank > 1:
            return "writes in place only where elements lie in one row"
        if layout.rank > RANKS:
            return f"broadcasts over at most {RANKS} axes, not {layout.rank}"
        if layout.rank > 1 and layout.wide:
            return "broadcasts with indices of 31 bits, which these operands exceed"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: PointwiseCall) -> tuple[Hashable, Callable[[], PointwiseTileKernel]]:
        """One build for all extents of one layout."""
        assert call.layout is not None
        settings = tuple(item for item in call.settings if item[0] != "inplace")
        function, dtype, out_dtype = call.function, call.dtype, call.out_dtype
        constants = (function, dtype, out_dtype, settings, call.layout, call.inplace)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Broadcasts share the work of finding places among two accesses.

        Where results are narrower than what is read, a thread has two accesses in flight as well.
        """
        if self.layout.rank > 1:
            return {"threads": 256, "unroll": 2 if self.layout.whole is None else 1}
        narrower = self.out_dtype.itemsize < self.dtype.itemsize
        return {"threads": 128, "unroll": 2 if narrower else 1}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.elementwise import programs

        layout = self.layout
        along = [advances for advances in layout.along if advances is not None]
        element = self._element()
        if layout.rank == 1:
            program = programs.build_pointwise_flat(
                element, along, layout.vector, wide=layout.wide, **config
            )
        else:
            program = programs.build_pointwise_broadcast(
                element, along, layout.rank, layout.vector, whole=layout.whole, **config
            )
        return program.compile(HOPPER)

    def _element(self) -> Any:
        """What the program computes of corresponding elements."""
        from tileops.elementwise.programs import Element

        settings = dict(self.settings)
        if self.function == "nan_to_num":
            limits = torch.finfo(self.dtype)
            for name, limit in (("posinf", limits.max), ("neginf", limits.min)):
                settings[name] = limit if settings[name] is None else settings[name]
        places = [place for place, found in enumerate(self.layout.along) if found is not None]
        mask = self._MASKS.get(self.function)
        stored = ["bool" if place == mask else dtype_name(self.dtype) for place in places]
        return Element(self.function, settings, stored, dtype_name(self.out_dtype), places)

    def forward(self, *operands: Tensor | None) -> Tensor:
        """Apply the function to broadcast operands."""
        if self.inplace:
            (operand,) = operands
            assert operand is not None
            return self._write(operand)
        arrangement = arrange(operands, self.out_dtype.itemsize)
        shape = arrangement.shape
        present = [
            item if in_reach(item, shape) else item.contiguous()
            for item in operands
            if item is not None
        ]
        output = torch.empty(shape, dtype=self.out_dtype, device=present[0].device)
        if arrangement.layout.rank == 1:
            present = [aligned(item) for item in present]
        tensors = map(_line, present, arrangement.spans)
        self.program()(*tensors, _line(output, output.numel()), *arrangement.numbers)
        return output

    def _write(self, operand: Tensor) -> Tensor:
        """Apply the function in place, through a copy where the elements have gaps."""
        order = sorted(range(operand.dim()), key=operand.stride, reverse=True)
        dense = operand.permute(order).is_contiguous()
        if dense and operand.data_ptr() % BOUNDARY == 0:
            elements = _line(operand, operand.numel())
            self.program()(elements, elements)
            return operand
        copy = operand.clone(memory_format=torch.contiguous_format)
        return operand.copy_(self._write(copy))


def _line(tensor: Tensor, span: int) -> Tensor:
    """The elements from a tensor's first to its last as one axis, truths as bytes."""
    line = tensor.as_strided((span,), (1,))
    return line.view(torch.uint8) if tensor.dtype is torch.bool else line


class GatedTileKernel(Kernel, GatedFwdInterface):
    """The gate in one pass over memory.

    Args:
        function: name of the function.
        dtype: element type.
        vector: elements of one access, a divisor of the row of the result.
    """

    supported_archs = frozenset({HOPPER})

    def __init__(self, function: str, dtype: torch.dtype, vector: int) -> None:
        super().__init__()
        self.function, self.dtype, self.vector = function, dtype, vector

    @classmethod
    def entry_for(cls, call: GatedCall) -> tuple[Hashable, Callable[[], GatedTileKernel]]:
        """One build for all rows that allow the same accesses."""
        vector = widest_access(call.n, call.dtype)
        constants = (call.function, call.dtype, vector)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """One access of each half a thread."""
        return {"threads": 256, "unroll": 1}

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Smaller blocks, more accesses a thread."""
        return [
            {"threads": threads, "unroll": unroll} for threads in (256, 128) for unroll in (1, 2)
        ]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.elementwise.programs import build_gated

        name = dtype_name(self.dtype)
        return build_gated(self.function, name, self.vector, **config).compile(HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the gate."""
        output = x.new_empty(x.shape[0], x.shape[1] // 2)
        self.program()(aligned(x), output)
        return output
