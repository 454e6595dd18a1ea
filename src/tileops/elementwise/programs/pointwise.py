"""TileLang programs of the pointwise access patterns that need no search: flat and gated.

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
from tileops._programs.vectors import F32, READ_ONCE, as_float, load_once, store_vector
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


def operand_registers(element: Element, along: Sequence[bool], count: int) -> list[Any]:
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
            load_once(x, X[block * tile + (u * threads + thread) * vector], vector, u * vector)

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
        T.import_source(READ_ONCE)
        thread = T.get_thread_binding(0)
        registers = operand_registers(element, along, unroll * vector)
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
            T.import_source(READ_ONCE)
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
                    load_once(g, X[row, (first + u * threads) * vector], vector, u * vector)
                    load_once(w, X[row, (L + first + u * threads) * vector], vector, u * vector)
            for u in T.unroll(unroll):
                if first + u * threads < L:
                    for v in T.unroll(vector):
                        y[v] = T.cast(
                            apply(as_float(g[u * vector + v])) * as_float(w[u * vector + v]), dtype
                        )
                    store_vector(Y[row, (first + u * threads) * vector], y, vector, dtype)

    return Program(gated, gate.pass_settings)
