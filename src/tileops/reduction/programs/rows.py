"""TileLang programs of reductions of rows.

Row count and row length are run-time values wherever rows are streamed; element types, functions
and widths of accesses are compiled in. Accumulation is float32 and rounded once; element offsets
are formed in 64 bits. Truths are stored as bytes.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import math
from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tvm import tirx

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, assign, row_reduction
from tileops._programs.vectors import F32, as_float
from tileops.reduction.programs.folds import EXPONENTIALS, LOWEST, Fold, exponential

_I32, _I64 = "int32", "int64"
_HIGHEST = -LOWEST


def in_memory(dtype: str) -> str:
    """The type as which elements are stored."""
    return "uint8" if dtype == "bool" else dtype


@dataclass(frozen=True)
class Rows:
    """How a program walks rows that lie one after another.

    Args:
        dtype: element type of the input.
        vector: elements of one access, a power of two.
        ragged: whether rows may begin and end within an access; then single elements before and
            after the whole accesses are taken one by one.
        lanes: threads that share a row, a power of two.
        rows: rows of a block.
        unroll: accesses a thread has in flight.
    """

    dtype: str
    vector: int
    ragged: bool
    lanes: int
    rows: int
    unroll: int

    @property
    def held(self) -> int:
        """Elements of a row that a thread has in registers."""
        return self.unroll * self.vector

    @property
    def partials(self) -> int:
        """Shared states that merge the threads of a block's rows."""
        return self.rows * max(1, self.lanes // WARP)


def row_walk(walk: Rows):
    """Makes macros that find a row and visit its elements.

    `locate(span, base, row, N)` fills `span` with the elements before the first whole access, the
    accesses and the elements after them; `base` with the first access and the first element, both
    counted from the start of the input. `sweep(visit, state, x, X, span, base, first, last, lane)`
    visits the accesses from `first` to `last`: `visit(state, x, place, n)` is given registers with
    `n` accesses, `lanes` apart, of which the first begins at `place` of the row. `edges` visits the
    single elements, with an `n` of 0.
    """
    lanes, vector, unroll = walk.lanes, walk.vector, walk.unroll
    shift = vector.bit_length() - 1

    @T.macro
    def locate(span, base, row, N):
        base[1] = T.cast(row, _I64) * T.cast(N, _I64)
        if walk.ragged:
            base[0] = T.shift_right(base[1] + (vector - 1), T.int64(shift))
            span[0] = T.min(T.cast(base[0] * vector - base[1], _I32), N)
            span[1] = T.shift_right(N - span[0], shift)
            span[2] = N - span[0] - span[1] * vector
        else:
            base[0] = T.shift_right(base[1], T.int64(shift))
            span[0] = 0
            span[1] = T.shift_right(N, shift)
            span[2] = 0

    @T.macro
    def load(x, X, base, first, n):
        for u in T.unroll(n):
            for v in T.vectorized(vector):
                x[u * vector + v] = X[(base[0] + (first + u * lanes)) * vector + v]

    @T.macro
    def sweep(visit, state, x, X, span, base, first, last, lane):
        steps = T.alloc_var(_I32)
        steps = T.truncdiv(last - first, lanes * unroll)
        for step in T.serial(steps):
            at = first + step * unroll * lanes + lane
            load(x, X, base, at, unroll)
            visit(state, x, span[0] + at * vector, unroll)
        for u in T.serial(T.ceildiv(last - first - steps * unroll * lanes, lanes)):
            at = first + (steps * unroll + u) * lanes + lane
            if at < last:
                load(x, X, base, at, 1)
                visit(state, x, span[0] + at * vector, 1)

    @T.macro
    def edges(visit, state, x, X, span, base, lane):
        """Visits the elements outside whole accesses."""
        if walk.ragged:
            if lane < span[0]:
                x[0] = X[base[1] + lane]
                visit(state, x, lane, 0)
            if lane < span[2]:
                x[0] = X[(base[0] + span[1]) * vector + lane]
                visit(state, x, span[0] + span[1] * vector + lane, 0)

    return locate, sweep, edges


def _taker(fold: Fold, walk: Rows, half: bool):
    """Makes a macro that folds visited elements into a thread's state."""
    vector, lanes, chains = walk.vector, walk.lanes, fold.chains

    @T.macro
    def take_one(state, x, place, chain):
        values = fold.take(tuple(register[chain] for register in state), x, place)
        assign(state, values, chain)

    @T.macro
    def take_exponentials(state, x, n):
        """One correction of the sum for all elements in registers."""
        before = T.alloc_local((1,), F32)
        before[0] = state[0][0]
        for k in T.unroll(n):
            state[0][0] = T.max(state[0][0], as_float(x[k]))
        state[0][0] = T.min(state[0][0], _HIGHEST)  # the distance of inf below inf would be NaN
        state[1][0] = state[1][0] * exponential(before[0] - state[0][0], half)
        for k in T.unroll(n):
            state[1][0] += exponential(as_float(x[k]) - state[0][0], half)

    @T.macro
    def take(state, x, place, n):
        if fold is EXPONENTIALS:
            take_exponentials(state, x, n * vector if n else 1)
        elif n == 0:
            take_one(state, x[0], place, 0)
        else:
            for u in T.unroll(n):
                for v in T.unroll(vector):
                    take_one(state, x[u * vector + v], place + u * lanes * vector + v, v % chains)

    return take


def begin(fold: Fold) -> tuple[Any, ...]:
    """Registers with the state of no elements."""
    state = tuple(T.alloc_local((fold.chains,), dtype) for dtype in fold.types)
    for register, value in zip(state, fold.start, strict=True):
        for chain in range(fold.chains):
            T.buffer_store(register, tirx.const(value, register.dtype), [chain])
    return state


def _join(fold: Fold, state: tuple[Any, ...]) -> None:
    """Merges a thread's chains into the first."""
    for chain in range(1, fold.chains):
        mine = tuple(register[0] for register in state)
        assign(state, fold.merge(mine, tuple(register[chain] for register in state)))


def _result(fold: Fold, state: tuple[Any, ...], count: Any, dtype: str) -> Any:
    """The stored result of a merged state."""
    return T.cast(fold.finish(tuple(register[0] for register in state), count), in_memory(dtype))


def shared_states(fold: Fold, size: int) -> tuple[Any, ...]:
    """Shared buffers of `size` states."""
    return tuple(T.alloc_shared((size,), dtype) for dtype in fold.types)


def build_row_fold(fold: Fold, walk: Rows, result: str) -> Program:
    """`Y[m]` is the fold of row m.

    Arguments: the input as one axis, which starts on a 16-byte boundary; `Y [M]`; the length of a
    row.
    """
    locate, sweep, edges = row_walk(walk)
    take = _taker(fold, walk, result != F32)
    reduce_row = row_reduction(walk.lanes, walk.rows, fold.merge)
    lanes, rows = walk.lanes, walk.rows
    M, L = T.dynamic("M"), T.dynamic("L", _I64)

    @T.prim_func
    def row_fold(
        X: T.Tensor((L,), in_memory(walk.dtype)), Y: T.Tensor((M,), in_memory(result)), N: T.int32
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=lanes * rows) as block:
            thread = T.get_thread_binding(0)
            x = T.alloc_local((walk.held,), in_memory(walk.dtype))
            span = T.alloc_local((3,), _I32)
            base = T.alloc_local((2,), _I64)
            partial = shared_states(fold, walk.partials)
            state = begin(fold)
            lane = thread % lanes
            # A block's surplus rows repeat the last one up to the store: barriers stay uniform.
            row = T.min(block * rows + thread // lanes, M - 1) if rows > 1 else block
            locate(span, base, row, N)
            sweep(take, state, x, X, span, base, 0, span[1], lane)
            edges(take, state, x, X, span, base, lane)
            _join(fold, state)
            reduce_row(state, partial, thread)
            if lane == 0 and block * rows + thread // lanes < M:
                Y[block * rows + thread // lanes] = _result(fold, state, N, result)

    return Program(row_fold, GUARDED)


def build_row_parts(fold: Fold, walk: Rows) -> Program:
    """The states of `S` slices of each row, for rows that are few and long.

    Arguments: the input as `build_row_fold`; a state `[M * S]` for each type of the fold's, two
    at most (the first again where there is one); the length of a row, `S`.
    """
    locate, sweep, edges = row_walk(walk)
    take = _taker(fold, walk, half=False)
    reduce_row = row_reduction(walk.lanes, 1, fold.merge)
    Q, L = T.dynamic("Q"), T.dynamic("L", _I64)
    types = (fold.types * 2)[:2]

    @T.prim_func
    def row_parts(
        X: T.Tensor((L,), in_memory(walk.dtype)),
        P0: T.Tensor((Q,), types[0]),
        P1: T.Tensor((Q,), types[1]),
        N: T.int32,
        S: T.int32,
    ):
        with T.Kernel(Q, threads=walk.lanes) as block:
            thread = T.get_thread_binding(0)
            x = T.alloc_local((walk.held,), in_memory(walk.dtype))
            span = T.alloc_local((3,), _I32)
            base = T.alloc_local((2,), _I64)
            partial = shared_states(fold, walk.partials)
            state = begin(fold)
            row = T.alloc_var(_I32)
            part = T.alloc_var(_I32)
            size = T.alloc_var(_I32)
            row = T.truncdiv(block, S)
            part = block - row * S
            locate(span, base, row, N)
            size = T.ceildiv(span[1], S)
            if part * size < span[1]:
                last = T.min(part * size + size, span[1])
                sweep(take, state, x, X, span, base, part * size, last, thread)
            if part == S - 1:
                edges(take, state, x, X, span, base, thread)
            _join(fold, state)
            reduce_row(state, partial, thread)
            if thread == 0:
                P0[block] = state[0][0]
                if len(fold.types) > 1:
                    P1[block] = state[1][0]

    return Program(row_parts, GUARDED)


def build_merge(fold: Fold, result: str, *, lanes: int) -> Program:
    """`Y[m]` is the result of `S` states.

    Arguments: the states as `build_row_parts` leaves them; `Y [M]`; the number of elements; `S`.
    """
    reduce_row = row_reduction(lanes, 1, fold.merge)
    M, Q = T.dynamic("M, Q")
    types = (fold.types * 2)[:2]

    @T.prim_func
    def merge(
        P0: T.Tensor((Q,), types[0]),
        P1: T.Tensor((Q,), types[1]),
        Y: T.Tensor((M,), in_memory(result)),
        N: T.int32,
        S: T.int32,
    ):
        with T.Kernel(M, threads=lanes) as row:
            thread = T.get_thread_binding(0)
            partial = shared_states(fold, max(1, lanes // WARP))
            other = tuple(T.alloc_local((1,), dtype) for dtype in fold.types)
            state = begin(fold)
            for i in T.serial(T.ceildiv(S, lanes)):
                if i * lanes + thread < S:
                    for k in tuple(range(len(fold.types))):
                        other[k][0] = (P0, P1)[k][row * S + i * lanes + thread]
                    assign(
                        state, fold.merge(tuple(s[0] for s in state), tuple(o[0] for o in other))
                    )
            reduce_row(state, partial, thread)
            if thread == 0:
                Y[row] = _result(fold, state, N, result)

    return Program(merge, GUARDED)


@dataclass(frozen=True)
class Spread:
    """A measure of the spread of rows.

    Args:
        root: whether the standard deviation is meant instead of the variance.
        correction: subtracted from the number of elements in the divisor.
        with_mean: whether the mean is a result as well.
        result: element type of the results.
    """

    root: bool
    correction: float
    with_mean: bool
    result: str


def build_row_spread(spread: Spread, walk: Rows) -> Program:
    """`Y[m]` is the variance or standard deviation of row m, of centred values; `C[m]` its mean.

    Where the correction leaves no positive divisor `Y` is NaN.

    Each row is read twice, the second time mostly from a cache. Arguments: the input as
    `build_row_fold`; `Y [M]`, `C [M]` (`Y` again where no mean is asked for); the length of a row.
    """
    locate, sweep, edges = row_walk(walk)
    reduce_row = row_reduction(walk.lanes, walk.rows, lambda mine, other: (mine[0] + other[0],))
    lanes, rows, vector = walk.lanes, walk.rows, walk.vector
    M, L = T.dynamic("M"), T.dynamic("L", _I64)

    @T.macro
    def add(state, x, place, n):
        for k in T.unroll(n * vector if n else 1):
            state[0][k % 4] += as_float(x[k])

    @T.macro
    def add_squares(state, x, place, n):
        for k in T.unroll(n * vector if n else 1):
            state[0][k % 4] += (as_float(x[k]) - state[1][0]) * (as_float(x[k]) - state[1][0])

    @T.macro
    def total(visit, state, x, X, span, base, partial, lane, thread):
        for i in T.unroll(4):
            state[0][i] = 0.0
        sweep(visit, state, x, X, span, base, 0, span[1], lane)
        edges(visit, state, x, X, span, base, lane)
        state[0][0] = (state[0][0] + state[0][1]) + (state[0][2] + state[0][3])
        reduce_row((state[0],), (partial,), thread)

    @T.macro
    def measure(X, Y, C, N, block):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((walk.held,), walk.dtype)
        span = T.alloc_local((3,), _I32)
        base = T.alloc_local((2,), _I64)
        mean = T.alloc_local((1,), F32)
        sums = T.alloc_local((4,), F32)
        first = T.alloc_shared((walk.partials,), F32)
        second = T.alloc_shared((walk.partials,), F32)
        lane = thread % lanes
        row = T.min(block * rows + thread // lanes, M - 1) if rows > 1 else block
        locate(span, base, row, N)
        mean[0] = 0.0
        total(add, (sums, mean), x, X, span, base, first, lane, thread)
        mean[0] = sums[0] / as_float(N)
        total(add_squares, (sums, mean), x, X, span, base, second, lane, thread)
        sums[0] = T.if_then_else(
            as_float(N) > spread.correction,
            sums[0] / (as_float(N) - spread.correction),
            T.float32(math.nan),
        )
        if spread.root:
            sums[0] = T.sqrt(sums[0])
        if lane == 0 and block * rows + thread // lanes < M:
            Y[block * rows + thread // lanes] = T.cast(sums[0], spread.result)
            if spread.with_mean:
                C[block * rows + thread // lanes] = T.cast(mean[0], spread.result)

    @T.prim_func
    def row_spread(
        X: T.Tensor((L,), walk.dtype),
        Y: T.Tensor((M,), spread.result),
        C: T.Tensor((M,), spread.result),
        N: T.int32,
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=lanes * rows) as block:
            measure(X, Y, C, N, block)

    return Program(row_spread, GUARDED)
