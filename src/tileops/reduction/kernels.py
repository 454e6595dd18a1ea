"""Kernel interfaces of the reduction family and their plain-torch implementations.

Ops pass axes normalised and in order, never None. Not for TileLang programs, which `programs.py`
holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops._core.dispatch.alignment import BOUNDARY, aligned
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel
from tileops.reduction.layout import RowLayout

_HOPPER = 90
_BLOCKS = 1056  # among which few long rows are divided: eight for each multiprocessor


@dataclass(frozen=True)
class ReductionCall(CallSpec):
    """A reduction over some axes of one tensor.

    Args:
        function: name of the function, such as `"sum"`.
        rank: number of axes of the input.
        axes: the reduced axes, non-negative and ascending; empty for rank 0 and, for `"all"` and
            `"any"`, where nothing is reduced.
        keepdim: whether reduced axes stay with length 1.
        dtype: element type of the input.
        out_dtype: element type of the result, to which the input is cast before it is reduced.
        ord: order of the norm: 1, 2 or infinity; None for other functions.
        correction: subtracted from the number of elements in the divisor of a variance or
            standard deviation, None for 1.
        layout: how the reduced elements lie, on an accelerator; None where no program serves them.
    """

    function: str
    rank: int
    axes: tuple[int, ...]
    keepdim: bool
    dtype: torch.dtype
    out_dtype: torch.dtype
    ord: float | None = None
    correction: float | None = None
    layout: RowLayout | None = None


class ReductionFwdInterface(KernelInterface):
    """One value for all elements that agree on the axes which are not reduced."""

    request = ReductionCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Reduce `x` over `call.axes`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.
                A reduced axis may be empty except for `"amax"`, `"amin"`, `"argmax"`, `"argmin"`
                and the norm of order infinity.

        Returns:
            A new contiguous tensor in `call.out_dtype`, without the reduced axes or, with
            `call.keepdim`, with length 1 there. Accumulation is float32, rounded once. NaN wins in
            the extremes; of equal extremes `"argmax"` and `"argmin"` give the first place along
            the axis, or in the flattened input where they reduce all axes. A variance is of
            centred values, and NaN where `call.correction` leaves no positive divisor.
        """


class VarMeanFwdInterface(KernelInterface):
    """Variance and mean of all elements that agree on the axes which are not reduced."""

    request = ReductionCall

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce `x` over `call.axes`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            `(var, mean)`, each as the reductions of these names give it.
        """


class ReductionPortableKernel(PortableKernel[ReductionCall], ReductionFwdInterface):
    """Reductions by torch, which accumulates half types in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes of the call spec."""
        return FUNCTIONS[self.call.function](x, self.call).contiguous()


class VarMeanPortableKernel(PortableKernel[ReductionCall], VarMeanFwdInterface):
    """Variance and mean by torch."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce over the axes of the call spec."""
        call = self.call
        if not _is_spread(x, call):
            mean = torch.mean(x, call.axes, call.keepdim)
            return torch.full_like(mean, torch.nan), mean
        return torch.var_mean(x, call.axes, correction=call.correction, keepdim=call.keepdim)


PIECE = 1 << 16
"""Elements that are widened at once, so that they stay in the cache of a CPU."""


