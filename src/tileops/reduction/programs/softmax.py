"""TileLang programs of softmax and its logarithm along rows.

Maximum, exponentials and sum are float32, rounded once; row counts are run-time values.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from typing import Any

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, assign, row_loader, row_reduction
from tileops._programs.vectors import F32, as_float, kept, store_vector, widest_vector
from tileops.reduction.programs.folds import LOWEST, Fold, at, exponential, exponentials
from tileops.reduction.programs.rows import (
    Rows,
    begin,
    load_state,
    row_parts,
    row_walk,
    shared_states,
)

_I32, _I64 = "int32", "int64"


def _put_exponentials(log: bool, vector: int, result: str):
    """Makes a macro that stores one vector of a softmax; `state` is maximum, and sum or factor."""
    half = result != F32

    @T.macro
    def put(x, first, state, Y, row, column):
        y = T.alloc_local((vector,), result)
        for v in T.unroll(vector):
            if log:
                y[v] = T.cast(as_float(x[first + v]) - state[0][0] - state[1][0], result)
            else:
                y[v] = T.cast(
                    exponential(as_float(x[first + v]) - state[0][0], half) * state[1][0], result
                )
        store_vector(Y[row, column], y, vector, result)

    return put


def _scale(log: bool, state: tuple[Any, ...]) -> None:
    """Turns the sum of exponentials into what `put` applies to each element."""
    value = T.log(state[1][0]) if log else 1.0 / state[1][0]
    T.buffer_store(state[1], value, [0])


def build_softmax_on_chip(
    width: int, dtype: str, result: str, *, log: bool, lanes: int, rows: int
) -> Program:
    """Softmax of rows that are held in registers: one read, one write.

    Tensors: `X [M, width]`, `Y [M, width]`; contiguous, starting on 16-byte boundaries.

    Args:
        width: elements of a row.
        dtype: element type of the input.
        result: element type of the result.
        log: whether the logarithm is meant.
        lanes: threads that share a row, a power of two.
        rows: rows of a block.
    """
    vector = min(widest_vector(width, dtype), widest_vector(width, result))
    whole, rest = divmod(width // vector, lanes)
    held = (whole + (rest > 0)) * vector
    load_row = row_loader(width // vector, lanes, vector)
    half = result != F32
    put = _put_exponentials(log, vector, result)
    top_of_row = row_reduction(lanes, rows, lambda mine, other: (T.max(mine[0], other[0]),))
    sum_of_row = row_reduction(lanes, rows, lambda mine, other: (mine[0] + other[0],))
    partials = rows * max(1, lanes // WARP)
    M = T.dynamic("M")

    @T.macro
    def raise_top(x, top, first, n):
        for k in T.unroll(n):
            top[k % 4] = T.max(top[k % 4], as_float(x[first + k]))

    @T.macro
    def add_exponentials(x, top, total, first, n):
        for k in T.unroll(n):
            total[k % 4] += exponential(as_float(x[first + k]) - top[0], half)

    @T.macro
    def statistics(x, top, total, first, second, lane, thread):
        for i in T.unroll(4):
            top[i] = T.float32(LOWEST)
            total[i] = 0.0
        raise_top(x, top, 0, whole * vector)
        if rest:
            if lane < rest:
                raise_top(x, top, whole * vector, vector)
        top[0] = T.max(T.max(top[0], top[1]), T.max(top[2], top[3]))
        top_of_row((top,), (first,), thread)
        add_exponentials(x, top, total, 0, whole * vector)
        if rest:
            if lane < rest:
                add_exponentials(x, top, total, whole * vector, vector)
        total[0] = (total[0] + total[1]) + (total[2] + total[3])
        sum_of_row((total,), (second,), thread)

    @T.macro
    def normalise(X, Y, block):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((held,), dtype)
        top = T.alloc_local((4,), F32)
        total = T.alloc_local((4,), F32)
        first = T.alloc_shared((partials,), F32)
        second = T.alloc_shared((partials,), F32)
        lane = thread % lanes
        row = T.min(block * rows + thread // lanes, M - 1) if rows > 1 else block
        load_row(x, X, row, lane)
        statistics(x, top, total, first, second, lane, thread)
        _scale(log, (top, total))
        for k in T.unroll(whole + (rest > 0)):
            if k * lanes + lane < width // vector and block * rows + thread // lanes < M:
                put(x, k * vector, (top, total), Y, row, (k * lanes + lane) * vector)

    @T.prim_func
    def softmax(X: T.Tensor((M, width), dtype), Y: T.Tensor((M, width), result)):
        with T.Kernel(T.ceildiv(M, rows), threads=lanes * rows) as block:
            normalise(X, Y, block)

    return Program(softmax, GUARDED)


def build_softmax_streaming(
    dtype: str, result: str, *, log: bool, vector: int, threads: int, unroll: int
) -> Program:
    """Softmax of rows of any length: one pass for the sums, one that mostly reads caches.

    Tensors: `X [M, L * vector]`, `Y [M, L * vector]`; contiguous, starting on boundaries of one
    access. A block works on one row.

    Args:
        dtype: element type of the input.
        result: element type of the result.
        log: whether the logarithm is meant.
        vector: elements of one access, which divides the row.
        threads: threads of a block.
        unroll: accesses a thread has in flight.
    """
    walk = Rows(dtype, vector, False, threads, 1, unroll)
    locate, sweep, _ = row_walk(walk)
    fold = exponentials(result != F32, bounded=False)
    reduce_row = row_reduction(threads, 1, fold.merge)
    M, Q, L = T.dynamic("M"), T.dynamic("Q", _I64), T.dynamic("L")

    take, put_all = _visitors(fold, log, vector, threads, result)

    @T.macro
    def normalise(X, Y, row):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((walk.held,), dtype)
        span = T.alloc_local((3,), _I32)
        base = T.alloc_local((2,), _I64)
        partial = shared_states(fold, walk.partials)
        state = begin(fold, 1)
        locate(span, base, row, L * vector)
        sweep(take, state, x, X, span, base, 0, L, thread)
        reduce_row(state, partial, thread)
        _scale(log, state)
        sweep(put_all, (*state, Y, row), x, X, span, base, 0, L, thread)

    @T.prim_func
    def softmax(X: T.Tensor((Q,), dtype), Y: T.Tensor((M, L * vector), result)):
        with T.Kernel(M, threads=threads) as row:
            normalise(X, Y, row)

    return Program(softmax, GUARDED)


def build_softmax_split(
    dtype: str, result: str, *, log: bool, vector: int, threads: int, unroll: int
) -> Program:
    """Softmax of few long rows: `S` blocks share a row, first its sums and then its results.

    Arguments: as `build_softmax_streaming`, with the states of slices `[2, M * S]` between the
    tensors, and `S` at the end.
    """
    walk = Rows(dtype, vector, False, threads, 1, unroll)
    locate, sweep, _ = row_walk(walk)
    fold = exponentials(result != F32, bounded=False)
    fill = row_parts(fold, walk)
    _, put_all = _visitors(fold, log, vector, threads, result)
    merge_warp = row_reduction(WARP, 1, fold.merge)
    M, Q, L, MS = T.dynamic("M"), T.dynamic("Q", _I64), T.dynamic("L"), T.dynamic("MS")

    @T.macro
    def merge_row(P, state, first, S, lane):
        """Every warp merges the states of a row by itself: no barrier."""
        for i in T.serial(T.ceildiv(S, WARP)):
            if i * WARP + lane < S:
                other = load_state(fold, P, first + i * WARP + lane)
                assign(state, fold.merge(at(state, 0), tuple(map(kept, other))))
        merge_warp(state, (), lane)

    @T.macro
    def normalise(X, P, Y, row, part, S):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((walk.held,), dtype)
        span = T.alloc_local((3,), _I32)
        base = T.alloc_local((2,), _I64)
        state = begin(fold, 1)
        merge_row(P, state, row * S, S, thread % WARP)
        _scale(log, state)
        locate(span, base, row, L * vector)
        size = T.ceildiv(L, S)
        if part * size < L:
            last = T.min(part * size + size, L)
            sweep(put_all, (*state, Y, row), x, X, span, base, part * size, last, thread)

    @T.prim_func
    def softmax(
        X: T.Tensor((Q,), dtype),
        P: T.Tensor((2, MS), F32),
        Y: T.Tensor((M, L * vector), result),
        S: T.int32,
    ):
        fill(X, P, L * vector, M, S)
        with T.Kernel(M * S, threads=threads) as block:
            row = T.alloc_var(_I32)
            T.pdl_sync()
            row = T.truncdiv(block, S)
            normalise(X, P, Y, row, block - row * S, S)

    return Program(softmax, GUARDED)


def _visitors(fold: Fold, log: bool, vector: int, threads: int, result: str):
    """Makes macros for a sweep: one adds to maximum and sum, one stores what they make of it."""
    put = _put_exponentials(log, vector, result)

    @T.macro
    def take(state, x, place, n):
        fold.take(state, 0, x, 0, 1, n * vector, place, 1)

    @T.macro
    def put_all(state, x, place, n):
        for u in T.unroll(n):
            put(x, u * vector, state[:2], state[2], state[3], place + u * threads * vector)

    return take, put_all
