"""TileLang programs of reductions of rows.

Row count and row length are run-time values wherever rows are streamed; element types, functions
and widths of accesses are compiled in. Accumulation is float32 and rounded once; element offsets
are formed in 64 bits. Truths are stored as bytes.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tvm import tirx

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, assign, row_reduction
from tileops._programs.vectors import F32, READ_ONCE, kept, load_once
from tileops.reduction.programs.folds import Fold, at

_I32, _I64 = "int32", "int64"
_MERGING = 512  # threads that merge the states of a row


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


def row_walk(walk: Rows, *, once: bool = False):
    """Makes macros that find a row and visit its elements.

    With `once` nothing of it is read again; a kernel imports `READ_ONCE` for that.

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
            if once:
                load_once(x, X[(base[0] + (first + u * lanes)) * vector], vector, u * vector)
            else:
                for v in T.vectorized(vector):
                    x[u * vector + v] = X[(base[0] + (first + u * lanes)) * vector + v]

    @T.macro
    def sweep(visit, state, x, X, span, base, first, last, lane):
        steps = T.alloc_var(_I32)
        steps = T.truncdiv(last - first, lanes * unroll)
        for step in T.serial(steps):
            access = first + step * unroll * lanes + lane
            load(x, X, base, access, unroll)
            visit(state, x, span[0] + access * vector, unroll)
        for u in T.serial(T.ceildiv(last - first - steps * unroll * lanes, lanes)):
            access = first + (steps * unroll + u) * lanes + lane
            if access < last:
                load(x, X, base, access, 1)
                visit(state, x, span[0] + access * vector, 1)

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


def _taker(fold: Fold, walk: Rows):
    """Makes a macro that folds visited elements into a thread's state."""
    vector, lanes, chains = walk.vector, walk.lanes, min(fold.chains, walk.vector)

    @T.macro
    def take(state, x, place, n):
        if n == 0:
            fold.take(state, 0, x, 0, 1, 1, place, 0)
        elif fold.grouped:
            fold.take(state, 0, x, 0, 1, n * vector, place, 1)
        else:
            for u in T.unroll(n):
                for chain in tuple(range(chains)):
                    fold.take(
                        state, chain, x, u * vector + chain, chains, vector // chains,
                        place + u * lanes * vector + chain, chains,
                    )  # fmt: skip

    return take


def begin(fold: Fold, chains: int) -> tuple[Any, ...]:
    """Registers with so many states of no elements."""
    state = tuple(T.alloc_local((chains,), dtype) for dtype in fold.types)
    for register, value in zip(state, fold.start, strict=True):
        for chain in range(chains):
            T.buffer_store(register, tirx.const(value, register.dtype), [chain])
    return state


def _join(fold: Fold, state: tuple[Any, ...]) -> None:
    """Merges a thread's chains into the first."""
    for chain in range(1, fold.chains):
        assign(state, fold.merge(at(state, 0), at(state, chain)))


def store_results(fold: Fold, state: tuple[Any, ...], count: Any, results: Any, place: Any) -> None:
    """Stores what a merged state of `count` elements becomes."""
    for result, value in zip(results, fold.finish(at(state, 0), count), strict=False):
        T.buffer_store(result, T.cast(value, result.dtype), [place])


def store_state(state: tuple[Any, ...], states: Any, place: Any) -> None:
    """Stores a state in memory: `states` has a row of 32-bit words for each register."""
    for k, register in enumerate(state):
        word = register[0] if register.dtype == F32 else T.reinterpret(register[0], F32)
        T.buffer_store(states, word, [k, place])


def load_state(fold: Fold, states: Any, place: Any) -> tuple[Any, ...]:
    """The state that `store_state` stored."""
    words = [states[k, place] for k in range(len(fold.types))]
    return tuple(
        word if dtype == F32 else T.reinterpret(word, dtype)
        for word, dtype in zip(words, fold.types, strict=True)
    )


def shared_states(fold: Fold, size: int) -> tuple[Any, ...]:
    """Shared buffers of `size` states."""
    return tuple(T.alloc_shared((size,), dtype) for dtype in fold.types)


