"""TileLang program of draws from rows of weights.

The warps of a block add up slices of a row; the slice in which the running sum passes the target is
cut again, until it holds an access for each thread of a warp. So a row is read once, and a small
part of it again. Sums are float64: the draw hangs on single weights of a long row. Row count and
length are run-time values.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.philox import philox
from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, row_reduction, warp_scan
from tileops._programs.vectors import F32, kept

_F64, _I32, _U32, _U64 = "float64", "int32", "uint32", "uint64"
_NONE = (1 << 31) - 1


def _passing(place, passes, positive, most: int):
    """What the least of all chosen by: the first place that passes, else the last positive one."""
    backward = T.if_then_else(positive, 2 * most - place, _NONE)
    return T.if_then_else(T.And(passes, positive), place, backward)


def _chosen(least, most: int, otherwise):
    """The place that the least of what `_passing` gave stands for."""
    return T.if_then_else(
        least < most, least, T.if_then_else(least < _NONE, 2 * most - least, otherwise)
    )


def build_sampling(vector: int, *, threads: int, unroll: int) -> Program:
    """`Y[b]` is the first place of row `b` whose running sum exceeds `u` times the row's sum.

    Arguments: weights `[B, L * vector]` float32, of which negative ones count as 0; seed and offset
    `[1]` int64; the places `[B]` int32; in how many rounds a row is cut.

    Args:
        vector: elements of one access, which divides the row.
        threads: threads of a block, 32 warps at most.
        unroll: accesses a thread has in flight.
    """
    warps = threads // WARP
    scan = warp_scan(lambda a, b: a + b, 0.0)
    add = row_reduction(WARP, warps, lambda mine, other: (mine[0] + other[0],))
    least = row_reduction(WARP, warps, lambda mine, other: (T.min(mine[0], other[0]),))
    B, L = T.dynamic("B, L")

    @T.macro
    def load(x, X, row, access, last, u):
        for v in T.unroll(vector):
            x[u * vector + v] = 0.0
        if access < last:
            for v in T.vectorized(vector):
                x[u * vector + v] = X[row, access * vector + v]

    @T.macro
    def add_slice(total, X, row, first, last, lane, thread):
        """Total <- the sum of the accesses from `first` to `last`, which a warp adds up."""
        x = T.alloc_local((unroll * vector,), F32)
        total[0] = T.float64(0)
        for step in T.serial(T.ceildiv(last - first, WARP * unroll)):
            for u in T.unroll(unroll):
                load(x, X, row, first + (step * unroll + u) * WARP + lane, last, u)
            for i in T.unroll(unroll * vector):
                total[0] += T.cast(T.max(x[i], 0.0), _F64)
        add((total,), (total,), thread)

    @T.macro
    def cut(span, sums, uniform, X, row, shared, lane, warp, thread):
        """Narrows `span`, the first access and the number, and moves the running sum before it."""
        total = T.alloc_local((1,), _F64)
        before = T.alloc_local((1,), _F64)
        key = T.alloc_local((1,), _I32)
        part = T.alloc_var(_I32)
        part = T.ceildiv(span[1], warps)
        last = span[0] + T.min((warp + 1) * part, span[1])
        add_slice(total, X, row, span[0] + warp * part, last, lane, thread)
        T.sync_threads()
        if lane == 0:
            shared[warp] = total[0]
        T.sync_threads()
        total[0] = T.float64(0)
        if lane < warps:
            total[0] = shared[lane]
        positive = kept(total[0] > 0.0)
        scan(total, before, lane)
        if sums[1] < 0.0:  # the first cut is of the whole row
            sums[1] = uniform[0] * T.shfl_sync(total[0], WARP - 1)
        key[0] = _passing(lane, sums[0] + total[0] > sums[1], positive, WARP)
        least((key,), (key,), thread)
        key[0] = _chosen(key[0], WARP, 0)
        sums[0] += T.shfl_sync(before[0], key[0])
        span[0] += key[0] * part
        span[1] = T.min(part, span[1] - key[0] * part)

    @T.macro
    def place_in(span, sums, X, row, Y, lane, thread):
        """Finds the place in what is left, an access a thread."""
        x = T.alloc_local((vector,), F32)
        running = T.alloc_local((vector,), _F64)
        total = T.alloc_local((1,), _F64)
        before = T.alloc_local((1,), _F64)
        key = T.alloc_local((1,), _I32)
        load(x, X, row, span[0] + lane, span[0] + span[1], 0)
        total[0] = T.float64(0)
        for v in T.unroll(vector):
            total[0] += T.cast(T.max(x[v], 0.0), _F64)
            running[v] = total[0]
        scan(total, before, lane)
        key[0] = _NONE
        for v in T.unroll(vector):
            place = (span[0] + lane) * vector + v
            passes = sums[0] + (before[0] + running[v]) > sums[1]
            key[0] = T.min(key[0], _passing(place, passes, x[v] > 0.0, 1 << 29))
        least((key,), (key,), thread)
        if thread == 0:
            Y[row] = _chosen(key[0], 1 << 29, L * vector - 1)

    @T.prim_func
    def sampling(
        X: T.Tensor((B, L * vector), F32),
        Seed: T.Tensor((1,), "int64"),
        Offset: T.Tensor((1,), "int64"),
        Y: T.Tensor((B,), _I32),
        cuts: T.int32,
    ):
        with T.Kernel(B, threads=threads) as row:
            thread = T.get_thread_binding(0)
            lane = thread % WARP
            shared = T.alloc_shared((WARP,), _F64)
            span = T.alloc_local((2,), _I32)
            sums = T.alloc_local((2,), _F64)  # before the span, and at the place
            uniform = T.alloc_local((1,), _F64)
            counter = (T.cast(Offset[0], _U64), T.cast(row, _U64))
            word = philox(T.cast(Seed[0], _U64), counter)[0]
            uniform[0] = T.cast(T.shift_right(word, T.uint32(8)), _F64) * 2.0**-24
            span[0] = 0
            span[1] = L
            sums[0] = T.float64(0)
            sums[1] = T.float64(-1)
            for _ in T.serial(cuts):
                cut(span, sums, uniform, X, row, shared, lane, thread // WARP, thread)
            place_in(span, sums, X, row, Y, lane, thread)

    return Program(sampling, GUARDED)
