"""TileLang programs of the pointwise access patterns: flat, broadcast and gated.

Truths are stored as bytes. Extents are run-time values; function, element types, vector width and
the way operands advance are compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tvm import tirx

from tileops._programs.program import FAST, GUARDED, Program
from tileops._programs.vectors import F32, as_float, store_vector
from tileops.elementwise.programs.functions import FAST_IN_HALF, FUNCTIONS, HALF_FUNCTIONS

_HALVES = ("float16", "bfloat16")
_I32 = "int32"


@dataclass(frozen=True)
class Element:
    """What a program computes of corresponding elements.

    Args:
        function: name of the function.
        settings: its parameters.
        stored: element type of each operand that is present; `"bool"` for truths.
        result: element type of the result.
        places: position of each operand among the function's parameters.
    """

    function: str
    settings: Mapping[str, Any]
    stored: Sequence[str]
    result: str
    places: Sequence[int]

    @property
    def half(self) -> bool:
        """Whether the result is rounded to 16 bits."""
        return self.result in _HALVES

    @property
    def pass_settings(self) -> Mapping[str, Any]:
        """How the program may be compiled."""
        return FAST if self.half and self.function in FAST_IN_HALF else GUARDED

    def value(self, *operands: Any) -> Any:
        """The stored result as an expression of stored operands."""
        name = self.function
        if name == "bitwise_not" and self.result == "bool":
            name = "logical_not"
        function = (HALF_FUNCTIONS.get(name) if self.half else None) or FUNCTIONS[name]
        given: list[Any] = [None] * (1 + max(self.places))
        for place, operand, dtype in zip(self.places, operands, self.stored, strict=True):
            given[place] = T.cast(operand, _computed(dtype))
        found = function(*given, **self.settings)
        if self.result == "bool" and found.dtype != "bool":
            found = tirx.NE(found, tirx.const(0, found.dtype))
        return T.cast(found, in_memory(self.result))


def in_memory(dtype: str) -> str:
    """The type as which elements are stored."""
    return "uint8" if dtype == "bool" else dtype


def _computed(dtype: str) -> str:
    """The type in which elements are computed."""
    if dtype in (F32, *_HALVES):
        return F32
    return dtype if dtype == "int64" else _I32


def _operand_registers(element: Element, along: Sequence[bool], count: int) -> list[Any]:
    """Registers for `count` elements of each operand, one where it does not advance."""
    return [
        T.alloc_local((count if advances else 1,), in_memory(dtype))
        for dtype, advances in zip(element.stored, along, strict=True)
    ]


def _at(registers: Sequence[Any], along: Sequence[bool], place: Any) -> list[Any]:
    """The operands in a place of their registers."""
    return [x[place if advances else 0] for x, advances in zip(registers, along, strict=True)]


def build_pointwise_flat(
    element: Element, along: Sequence[bool], vector: int, *, wide: bool, threads: int, unroll: int
) -> Program:
    """One function of whole tensors that lie alike in memory, or hold one element.

    Tensors: each operand `[n]`, or `[1]` where it does not advance, then the result `[n]`; all
    start on 16-byte boundaries. The result may be the first operand.

    Args:
        element: what is computed.
        along: whether each operand advances.
        vector: elements of one access.
        wide: whether `n` may exceed 31 bits.
        threads: threads of a block.
        unroll: vectors a thread has in flight.
    """
    tile = threads * vector * unroll
    n = T.dynamic("n", "int64" if wide else _I32)
    result = in_memory(element.result)
    advancing = tuple(j for j, advances in enumerate(along) if advances)
    standing = tuple(j for j, advances in enumerate(along) if not advances)

    @T.macro
    def load(x, X, block, thread):
        for u in T.unroll(unroll):
            for v in T.vectorized(vector):
                x[u * vector + v] = X[block * tile + (u * threads + thread) * vector + v]

    @T.macro
    def load_one(x, X, i):
        x[0] = X[i]

    @T.macro
    def compute_tile(registers, y, tensors, Y, block, thread):
        for j in advancing:
            load(registers[j], tensors[j], block, thread)
        for u in T.unroll(unroll):
            for v in T.unroll(vector):
                y[v] = element.value(*_at(registers, along, u * vector + v))
            store_vector(Y[block * tile + (u * threads + thread) * vector], y, vector, result)

    @T.macro
    def compute(tensors, Y, block):
        thread = T.get_thread_binding(0)
        registers = _operand_registers(element, along, unroll * vector)
        y = T.alloc_local((vector,), result)
        for j in standing:
            load_one(registers[j], tensors[j], 0)
        if (block + 1) * tile <= n:
            compute_tile(registers, y, tensors, Y, block, thread)
        else:
            for u in T.serial(unroll * vector):
                i = block * tile + u * threads + thread
                if i < n:
                    for j in advancing:
                        load_one(registers[j], tensors[j], i)
                    Y[i] = element.value(*_at(registers, along, 0))

    def shape(j):
        return T.Tensor((n if along[j] else 1,), in_memory(element.stored[j]))

    if len(along) == 1:

        @T.prim_func
        def pointwise(A: shape(0), Y: T.Tensor((n,), result)):
            with T.Kernel(T.ceildiv(n, tile), threads=threads) as block:
                compute((A,), Y, block)

    elif len(along) == 2:

        @T.prim_func
        def pointwise(A: shape(0), B: shape(1), Y: T.Tensor((n,), result)):
            with T.Kernel(T.ceildiv(n, tile), threads=threads) as block:
                compute((A, B), Y, block)

    else:

        @T.prim_func
        def pointwise(A: shape(0), B: shape(1), C: shape(2), Y: T.Tensor((n,), result)):
            with T.Kernel(T.ceildiv(n, tile), threads=threads) as block:
                compute((A, B, C), Y, block)

    return Program(pointwise, element.pass_settings)


def _divided(index, multiplier, shift):
    """`index // divisor` for an index of 31 bits, by the numbers that stand for the divisor."""
    wide = T.cast(T.cast(index, "uint32"), "uint64") * T.cast(multiplier, "uint64")
    return T.cast(T.shift_right(wide, T.cast(shift, "uint64")), _I32)


def _locator(along: Sequence[bool], rank: int):
    """Makes a macro that finds the elements of an access of the result in each operand."""
    places = tuple(range(len(along)))

    @T.macro
    def locate(index, where, axes, steps):
        """where[j] <- offset of operand j, in its accesses, for one access of the result."""
        rest = T.alloc_var(_I32)
        position = T.alloc_var(_I32)
        rest = _divided(index, axes[0][1], axes[0][2])
        for j in places:
            where[j] = (index - rest * axes[0][0]) if along[j] else 0
        for axis in tuple(range(1, rank)):
            if axis < rank - 1:
                position = rest
                rest = _divided(position, axes[axis][1], axes[axis][2])
                position = position - rest * axes[axis][0]
            else:
                position = rest
            for j in places:
                where[j] += position * steps[j][rank - 1 - axis]

    return locate


def build_pointwise_broadcast(
    element: Element, along: Sequence[bool], rank: int, vector: int, *, threads: int, unroll: int
) -> Program:
    """One function of operands that repeat along some of `rank` axes, or have strides.

    Arguments: each operand as one axis from its first element to its last, the result
    `[Q * vector]`, and the numbers of an `Arrangement`, padded with zeros to four axes and as many
    operands as there are. Indices of accesses are 31 bits.

    Args:
        element: what is computed.
        along: whether each operand advances along the last axis.
        rank: axes, from 2 to 4.
        vector: elements of one access.
        threads: threads of a block.
        unroll: vectors a thread has in flight.
    """
    result = in_memory(element.result)
    places = tuple(range(len(along)))
    tile = threads * unroll
    locate = _locator(along, rank)
    Q, LA, LB, LC = T.dynamic("Q, LA, LB, LC")

    @T.macro
    def load(x, u, X, offset, advances):
        if advances:
            for v in T.vectorized(vector):
                x[u * vector + v] = X[offset * vector + v]
        else:
            x[u] = X[offset]

    @T.macro
    def compute(tensors, Y, axes, steps, block):
        thread = T.get_thread_binding(0)
        registers = [
            T.alloc_local((unroll * (vector if advances else 1),), in_memory(dtype))
            for dtype, advances in zip(element.stored, along, strict=True)
        ]
        y = T.alloc_local((vector,), result)
        where = T.alloc_local((len(along),), _I32)
        for u in T.unroll(unroll):
            if block * tile + u * threads + thread < Q:
                locate(block * tile + u * threads + thread, where, axes, steps)
                for j in places:
                    load(registers[j], u, tensors[j], where[j], along[j])
        for u in T.unroll(unroll):
            if block * tile + u * threads + thread < Q:
                for v in T.unroll(vector):
                    y[v] = element.value(
                        *[
                            x[u * vector + v] if advances else x[u]
                            for x, advances in zip(registers, along, strict=True)
                        ]
                    )
                store_vector(Y[(block * tile + u * threads + thread) * vector], y, vector, result)

    def shape(j, length):
        return T.Tensor((length * vector if along[j] else length,), in_memory(element.stored[j]))

    if len(along) == 1:

        @T.prim_func
        def pointwise(
            A: shape(0, LA), Y: T.Tensor((Q * vector,), result),
            e0: T.int32, m0: T.int64, k0: T.int32,
            e1: T.int32, m1: T.int64, k1: T.int32,
            e2: T.int32, m2: T.int64, k2: T.int32,
            a0: T.int32, a1: T.int32, a2: T.int32,
        ):  # fmt: skip
            with T.Kernel(T.ceildiv(Q, tile), threads=threads) as block:
                axes = ((e0, m0, k0), (e1, m1, k1), (e2, m2, k2))
                compute((A,), Y, axes, ((a0, a1, a2),), block)

    elif len(along) == 2:

        @T.prim_func
        def pointwise(
            A: shape(0, LA), B: shape(1, LB), Y: T.Tensor((Q * vector,), result),
            e0: T.int32, m0: T.int64, k0: T.int32,
            e1: T.int32, m1: T.int64, k1: T.int32,
            e2: T.int32, m2: T.int64, k2: T.int32,
            a0: T.int32, a1: T.int32, a2: T.int32,
            b0: T.int32, b1: T.int32, b2: T.int32,
        ):  # fmt: skip
            with T.Kernel(T.ceildiv(Q, tile), threads=threads) as block:
                axes = ((e0, m0, k0), (e1, m1, k1), (e2, m2, k2))
                compute((A, B), Y, axes, ((a0, a1, a2), (b0, b1, b2)), block)

    else:

        @T.prim_func
        def pointwise(
            A: shape(0, LA), B: shape(1, LB), C: shape(2, LC), Y: T.Tensor((Q * vector,), result),
            e0: T.int32, m0: T.int64, k0: T.int32,
            e1: T.int32, m1: T.int64, k1: T.int32,
            e2: T.int32, m2: T.int64, k2: T.int32,
            a0: T.int32, a1: T.int32, a2: T.int32,
            b0: T.int32, b1: T.int32, b2: T.int32,
            c0: T.int32, c1: T.int32, c2: T.int32,
        ):  # fmt: skip
            with T.Kernel(T.ceildiv(Q, tile), threads=threads) as block:
                axes = ((e0, m0, k0), (e1, m1, k1), (e2, m2, k2))
                steps = ((a0, a1, a2), (b0, b1, b2), (c0, c1, c2))
                compute((A, B, C), Y, axes, steps, block)

    return Program(pointwise, element.pass_settings)


def build_gated(function: str, dtype: str, vector: int, *, threads: int, unroll: int) -> Program:
    """`Y = function(X[:, :n]) * X[:, n:]` with `n = L * vector`.

    Tensors: `X [M, 2 * n]`, `Y [M, n]`, contiguous, both extents at run time.

    Args:
        function: name of the function.
        dtype: element type.
        vector: elements of one access, which divides `n`.
        threads: threads of a block, which works on a tile of one row.
        unroll: vectors a thread has in flight.
    """
    gate = Element(function, {}, (dtype,), dtype, (0,))
    apply = (HALF_FUNCTIONS.get(function) if gate.half else None) or FUNCTIONS[function]
    tile = threads * unroll
    M, L = T.dynamic("M, L")

    @T.prim_func
    def gated(
        X: T.Tensor((M, L * (2 * vector)), dtype),
        Y: T.Tensor((M, L * vector), dtype),
    ):
        with T.Kernel(M * T.ceildiv(L, tile), threads=threads) as block:
            thread = T.get_thread_binding(0)
            g = T.alloc_local((unroll * vector,), dtype)
            w = T.alloc_local((unroll * vector,), dtype)
            y = T.alloc_local((vector,), dtype)
            row = T.alloc_var(_I32)
            first = T.alloc_var(_I32)
            row = T.truncdiv(block, T.ceildiv(L, tile))
            first = (block - row * T.ceildiv(L, tile)) * tile + thread
            for u in T.unroll(unroll):
                if first + u * threads < L:
                    for v in T.vectorized(vector):
                        g[u * vector + v] = X[row, (first + u * threads) * vector + v]
                    for v in T.vectorized(vector):
                        w[u * vector + v] = X[row, (L + first + u * threads) * vector + v]
            for u in T.unroll(unroll):
                if first + u * threads < L:
                    for v in T.unroll(vector):
                        y[v] = T.cast(
                            apply(as_float(g[u * vector + v])) * as_float(w[u * vector + v]), dtype
                        )
                    store_vector(Y[row, (first + u * threads) * vector], y, vector, dtype)

    return Program(gated, gate.pass_settings)