def _in_float32(function: Callable[[Tensor], Tensor], x: Tensor, call: ReductionCall) -> Tensor:
    """A reduction with `keepdim` that torch would accumulate in a half type."""
    kept = [axis for axis in range(call.rank) if axis not in call.axes]
    if not kept or x.dtype is torch.float32 or x.numel() <= PIECE or x.is_cuda:
        return function(x.float()).to(call.out_dtype)
    axis = max(kept, key=lambda axis: x.shape[axis])
    pieces = x.split(max(1, PIECE * x.shape[axis] // x.numel()), axis)
    return torch.cat([function(piece.float()) for piece in pieces], axis).to(call.out_dtype)


def _without_axes(result: Tensor, call: ReductionCall) -> Tensor:
    """Drop the axes that a reduction with `keepdim` kept, unless they were asked for."""
    return result if call.keepdim else result.squeeze(call.axes)


def _prod(x: Tensor, call: ReductionCall) -> Tensor:
    """The product along one axis."""
    (axis,) = call.axes or (0,)
    result = _in_float32(lambda piece: torch.prod(piece, axis, True), x.to(call.out_dtype), call)
    return _without_axes(result, call)


def _logsumexp(x: Tensor, call: ReductionCall) -> Tensor:
    """Half types need float32 here: their sum of exponentials overflows where the result fits."""
    axes = call.axes or (0,)
    result = _in_float32(lambda piece: torch.logsumexp(piece, axes, True), x, call)
    return _without_axes(result, call)


def _place(function: Callable[..., Tensor]) -> Callable[[Tensor, ReductionCall], Tensor]:
    """The place of an extreme, in the flattened input where all of several axes are reduced."""

    def place(x: Tensor, call: ReductionCall) -> Tensor:
        if len(call.axes) == 1:
            return function(x, call.axes[0], call.keepdim)
        return function(x).reshape([1] * call.rank if call.keepdim else [])

    return place


def _truth(function: Callable[..., Tensor]) -> Callable[[Tensor, ReductionCall], Tensor]:
    """A reduction of truths, or the truths themselves where no axis is reduced."""
    return lambda x, call: function(x, call.axes, call.keepdim) if call.axes else x != 0


def _is_spread(x: Tensor, call: ReductionCall) -> bool:
    """Whether the divisor of the variance is positive; torch warns where it is not."""
    correction = 1 if call.correction is None else call.correction
    return prod(x.shape[axis] for axis in call.axes) > correction


def _spread(function: Callable[..., Tensor]) -> Callable[[Tensor, ReductionCall], Tensor]:
    """A variance or standard deviation; NaN without degrees of freedom."""

    def spread(x: Tensor, call: ReductionCall) -> Tensor:
        if _is_spread(x, call):
            return function(x, call.axes, correction=call.correction, keepdim=call.keepdim)
        return torch.full_like(torch.mean(x, call.axes, call.keepdim), torch.nan)

    return spread


def _norm(x: Tensor, call: ReductionCall) -> Tensor:
    """The vector norm; the input is cast only where its dtype is not the result's."""
    ord = 2 if call.ord is None else call.ord
    norm: Tensor = torch.linalg.vector_norm(x, ord, call.axes, call.keepdim, dtype=call.out_dtype)
    return norm


FUNCTIONS: Mapping[str, Callable[[Tensor, ReductionCall], Tensor]] = {
    "all": _truth(torch.all),
    "amax": lambda x, call: torch.amax(x, call.axes, call.keepdim),
    "amin": lambda x, call: torch.amin(x, call.axes, call.keepdim),
    "any": _truth(torch.any),
    "argmax": _place(torch.argmax),
    "argmin": _place(torch.argmin),
    "count_nonzero": lambda x, call: torch.count_nonzero(x, call.axes or None),
    "logsumexp": _logsumexp,
    "mean": lambda x, call: torch.mean(x, call.axes, call.keepdim, dtype=call.out_dtype),
    "norm": _norm,
    "prod": _prod,
    "std": _spread(torch.std),
    "sum": lambda x, call: torch.sum(x, call.axes, call.keepdim, dtype=call.out_dtype),
    "var": _spread(torch.var),
}
"""Torch's version of each function, by the name that call specs use."""


def _name(dtype: torch.dtype) -> str:
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

    supported_archs = frozenset({_HOPPER})
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
        name = _name(self.dtype)
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

        fold, result = programs.FOLDS[self.function], _name(self.out_dtype)
        walk = self.walk(config)
        if not self.layout.parts:
            return programs.build_row_fold(fold, walk, result).compile(_HOPPER)
        fill = programs.build_row_parts(fold, walk).compile(_HOPPER)
        merge = programs.build_merge(fold, result, lanes=128).compile(_HOPPER)
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

    root, result = kernel.function == "std", _name(kernel.out_dtype)
    spread = Spread(root, kernel.correction, with_mean, result)
    return build_row_spread(spread, kernel.walk(config)).compile(_HOPPER)


@dataclass(frozen=True)
class SoftmaxCall(CallSpec):
    """Softmax, or its logarithm, along one axis; the input is cast to `out_dtype` first.

    Args:
        rank: number of axes of the input.
        axis: the axis, non-negative.
        dtype: element type of the input.
        out_dtype: element type of the result.
        log: whether the logarithm is meant.
        n: length of the axis where it is the innermost, on an accelerator; else None.
    """

    rank: int
    axis: int
    dtype: torch.dtype
    out_dtype: torch.dtype
    log: bool = False
    n: int | None = None


class SoftmaxFwdInterface(KernelInterface):
    """`exp(x - max) / sum(exp(x - max))` along an axis, or its logarithm."""

    request = SoftmaxCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Normalise along `call.axis`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            A new contiguous tensor of `x`'s shape in `call.out_dtype`. Maximum, exponentials and
            sum are float32, rounded once. A row of -inf gives NaN.
        """


class SoftmaxPortableKernel(PortableKernel[SoftmaxCall], SoftmaxFwdInterface):
    """Softmax by torch."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise along the axis of the call spec."""
        function = F.log_softmax if self.call.log else F.softmax
        return function(x, self.call.axis, dtype=self.call.out_dtype).contiguous()


class _SoftmaxKernel(Kernel, SoftmaxFwdInterface):
    """Softmax along the innermost axis."""

    supported_archs = frozenset({_HOPPER})

    @classmethod
    def refusal(cls, call: SoftmaxCall) -> str | None:
        """Refuses other axes, and inputs that are rounded before they are normalised."""
        if not call.n:
            return "normalises along an innermost axis of known, positive length"
        if call.out_dtype is not torch.float32 and call.dtype is not call.out_dtype:
            return f"does not round {call.dtype} to {call.out_dtype} first"
        return super().refusal(call)


def _softmax_vector(call: SoftmaxCall) -> int:
    """Elements of the widest access that divides a row of input and result."""
    assert call.n is not None
    return gcd(BOUNDARY // max(call.dtype.itemsize, call.out_dtype.itemsize), call.n)


class SoftmaxOnChipKernel(_SoftmaxKernel):
    """Softmax with each row held in registers: one read, one write.

    Args:
        n: elements of a row.
        dtype: element type of the input.
        out_dtype: element type of the result.
        log: whether the logarithm is meant.
    """

    preferred_over = frozenset({"streaming"})

    LONGEST_ROW = 1 << 14
    """Elements of the longest row that the registers of a block hold."""

    def __init__(self, n: int, dtype: torch.dtype, out_dtype: torch.dtype, log: bool) -> None:
        super().__init__()
        self.n, self.dtype, self.out_dtype, self.log = n, dtype, out_dtype, log

    @classmethod
    def refusal(cls, call: SoftmaxCall) -> str | None:
        """Refuses rows that do not fit."""
        if call.n is not None and call.n > cls.LONGEST_ROW:
            return f"holds rows of at most {cls.LONGEST_ROW} elements in registers, not {call.n}"
        return super().refusal(call)

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], SoftmaxOnChipKernel]]:
        """One build for each length of rows; their number is none of it."""
        assert call.n is not None
        constants = (call.n, call.dtype, call.out_dtype, call.log)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """At most 32 elements a thread, and blocks of at least four warps."""
        lanes = 32
        while lanes < 512 and self.n > lanes * 32:
            lanes *= 2
        return {"lanes": lanes, "rows": max(1, 128 // lanes)}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction.programs import build_softmax_on_chip

        names = _name(self.dtype), _name(self.out_dtype)
        return build_softmax_on_chip(self.n, *names, log=self.log, **config).compile(_HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row."""
        rows = aligned(x.contiguous()).view(-1, self.n)
        output = torch.empty(x.shape, dtype=self.out_dtype, device=x.device)
        self.program()(rows, output.view(-1, self.n))
        return output


class SoftmaxStreamingKernel(_SoftmaxKernel):
    """Softmax of rows of any length: the second read of a row mostly hits the L2 cache.

    Args:
        vector: elements of one access, a divisor of the rows' length.
        dtype: element type of the input.
        out_dtype: element type of the result.
        log: whether the logarithm is meant.
    """

    def __init__(self, vector: int, dtype: torch.dtype, out_dtype: torch.dtype, log: bool) -> None:
        super().__init__()
        self.vector, self.dtype, self.out_dtype, self.log = vector, dtype, out_dtype, log

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], SoftmaxStreamingKernel]]:
        """One build for all lengths that allow the same accesses."""
        constants = (_softmax_vector(call), call.dtype, call.out_dtype, call.log)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Enough bytes in flight to hide the latency of memory."""
        return {"threads": 1024, "unroll": 2}

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.reduction.programs import build_softmax_streaming

        names = _name(self.dtype), _name(self.out_dtype)
        program = build_softmax_streaming(*names, log=self.log, vector=self.vector, **config)
        return program.compile(_HOPPER)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row."""
        line = aligned(x.contiguous()).view(-1)
        output = torch.empty(x.shape, dtype=self.out_dtype, device=x.device)
        self.program()(line, output.view(-1, x.shape[-1]))
        return output


@dataclass(frozen=True)
class ScanCall(CallSpec):
    """Running values along one axis; `function` is `"cumsum"` or `"cumprod"`."""

    function: str
    rank: int
    axis: int
    dtype: torch.dtype


class ScanFwdInterface(KernelInterface):
    """The sum or product of all elements up to each, along an axis."""

    request = ScanCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along `call.axis`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            A new contiguous tensor of `x`'s shape in `call.dtype`. The running value is float32;
            each element is rounded once.
        """


class ScanPortableKernel(PortableKernel[ScanCall], ScanFwdInterface):
    """Scans by torch, which carries half types in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along the axis of the call spec."""
        function = torch.cumsum if self.call.function == "cumsum" else torch.cumprod
        return function(x, self.call.axis).contiguous()