def build_row_fold(fold: Fold, walk: Rows, result: str) -> Program:
    """`Y[m]` is the fold of row m, `C[m]` its second result.

    Arguments: the input as one axis, which starts on a 16-byte boundary; `Y [M]`, `C [M]` (`Y`
    again where there is one result); the length of a row.
    """
    locate, sweep, edges = row_walk(walk, once=True)
    take = _taker(fold, walk)
    reduce_row = row_reduction(walk.lanes, walk.rows, fold.merge)
    lanes, rows = walk.lanes, walk.rows
    M, L = T.dynamic("M"), T.dynamic("L", _I64)

    @T.prim_func
    def row_fold(
        X: T.Tensor((L,), in_memory(walk.dtype)),
        Y: T.Tensor((M,), in_memory(result)),
        C: T.Tensor((M,), in_memory(result)),
        N: T.int32,
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=lanes * rows) as block:
            T.import_source(READ_ONCE)
            thread = T.get_thread_binding(0)
            x = T.alloc_local((walk.held,), in_memory(walk.dtype))
            span = T.alloc_local((3,), _I32)
            base = T.alloc_local((2,), _I64)
            partial = shared_states(fold, walk.partials)
            state = begin(fold, fold.chains)
            lane = thread % lanes
            # A block's surplus rows repeat the last one up to the store: barriers stay uniform.
            row = T.min(block * rows + thread // lanes, M - 1) if rows > 1 else block
            locate(span, base, row, N)
            sweep(take, state, x, X, span, base, 0, span[1], lane)
            edges(take, state, x, X, span, base, lane)
            _join(fold, state)
            reduce_row(state, partial, thread)
            if lane == 0 and block * rows + thread // lanes < M:
                store_results(fold, state, N, (Y, C), block * rows + thread // lanes)

    return Program(row_fold, GUARDED)


def row_parts(fold: Fold, walk: Rows):
    """Makes a macro with a launch that leaves the states of `S` slices of each of `M` rows.

    It takes the input as `build_row_fold`, the states `[words, M * S]`, a row's length, M and S,
    and lets a launch that waits for it begin early.
    """
    locate, sweep, edges = row_walk(walk, once=True)
    take = _taker(fold, walk)
    lanes, rows = walk.lanes, walk.rows
    reduce_row = row_reduction(lanes, rows, fold.merge)

    @T.macro
    def fill(X, P, N, M, S):
        with T.Kernel(T.ceildiv(M * S, rows), threads=lanes * rows) as block:
            T.import_source(READ_ONCE)
            thread = T.get_thread_binding(0)
            x = T.alloc_local((walk.held,), in_memory(walk.dtype))
            span = T.alloc_local((3,), _I32)
            base = T.alloc_local((2,), _I64)
            partial = shared_states(fold, walk.partials)
            state = begin(fold, fold.chains)
            place = T.alloc_var(_I32)
            row = T.alloc_var(_I32)
            part = T.alloc_var(_I32)
            size = T.alloc_var(_I32)
            T.pdl_trigger()
            lane = thread % lanes
            # Surplus slices of a block repeat the last one up to the store, as rows do.
            place = T.min(block * rows + thread // lanes, M * S - 1) if rows > 1 else block
            row = T.truncdiv(place, S)
            part = place - row * S
            locate(span, base, row, N)
            size = T.ceildiv(span[1], S)
            if part * size < span[1]:
                last = T.min(part * size + size, span[1])
                sweep(take, state, x, X, span, base, part * size, last, lane)
            if part == S - 1:
                edges(take, state, x, X, span, base, lane)
            _join(fold, state)
            reduce_row(state, partial, thread)
            if lane == 0 and block * rows + thread // lanes < M * S:
                store_state(state, P, place)

    return fill


def build_row_fold_in_parts(fold: Fold, walk: Rows, result: str) -> Program:
    """The same for rows that are few and long: blocks share a row, a second launch merges.

    Arguments: as `build_row_fold`, with the states `[words, M * S]` before Y and `S` after the
    length of a row.
    """
    fill = row_parts(fold, walk)
    reduce_row = row_reduction(_MERGING, 1, fold.merge)
    M, L, Q = T.dynamic("M"), T.dynamic("L", _I64), T.dynamic("Q")

    @T.prim_func
    def row_fold_in_parts(
        X: T.Tensor((L,), in_memory(walk.dtype)),
        P: T.Tensor((len(fold.types), Q), F32),
        Y: T.Tensor((M,), in_memory(result)),
        C: T.Tensor((M,), in_memory(result)),
        N: T.int32,
        S: T.int32,
    ):
        fill(X, P, N, M, S)
        with T.Kernel(M, threads=_MERGING) as row:
            thread = T.get_thread_binding(0)
            partial = shared_states(fold, _MERGING // WARP)
            state = begin(fold, 1)
            T.pdl_sync()
            for i in T.serial(T.ceildiv(S, _MERGING)):
                if i * _MERGING + thread < S:
                    other = load_state(fold, P, row * S + i * _MERGING + thread)
                    assign(state, fold.merge(at(state, 0), tuple(map(kept, other))))
            reduce_row(state, partial, thread)
            if thread == 0:
                store_results(fold, state, N, (Y, C), row)

    return Program(row_fold_in_parts, GUARDED)
