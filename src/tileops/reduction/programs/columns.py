"""TileLang programs of reductions of columns: the reduced axis is not the innermost.

The input is read where it lies, in accesses along the innermost axis. Extents are run-time values;
the fold, element types, the width of accesses and the shape of a block are compiled in. Element
offsets are formed in 64 bits.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, assign
from tileops._programs.vectors import F32
from tileops.reduction.programs.folds import Fold, at
from tileops.reduction.programs.rows import (
    Rows,
    begin,
    in_memory,
    load_state,
    row_parts,
    shared_states,
    store_results,
    store_state,
)

_I32, _I64 = "int32", "int64"


@dataclass(frozen=True)
class Columns:
    """How a block walks columns that lie side by side.

    Args:
        dtype: element type of the input.
        vector: elements of one access, which divides the innermost extent.
        lanes: threads side by side, a power of two of at most a warp.
        groups: threads below one another; with `lanes` whole warps.
        unroll: accesses a thread has in flight.
    """

    dtype: str
    vector: int
    lanes: int
    groups: int
    unroll: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.groups

    @property
    def width(self) -> int:
        """Columns of a block."""
        return self.lanes * self.vector

    @property
    def warps(self) -> int:
        """Warps of a block, each with a state of every column."""
        return self.threads // WARP

    @property
    def of_states(self) -> Any:
        """The walk of the states that this one leaves: one word is one access."""
        return Columns(F32, 1, self.lanes, self.groups, self.unroll)


def _element_reader(fold: Fold, walk: Columns):
    """Makes a macro that takes `n` accesses, `stride` apart, into the states of their columns."""
    vector = walk.vector

    @T.macro
    def read(state, X, access, stride, n, place):
        x = T.alloc_local((walk.unroll * vector,), in_memory(walk.dtype))
        for u in T.unroll(n):
            for v in T.vectorized(vector):
                x[u * vector + v] = X[(access + u * stride) * vector + v]
        for v in tuple(range(vector)):
            fold.take(state, v, x, v, vector, n, place, walk.groups)

    return read


def _state_reader(fold: Fold, walk: Columns):
    """Makes a macro that merges `n` states, `stride` apart, into the state of their column."""

    @T.macro
    def read(state, P, access, stride, n, place):
        others = tuple(T.alloc_local((walk.unroll,), dtype) for dtype in fold.types)
        for u in T.unroll(n):
            assign(others, load_state(fold, P, access + u * stride), u)
        for u in T.unroll(n):
            assign(state, fold.merge(at(state, 0), at(others, u)))

    return read


def _columns_merger(fold: Fold, walk: Columns):
    """Makes a macro that leaves the state of every column of a block, one a warp, in `partial`."""
    vector, lanes = walk.vector, walk.lanes
    distances = tuple(1 << bit for bit in range(lanes.bit_length() - 1, WARP.bit_length() - 1))

    @T.macro
    def merge_threads(state, partial, thread):
        other = tuple(T.alloc_local((1,), register.dtype) for register in state)
        for distance in distances:
            for v in tuple(range(vector)):
                for register, received in tuple(zip(state, other)):  # noqa: B905
                    received[0] = T.shfl_xor(register[v], distance)
                assign(state, fold.merge(at(state, v), at(other, 0)), v)
        if thread % WARP < lanes:
            for v in tuple(range(vector)):
                for register, shared in tuple(zip(state, partial)):  # noqa: B905
                    shared[thread // WARP * walk.width + thread % WARP * vector + v] = register[v]
        T.sync_threads()

    return merge_threads


def _columns_folder(fold: Fold, walk: Columns, read: Any, put: Any):
    """Makes a macro of what one block does: columns of one slice of one matrix.

    It takes the source, what `put(state, sink, place)` takes as its sink, the rows and accesses a
    row of a matrix, the slices and the block. Matrices, then slices, then tiles of columns follow
    one another.
    """
    vector, lanes, groups, unroll = walk.vector, walk.lanes, walk.groups, walk.unroll
    merge_threads = _columns_merger(fold, walk)

    @T.macro
    def read_share(state, source, start, stride, first, last):
        """Takes the rows of a thread from `first` on; every access is `stride` after the last."""
        steps = T.alloc_var(_I32)
        rows = T.alloc_var(_I32)
        rows = T.max(0, T.ceildiv(last - first, groups))
        steps = T.truncdiv(rows, unroll)
        for step in T.serial(steps):
            read(state, source, start[0], stride[0], unroll, first + step * unroll * groups)
            start[0] += stride[0] * unroll
        for k in T.serial(rows - steps * unroll):
            read(state, source, start[0], stride[0], 1, first + (steps * unroll + k) * groups)
            start[0] += stride[0]

    @T.macro
    def merge_warps(partial, sink, line, tile, columns, thread):
        total = tuple(T.alloc_local((1,), dtype) for dtype in fold.types)
        for i in T.serial(T.ceildiv(walk.width, walk.threads)):
            column = i * walk.threads + thread
            if column < walk.width and tile * walk.width + column < columns:
                assign(total, at(partial, column))
                for warp in T.unroll(1, walk.warps):
                    other = at(partial, warp * walk.width + column)
                    assign(total, fold.merge(at(total, 0), other))
                put(total, sink, line * columns + tile * walk.width + column)

    @T.macro
    def fold_columns(source, sink, R, A, S, block):
        thread = T.get_thread_binding(0)
        partial = shared_states(fold, walk.warps * walk.width)
        state = begin(fold, vector)
        tiles = T.alloc_var(_I32)
        line = T.alloc_var(_I32)
        tile = T.alloc_var(_I32)
        matrix = T.alloc_var(_I32)
        share = T.alloc_var(_I32)
        first = T.alloc_var(_I32)
        start = T.alloc_local((1,), _I64)
        stride = T.alloc_local((1,), _I64)
        tiles = T.truncdiv(A + (lanes - 1), lanes)
        line = T.truncdiv(block, tiles)
        tile = block - line * tiles
        matrix = T.truncdiv(line, S)
        share = T.truncdiv(R + S - 1, S)
        first = (line - matrix * S) * share
        # Lanes past the last column repeat it up to the store: shuffles and barriers stay uniform.
        start[0] = (T.cast(matrix, _I64) * R + (first + thread // lanes)) * A + T.min(
            tile * lanes + thread % lanes, A - 1
        )
        stride[0] = T.cast(A, _I64) * groups
        last = T.min(first + share, R)
        read_share(state, source, start, stride, first + thread // lanes, last)
        merge_threads(state, partial, thread)
        merge_warps(partial, sink, line, tile, A * vector, thread)

    return fold_columns


def _launch(fold: Fold, walk: Columns, *, of_states: bool, to_states: bool):
    """Makes a macro with one launch over matrices of `R` rows and `A` accesses a row.

    Its source is elements or states; its sink states, those of `S` slices of each column, or
    `(Y, C, number of elements)`. One that leaves states lets the launch after it begin early; it
    may wait for the one before it.
    """
    read = (_state_reader if of_states else _element_reader)(fold, walk)

    def put(state, sink, place):
        if to_states:
            store_state(state, sink, place)
        else:
            store_results(fold, state, sink[2], sink[:2], place)

    fold_columns = _columns_folder(fold, walk, read, put)

    @T.macro
    def launch(source, sink, matrices, R, A, S, waits):
        with T.Kernel(matrices * S * T.ceildiv(A, walk.lanes), threads=walk.threads) as block:
            if to_states:
                T.pdl_trigger()
            if waits:
                T.pdl_sync()
            fold_columns(source, sink, R, A, S, block)

    return launch


def build_column_fold(fold: Fold, walk: Columns, result: str) -> Program:
    """`Y[m, c]` is the fold of `X[m, :, c]`, `C[m, c]` its second result.

    Arguments: the input as one axis, which starts on a 16-byte boundary; Y, C as one axis (Y again
    where there is one result); the number of elements of a result, the rows of a matrix, the
    accesses of a row.
    """
    fold_columns = _launch(fold, walk, of_states=False, to_states=False)
    M, L = T.dynamic("M"), T.dynamic("L", _I64)

    @T.prim_func
    def column_fold(
        X: T.Tensor((L,), in_memory(walk.dtype)),
        Y: T.Tensor((M,), in_memory(result)),
        C: T.Tensor((M,), in_memory(result)),
        N: T.int32,
        R: T.int32,
        A: T.int32,
    ):
        fold_columns(X, (Y, C, N), T.truncdiv(M, A * walk.vector), R, A, 1, False)

    return Program(column_fold, GUARDED)


def build_column_fold_in_parts(fold: Fold, walk: Columns, result: str) -> Program:
    """The same where columns are few: blocks share one, a second launch merges.

    Arguments: as `build_column_fold`, with the states `[words, matrices * S * columns]` before Y
    and `S` at the end.
    """
    fold_slices = _launch(fold, walk, of_states=False, to_states=True)
    merge = _launch(fold, walk.of_states, of_states=True, to_states=False)
    M, L, Q = T.dynamic("M"), T.dynamic("L", _I64), T.dynamic("Q")

    @T.prim_func
    def column_fold_in_parts(
        X: T.Tensor((L,), in_memory(walk.dtype)),
        P: T.Tensor((len(fold.types), Q), F32),
        Y: T.Tensor((M,), in_memory(result)),
        C: T.Tensor((M,), in_memory(result)),
        N: T.int32,
        R: T.int32,
        A: T.int32,
        S: T.int32,
    ):
        matrices = T.truncdiv(M, A * walk.vector)
        fold_slices(X, P, matrices, R, A, S, False)
        merge(P, (Y, C, N), matrices, S, A * walk.vector, 1, True)

    return Program(column_fold_in_parts, GUARDED)


def build_row_and_column_fold(
    fold: Fold, rows: Rows, walk: Columns, result: str, *, sliced: bool
) -> Program:
    """`Y[m, c]` is the fold of `X[m, :, c, :]`: rows become states, of which columns are merged.

    Arguments: the input as one axis, which starts on a 16-byte boundary; the states of rows
    `[words, matrices * R * A]`; those of slices of columns `[words, matrices * S * A]`, or the
    former again unless `sliced`; Y, C as one axis; the number of elements of a result, the length
    of a row, `R` rows a matrix, `A` columns, `S` slices.
    """
    fill = row_parts(fold, rows)
    fold_slices = _launch(fold, walk, of_states=True, to_states=True)
    merge = _launch(fold, walk, of_states=True, to_states=False)
    words = len(fold.types)
    M, L, Q, QS = T.dynamic("M"), T.dynamic("L", _I64), T.dynamic("Q"), T.dynamic("QS")

    @T.prim_func
    def row_and_column_fold(
        X: T.Tensor((L,), in_memory(rows.dtype)),
        P: T.Tensor((words, Q), F32),
        PS: T.Tensor((words, QS if sliced else Q), F32),
        Y: T.Tensor((M,), in_memory(result)),
        C: T.Tensor((M,), in_memory(result)),
        N: T.int32,
        length: T.int32,
        R: T.int32,
        A: T.int32,
        S: T.int32,
    ):
        matrices = T.truncdiv(M, A)
        fill(X, P, length, matrices * R * A, 1)
        if sliced:
            fold_slices(P, PS, matrices, R, A, S, True)
            merge(PS, (Y, C, N), matrices, S, A, 1, True)
        else:
            merge(P, (Y, C, N), matrices, R, A, 1, True)

    return Program(row_and_column_fold, GUARDED)
