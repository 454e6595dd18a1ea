"""The launch that solves what the tokens of a chunk take up, for all chunks at once.

With the delta rule a token takes up what the state does not hold yet, so the tokens of a chunk
solve one triangular system, whose inverse needs no state: it is formed here, in float32, by a
block for each chunk and value head.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.rows import warp_scan
from tileops._programs.vectors import F32, as_float
from tileops.gemm.programs.ring import WARP, WARPS
from tileops.linear_attention.programs.sequences import CHUNK, tail_cleaner
from tileops.linear_attention.programs.tokens import Recurrence, log_decay, strength

INVERSE, REST, WEIGHTS = 0, 1, 2
"""Matrices of a chunk: its inverse, rounded, what rounding left of it, and the weights of reads."""
MATRICES = 3
TAKEN, READ, KEPT, LAST = 0, 1, 2, 3
"""Factors of a token: of what is held of its key and read by its query, of what it took up at the
chunk's end; and, for all alike, of the state."""
FACTORS = 4

_F64 = "float64"
_NOTHING = -1e4  # the logarithm of a decay to 0
_PITCH = CHUNK + 4  # of the system in shared memory: neighbours in a column lie in other banks
_QUAD = 4


def _token_reader(how: Recurrence):
    """Makes the macro that sums up the log decays of a chunk, and reads its strengths."""
    scan = warp_scan(lambda before, here: before + here, 0.0)

    @T.macro
    def add_up(G, rates, biases, logs, b, head, first, stop, lane):
        gate = T.alloc_local((2,), F32)
        total = T.alloc_local((1,), _F64)
        before = T.alloc_local((1,), _F64)
        for i in T.unroll(2):
            gate[i] = 0.0
            if first + 2 * lane + i < stop:
                gate[i] = log_decay(
                    how,
                    as_float(G[b, first + 2 * lane + i, head]),
                    rates[head] if how.is_raw_gate else 0.0,
                    biases[head] if how.has_gate_bias else 0.0,
                )
            # Differences of infinite sums would be NaN.
            gate[i] = T.if_then_else(gate[i] < _NOTHING, _NOTHING, gate[i])
        # Sums of many logs cancel where two are subtracted.
        total[0] = T.cast(gate[0], _F64) + T.cast(gate[1], _F64)
        scan(total, before, lane)
        logs[2 * lane] = before[0] + T.cast(gate[0], _F64)
        logs[2 * lane + 1] = total[0]

    @T.macro
    def read(G, strengths, rates, biases, logs, betas, b, head, first, stop, thread):
        if how.gate == "head":  # else what is not read again would share memory
            if thread < WARP:
                add_up(G, rates, biases, logs, b, head, first, stop, thread)
        if thread < CHUNK:
            betas[thread] = 0.0
            if first + thread < stop:
                betas[thread] = strength(how, as_float(strengths[b, first + thread, head]))

    return read


