"""Macros for programs in which a group of threads works on one row of a matrix.

A row is taken in vectors of up to 16 bytes: vector `k * lanes + lane` of the row is the `k`-th
vector of thread `lane`. Values are summed in float32.
"""

from __future__ import annotations

import math

import tilelang.language as T
from tvm import tirx

F32 = "float32"
WARP = 32
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return _BYTES[dtype]


def widest_vector(width: int, dtype: str) -> int:
    """Elements of the widest access that divides every row: at most 16 bytes, at least one."""
    return math.gcd(16 // _BYTES[dtype], width)


def as_float(value):
    """The value in float32."""
    return T.cast(value, F32)


def store_vector(place, values, count, dtype):
    """Stores `values[0:count]` from registers at `place` in one instruction.

    A plain vectorised store passes through a register array that nvcc may split into narrow ones.

    Args:
        place: load expression of the first element of the destination.
        values: register buffer.
        count: elements, a power of two of at most 16 bytes.
        dtype: element type of both.
    """
    if count == 1:
        return tirx.BufferStore(place.buffer, values[0], place.indices)
    store, word = {
        16: (T.stg128, "uint32x4"),
        8: (T.stg64, "uint32x2"),
        4: (T.stg32, "uint32"),
    }[count * _BYTES[dtype]]
    return store(place, T.reinterpret(values[0:count], word))


def row_loader(vectors: int, lanes: int, count: int):
    """Makes a macro that loads a row of `vectors` vectors into the registers of its threads.

    The macro takes the register buffer, the source, the row (`None` for a source that is one row)
    and the thread's lane. Registers past the end of the row keep their contents.
    """
    whole, rest = divmod(vectors, lanes)

    def element(source, row, column):
        return source[column] if row is None else source[row, column]

    @T.macro
    def load_row(registers, source, row, lane):
        for k in T.unroll(whole):
            for v in T.vectorized(count):
                registers[k * count + v] = element(source, row, (k * lanes + lane) * count + v)
        if rest:
            if lane < rest:
                for v in T.vectorized(count):
                    registers[whole * count + v] = element(
                        source, row, (whole * lanes + lane) * count + v
                    )

    return load_row


def row_sum(lanes: int, rows: int):
    """Makes a macro that adds `total[0]` over the `lanes` threads that share a row.

    The macro takes the register `total`, a shared float32 buffer of `rows * warps of a row`
    elements and the thread index; every thread of the block must run it, and it holds one block
    barrier when a row spans several warps. Each use in a program needs a buffer of its own.

    Args:
        lanes: threads that share a row, a power of two.
        rows: rows of a block.
    """
    inside = min(lanes, WARP)
    warps = lanes // WARP
    offsets = [inside >> step for step in range(1, inside.bit_length())]

    @T.macro
    def sum_in_warp(total, width_offsets):
        other = T.alloc_local((1,), F32)
        for offset in width_offsets:
            other[0] = T.shfl_xor(total[0], offset)
            total[0] += other[0]

    @T.macro
    def sum_row(total, partial, thread):
        sum_in_warp(total, offsets)
        if warps > 1:
            if thread % WARP == 0:
                partial[thread // WARP] = total[0]
            T.sync_threads()
            total[0] = partial[thread // lanes * warps]
            for w in T.unroll(1, warps):
                total[0] += partial[thread // lanes * warps + w]

    return sum_row
