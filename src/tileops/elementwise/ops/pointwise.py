"""Bases of the pointwise ops: an op names its function, a base builds the call spec."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from tileops._core.lang.spelling import suggest
from tileops._core.op import Op
from tileops.elementwise.kernels import (
    FUNCTIONS,
    BinaryFwdInterface,
    PointwiseCall,
    PointwisePortableKernel,
    PointwiseTileKernel,
    TernaryFwdInterface,
    UnaryFwdInterface,
)
from tileops.elementwise.kernels.layout import arrange


class PointwiseOp(Op):
    """Applies `function` with the attributes named in `settings` to broadcast operands."""

    kernel_types = {"tile": PointwiseTileKernel, "portable": PointwisePortableKernel}
    function: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = vars(cls).get("function")
        if name is not None and name not in FUNCTIONS:
            raise TypeError(
                f"{cls.__name__}: the function {name!r} is in no table: torch's goes into "
                "FUNCTIONS of kernels/pointwise.py, the device's into that of programs/functions.py"
            )
        if "_spec" in vars(cls):
            _check_settings(cls, list(cls._spec.signature.params))

    def apply(
        self, interface: str, data: Tensor, *operands: Tensor | None, inplace: bool = False
    ) -> Tensor:
        """The function of `operands`, whose element type is that of `data`."""
        settings = tuple((name, getattr(self, name)) for name in self.settings)
        out_dtype = self.result_dtype(data.dtype)
        layout = arrange(operands, out_dtype.itemsize).layout if data.is_cuda else None
        fields = self.function, data.dtype, out_dtype, settings, inplace, layout
        kernel = self.kernel_for_fields(interface, PointwiseCall, data.device, *fields)
        result: Tensor = kernel(*operands)
        return result

    def result_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Element type of the result for operands of `dtype`."""
        return dtype


def _check_settings(cls: type[PointwiseOp], params: list[str]) -> None:
    """The function gets every parameter; what else it gets is an attribute of the class."""
    lacking = [name for name in params if name not in cls.settings]
    if lacking:
        raise TypeError(f"{cls.__name__}: settings lacks the parameter {lacking[0]!r}")
    for name in cls.settings:
        if name not in params and not hasattr(cls, name):
            raise TypeError(
                f"{cls.__name__}: settings names {name!r}, no parameter and no attribute of the "
                f"class{suggest(name, params)}"
            )


class UnaryOp(PointwiseOp):
    """A function of one tensor."""

    interfaces = {"unary": UnaryFwdInterface}

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function to each element of `input`."""
        return self.apply("unary", input, input)


class PredicateOp(UnaryOp):
    """A truth of each element."""

    def result_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Bool."""
        return torch.bool


class InplaceUnaryOp(UnaryOp):
    """A function of one tensor that may write its result into it."""

    settings: ClassVar[tuple[str, ...]] = ("inplace",)

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        self.inplace = inplace
        super().__init__(target=target)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function to each element of `input`."""
        return self.apply("unary", input, input, inplace=self.inplace)


class BinaryOp(PointwiseOp):
    """A function of two tensors."""

    interfaces = {"binary": BinaryFwdInterface}

    def forward(self, input: Tensor, other: Tensor) -> Tensor:
        """Apply the function to each pair of elements."""
        return self.apply("binary", input, input, other)


class RelationOp(BinaryOp):
    """A truth of each pair of elements."""

    def result_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Bool."""
        return torch.bool


class TernaryOp(PointwiseOp):
    """A function of three tensors."""

    interfaces = {"ternary": TernaryFwdInterface}