class Share:
    """What a thread holds of the inverse: half of a column, four rows of every eight.

    A column begins at its diagonal, so warps with columns further right have less to do; which warp
    has which changes from block to block, for each belongs to one scheduler.

    Args:
        thread: of the block.
        turn: differs between blocks.
    """

    ROWS = CHUNK // 2
    COLUMNS = CHUNK // WARPS
    """Of a warp."""

    def __init__(self, thread, turn):
        self.lane = thread % WARP
        self.warp = (thread // WARP + turn) % WARPS
        self.half = self.lane // self.COLUMNS
        self.column = self.warp * self.COLUMNS + self.lane % self.COLUMNS

    def row(self, i):
        """The row of the i-th number."""
        return (i // _QUAD * 2 + self.half) * _QUAD + i % _QUAD

    def holder(self, row):
        """The lane that holds a row of the thread's column, and the number of the row there."""
        lane = self.lane % self.COLUMNS + row // _QUAD % 2 * self.COLUMNS
        return lane, row // (2 * _QUAD) * _QUAD + row % _QUAD


@T.macro
def _solve(system, numbers, share):
    """Inverts a unit lower triangular matrix, whose columns lie in the rows of `system`."""
    word = T.alloc_local((_QUAD,), F32)
    solved = T.alloc_local((1,), F32)
    for i in T.unroll(Share.ROWS):
        numbers[i] = T.if_then_else(share.row(i) == share.column, 1.0, 0.0)
    for block in T.unroll(WARPS):
        if block >= share.warp:
            for step in T.unroll(Share.COLUMNS):
                j = block * Share.COLUMNS + step
                lane, number = share.holder(j)
                solved[0] = T.shfl_sync(numbers[number], lane)
                for quad in T.unroll(Share.ROWS // _QUAD):
                    if quad * 2 * _QUAD + 2 * _QUAD - 1 > j:
                        for i in T.vectorized(_QUAD):
                            word[i] = system[j, share.row(quad * _QUAD) + i]
                        for i in T.unroll(_QUAD):
                            numbers[quad * _QUAD + i] -= word[i] * solved[0]


def chunk_preparer(how: Recurrence, keep=None):
    """Makes the macro that prepares a chunk of a value head.

    It writes the chunk's `MATRICES` of `[CHUNK, CHUNK]` to `X`, and its `FACTORS` of `[CHUNK]` to
    `F`. The inverse holds the strengths, too; the weights all that stands between a query and what
    a token took up.

    Args:
        how: what is done with each token.
        keep: macro that writes what is made of a chunk's inverse to the tensors `kept`, if any.
    """
    read, clean = _token_reader(how), tail_cleaner(how.key_dim)
    group, dim, dtype = how.value_heads // how.heads, how.key_dim, how.dtype

    def left(logs, later, earlier):
        """What is left at a token of what an earlier one took up."""
        if how.gate == "none":
            return 1.0
        return T.exp(T.cast(logs[later] - logs[earlier], F32))

    def unit(lengths, which, i):
        """What makes the length of key (0) or query (1) `i` one."""
        return lengths[which, i] if how.has_unit_keys else 1.0

    @T.macro
    def measure(Ks, Qs, lengths, thread):
        total = T.alloc_local((1,), F32)
        for which, Xs in ((0, Ks), (1, Qs)):
            if thread // CHUNK == which:
                total[0] = 0.0
                for d in T.serial(dim):
                    total[0] += as_float(Xs[thread % CHUNK, d]) * as_float(Xs[thread % CHUNK, d])
                lengths[which, thread % CHUNK] = T.rsqrt(total[0] + 1e-6)

    @T.macro
    def prepare(Q, K, G, strengths, rates, biases, X, F, kept, b, head, first, stop, place, turn):
        Ks = T.alloc_shared((CHUNK, dim), dtype)
        Qs = T.alloc_shared((CHUNK, dim), dtype)
        system = T.alloc_shared((CHUNK, _PITCH), F32)
        logs = T.alloc_shared((CHUNK,), _F64)
        betas = T.alloc_shared((CHUNK,), F32)
        lengths = T.alloc_shared((2, CHUNK), F32)
        keys = T.alloc_fragment((CHUNK, CHUNK), F32)
        queries = T.alloc_fragment((CHUNK, CHUNK), F32)
        numbers = T.alloc_local((Share.ROWS,), F32)
        weighed = T.alloc_local((1,), F32)
        rounded = T.alloc_local((1,), dtype)
        full = T.alloc_barrier(1)
        thread = T.get_thread_binding()
        if thread < WARP:
            T.tma_copy(K[b, first : first + CHUNK, head // group, :], Ks, barrier=full)
            T.tma_copy(Q[b, first : first + CHUNK, head // group, :], Qs, barrier=full)
            if T.shuffle_elect(WARP):
                T.barrier_arrive(full)
        read(G, strengths, rates, biases, logs, betas, b, head, first, stop, thread)
        T.barrier_wait(full, 0)
        if how.is_packed:
            for _ in T.serial(T.if_then_else(stop - first < CHUNK, 1, 0)):
                clean(Ks, (), stop - first)
                T.sync_threads()
        T.wgmma_gemm(Ks, Ks, keys, transpose_B=True, clear_accum=True)
        T.wgmma_gemm(Qs, Ks, queries, transpose_B=True, clear_accum=True)
        if how.has_unit_keys:
            measure(Ks, Qs, lengths, thread)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(keys, num_regs=CHUNK // 2)
        T.warpgroup_fence_operand(queries, num_regs=CHUNK // 2)
        T.sync_threads()
        for i, j in T.Parallel(CHUNK, CHUNK):
            keys[i, j] *= left(logs, i, j) * unit(lengths, 0, j)
            queries[i, j] *= left(logs, i, j) * unit(lengths, 0, j)
        for i, j in T.Parallel(CHUNK, CHUNK):
            system[j, i] = T.if_then_else(i > j, keys[i, j] * (betas[i] * unit(lengths, 0, i)), 0.0)
        for i, j in T.Parallel(CHUNK, CHUNK):
            X[place, WEIGHTS, i, j] = T.if_then_else(
                i >= j, queries[i, j] * (how.scale * unit(lengths, 1, i)), 0.0
            )
        T.sync_threads()
        if thread < CHUNK:
            start = 1.0 if how.gate == "none" else T.exp(T.cast(logs[thread], F32))
            F[place, TAKEN, thread] = start * unit(lengths, 0, thread)
            F[place, READ, thread] = start * unit(lengths, 1, thread) * how.scale
            F[place, KEPT, thread] = left(logs, CHUNK - 1, thread) * unit(lengths, 0, thread)
            F[place, LAST, thread] = (
                1.0 if how.gate == "none" else T.exp(T.cast(logs[CHUNK - 1], F32))
            )
        share = Share(thread, turn)
        _solve(system, numbers, share)
        for i in T.unroll(Share.ROWS):
            weighed[0] = numbers[i] * betas[share.column]
            rounded[0] = T.cast(weighed[0], dtype)
            X[place, INVERSE, share.row(i), share.column] = rounded[0]
            X[place, REST, share.row(i), share.column] = T.cast(
                weighed[0] - as_float(rounded[0]), dtype
            )
        if keep is not None:
            keep(kept, Ks, numbers, share, betas, b, head, first, thread)

    return prepare
