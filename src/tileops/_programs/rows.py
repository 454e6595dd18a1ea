"""Macros for programs in which a group of threads works on one row of a matrix.

A row is taken in vectors of up to 16 bytes: vector `k * lanes + lane` of the row is the `k`-th
vector of thread `lane`.
"""

from __future__ import annotations

import tilelang.language as T

from tileops._programs.vectors import kept

WARP = 32


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


def assign(state, values, place=0):
    """Gives the registers of a state new values, none of which sees another's."""
    values = values if len(values) == 1 else [kept(value) for value in values]
    for register, value in zip(state, values, strict=True):
        T.buffer_store(register, value, [place])


def row_reduction(lanes: int, rows: int, merge):
    """Makes a macro that merges the states of the `lanes` threads that share a row.

    The macro takes the state (a tuple of register buffers, of which element 0 counts), a tuple of
    shared buffers of `rows * warps of a row` elements and of the same types, and the thread index;
    all threads of the row end with the merged state. Every thread of the block must run it, and
    it holds one block barrier when a row spans several warps, after which the shared buffers are
    read: a use that follows needs others.

    Args:
        lanes: threads that share a row, a power of two.
        rows: rows of a block.
        merge: the merged values of two states, as expressions of theirs; it may see the states
            in either order.
    """
    warps = lanes // WARP

    @T.macro
    def in_warp(state, width):
        other = tuple(T.alloc_local((1,), register.dtype) for register in state)
        for step in tuple(range(1, width.bit_length())):
            for register, received in tuple(zip(state, other)):  # noqa: B905
                received[0] = T.shfl_xor(register[0], width >> step)
            assign(state, merge(*_heads(state, other)))

    @T.macro
    def reduce_row(state, partial, thread):
        in_warp(state, min(lanes, WARP))
        if warps > 1:
            if thread % WARP == 0:
                for register, shared in tuple(zip(state, partial)):  # noqa: B905
                    shared[thread // WARP] = register[0]
            T.sync_threads()
            for register, shared in tuple(zip(state, partial)):  # noqa: B905
                register[0] = shared[thread // lanes * warps + thread % warps]
            in_warp(state, warps)

    return reduce_row


def _heads(*states):
    """The values of states."""
    return [tuple(register[0] for register in state) for state in states]


def row_sum(lanes: int, rows: int):
    """Makes a macro that adds `total[0]` over the `lanes` threads that share a row.

    As `row_reduction`, of one register and one shared buffer.
    """
    reduce_row = row_reduction(lanes, rows, lambda mine, other: (mine[0] + other[0],))

    @T.macro
    def sum_row(total, partial, thread):
        reduce_row((total,), (partial,), thread)

    return sum_row


def warp_scan(combine, start: float):
    """Makes a macro: `inclusive[0]` over the lanes up to each, `exclusive[0]` over those before."""

    @T.macro
    def scan(inclusive, exclusive, lane):
        for distance in (1, 2, 4, 8, 16):
            exclusive[0] = T.shfl_up(inclusive[0], distance)
            if lane >= distance:
                inclusive[0] = combine(exclusive[0], inclusive[0])
        exclusive[0] = T.shfl_up(inclusive[0], 1)
        if lane == 0:
            exclusive[0] = start

    return scan
