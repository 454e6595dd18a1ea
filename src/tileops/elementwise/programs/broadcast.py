"""TileLang program of pointwise functions of operands that repeat along axes, or have strides.

Places are found by multiplications with numbers that stand for the run-time extents. Function,
element types, vector width and the way operands advance are compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from collections.abc import Sequence

import tilelang.language as T

from tileops._programs.program import Program
from tileops._programs.vectors import store_vector
from tileops.elementwise.programs.pointwise import Element, in_memory, operand_registers

_I32 = "int32"


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


def _access_computer(element: Element, along: Sequence[bool], rank: int, vector: int, unroll: int):
    """Makes a macro for accesses that stay in their rows.

    It takes the operands, the result, axes and strides, the first access, how far the others are
    apart and the number of accesses.
    """
    result = in_memory(element.result)
    places = tuple(range(len(along)))
    locate = _locator(along, rank)

    @T.macro
    def load(x, u, X, offset, advances):
        if advances:
            for v in T.vectorized(vector):
                x[u * vector + v] = X[offset * vector + v]
        else:
            x[u] = X[offset]

    @T.macro
    def compute(tensors, Y, axes, steps, first, apart, Q):
        registers = [
            T.alloc_local((unroll * (vector if advances else 1),), in_memory(dtype))
            for dtype, advances in zip(element.stored, along, strict=True)
        ]
        y = T.alloc_local((vector,), result)
        where = T.alloc_local((len(along),), _I32)
        for u in T.unroll(unroll):
            if first + u * apart < Q:
                locate(first + u * apart, where, axes, steps)
                for j in places:
                    load(registers[j], u, tensors[j], where[j], along[j])
        for u in T.unroll(unroll):
            if first + u * apart < Q:
                for v in T.unroll(vector):
                    y[v] = element.value(
                        *[
                            x[u * vector + v] if advances else x[u]
                            for x, advances in zip(registers, along, strict=True)
                        ]
                    )
                store_vector(Y[(first + u * apart) * vector], y, vector, result)

    return compute


def _element_computer(
    element: Element,
    along: Sequence[bool],
    whole: Sequence[bool],
    rank: int,
    vector: int,
    unroll: int,
):
    """Makes a macro for accesses that run on through the ends of rows.

    As `_access_computer`, but for the number of elements. Operands that lie as the result does are
    accessed alike, elements of the others found one by one.
    """
    result = in_memory(element.result)
    places = tuple(range(len(along)))
    locate = _locator(along, rank)

    @T.macro
    def load(x, X, access):
        for v in T.vectorized(vector):
            x[v] = X[access * vector + v]

    @T.macro
    def load_single(registers, tensors, axes, steps, i, v):
        where = T.alloc_local((len(along),), _I32)
        locate(i, where, axes, steps)
        for j in places:
            if not whole[j]:
                registers[j][v] = tensors[j][where[j]]

    @T.macro
    def compute_access(registers, y, tensors, Y, axes, steps, access):
        for j in places:
            if whole[j]:
                load(registers[j], tensors[j], access)
        for v in T.unroll(vector):
            load_single(registers, tensors, axes, steps, access * vector + v, v)
        for v in T.unroll(vector):
            y[v] = element.value(*[x[v] for x in registers])
        store_vector(Y[access * vector], y, vector, result)

    @T.macro
    def compute_rest(registers, tensors, Y, axes, steps, first, n):
        for i in T.serial(n - first):
            for j in places:
                if whole[j]:
                    registers[j][0] = tensors[j][first + i]
            load_single(registers, tensors, axes, steps, first + i, 0)
            Y[first + i] = element.value(*[x[0] for x in registers])

    @T.macro
    def compute(tensors, Y, axes, steps, first, apart, n):
        registers = operand_registers(element, (True,) * len(along), vector)
        y = T.alloc_local((vector,), result)
        for u in T.unroll(unroll):
            if (first + u * apart + 1) * vector <= n:
                compute_access(registers, y, tensors, Y, axes, steps, first + u * apart)
            elif (first + u * apart) * vector < n:
                compute_rest(registers, tensors, Y, axes, steps, (first + u * apart) * vector, n)

    return compute


def build_pointwise_broadcast(
    element: Element,
    along: Sequence[bool],
    rank: int,
    vector: int,
    *,
    whole: Sequence[bool] | None = None,
    threads: int,
    unroll: int,
) -> Program:
    """One function of operands that repeat along some of `rank` axes, or have strides.

    Arguments: each operand as one axis from its first element to its last, the result as one axis,
    and the numbers of an `Arrangement`, padded with zeros to four axes and as many operands as
    there are. Indices of accesses are 31 bits, those of elements too with `whole`.

    Args:
        element: what is computed.
        along: whether each operand advances along the last axis.
        rank: axes, from 2 to 4.
        vector: elements of one access.
        whole: whether each operand lies as the result does, where accesses leave their rows.
        threads: threads of a block.
        unroll: vectors a thread has in flight.
    """
    result = in_memory(element.result)
    tile = threads * unroll
    unit = vector if whole is None else 1  # elements in which the result is counted
    if whole is None:
        compute_all = _access_computer(element, along, rank, vector, unroll)
    else:
        compute_all = _element_computer(element, along, whole, rank, vector, unroll)
    Q, LA, LB, LC = T.dynamic("Q, LA, LB, LC")

    def blocks(count):
        return T.ceildiv(count, tile * vector // unit)

    @T.macro
    def compute(tensors, Y, axes, steps, block):
        first = block * tile + T.get_thread_binding(0)
        compute_all(tensors, Y, axes, steps, first, threads, Q)

    def shape(j, length):
        return T.Tensor((length * unit if along[j] else length,), in_memory(element.stored[j]))

    if len(along) == 1:

        @T.prim_func
        def pointwise(
            A: shape(0, LA), Y: T.Tensor((Q * unit,), result),
            e0: T.int32, m0: T.int64, k0: T.int32,
            e1: T.int32, m1: T.int64, k1: T.int32,
            e2: T.int32, m2: T.int64, k2: T.int32,
            a0: T.int32, a1: T.int32, a2: T.int32,
        ):  # fmt: skip
            with T.Kernel(blocks(Q), threads=threads) as block:
                axes = ((e0, m0, k0), (e1, m1, k1), (e2, m2, k2))
                compute((A,), Y, axes, ((a0, a1, a2),), block)

    elif len(along) == 2:

        @T.prim_func
        def pointwise(
            A: shape(0, LA), B: shape(1, LB), Y: T.Tensor((Q * unit,), result),
            e0: T.int32, m0: T.int64, k0: T.int32,
            e1: T.int32, m1: T.int64, k1: T.int32,
            e2: T.int32, m2: T.int64, k2: T.int32,
            a0: T.int32, a1: T.int32, a2: T.int32,
            b0: T.int32, b1: T.int32, b2: T.int32,
        ):  # fmt: skip
            with T.Kernel(blocks(Q), threads=threads) as block:
                axes = ((e0, m0, k0), (e1, m1, k1), (e2, m2, k2))
                compute((A, B), Y, axes, ((a0, a1, a2), (b0, b1, b2)), block)

    else:

        @T.prim_func
        def pointwise(
            A: shape(0, LA), B: shape(1, LB), C: shape(2, LC), Y: T.Tensor((Q * unit,), result),
            e0: T.int32, m0: T.int64, k0: T.int32,
            e1: T.int32, m1: T.int64, k1: T.int32,
            e2: T.int32, m2: T.int64, k2: T.int32,
            a0: T.int32, a1: T.int32, a2: T.int32,
            b0: T.int32, b1: T.int32, b2: T.int32,
            c0: T.int32, c1: T.int32, c2: T.int32,
        ):  # fmt: skip
            with T.Kernel(blocks(Q), threads=threads) as block:
                axes = ((e0, m0, k0), (e1, m1, k1), (e2, m2, k2))
                steps = ((a0, a1, a2), (b0, b1, b2), (c0, c1, c2))
                compute((A, B, C), Y, axes, steps, block)

    return Program(pointwise, element.pass_settings)
