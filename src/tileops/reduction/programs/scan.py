"""TileLang program of running sums and products along rows.

Row count and length are run-time values; the running value is float32 and each element is rounded
once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, warp_scan
from tileops._programs.vectors import F32, as_float, store_vector

_COMBINE = {"cumsum": (lambda a, b: a + b, 0.0), "cumprod": (lambda a, b: a * b, 1.0)}


def build_row_scan(function: str, dtype: str, *, vector: int, threads: int, unroll: int) -> Program:
    """`Y[m, i]` is the sum or product of `X[m, 0]` to `X[m, i]`.

    Tensors: `X [M, L * vector]`, `Y [M, L * vector]`; contiguous, starting on boundaries of one
    access. A block walks along its row tile by tile, with one barrier a tile: the totals of warps
    alternate between two shared buffers.

    Args:
        function: `"cumsum"` or `"cumprod"`.
        dtype: element type.
        vector: elements of one access, which divides the row.
        threads: threads of a block; with `unroll` at most 32 warps' totals a tile.
        unroll: accesses of a thread in a tile.
    """
    combine, start = _COMBINE[function]
    scan = warp_scan(combine, start)
    warps, tile = threads // WARP, threads * unroll
    totals = warps * unroll
    assert totals <= WARP
    M, L = T.dynamic("M, L")

    @T.macro
    def load(f, X, row, first):
        x = T.alloc_local((unroll * vector,), dtype)
        for k in T.unroll(unroll):
            if first + k * threads < L:
                for v in T.vectorized(vector):
                    x[k * vector + v] = X[row, (first + k * threads) * vector + v]
        for k in T.unroll(unroll):
            if first + k * threads < L:
                for v in T.unroll(vector):
                    f[k * vector + v] = as_float(x[k * vector + v])
            else:
                for v in T.unroll(vector):
                    f[k * vector + v] = start

    @T.macro
    def scan_threads(f, before, shared, buffer, thread):
        """F <- running values within an access, before <- what precedes it in its warp."""
        inclusive = T.alloc_local((1,), F32)
        exclusive = T.alloc_local((1,), F32)
        for k in tuple(range(unroll)):
            for v in T.unroll(1, vector):
                f[k * vector + v] = combine(f[k * vector + v - 1], f[k * vector + v])
            inclusive[0] = f[k * vector + vector - 1]
            scan(inclusive, exclusive, thread % WARP)
            before[k] = exclusive[0]
            if thread % WARP == WARP - 1:
                shared[buffer * WARP + k * warps + thread // WARP] = inclusive[0]

    @T.macro
    def scan_warps(before, carry, shared, buffer, thread):
        """Before <- what precedes each access in the row, carry <- what precedes the next tile."""
        inclusive = T.alloc_local((1,), F32)
        exclusive = T.alloc_local((1,), F32)
        other = T.alloc_local((1,), F32)
        inclusive[0] = start
        if thread % WARP < totals:
            inclusive[0] = shared[buffer * WARP + thread % WARP]
        scan(inclusive, exclusive, thread % WARP)
        for k in tuple(range(unroll)):
            other[0] = T.shfl_sync(exclusive[0], k * warps + thread // WARP)
            before[k] = combine(carry[0], combine(other[0], before[k]))
        other[0] = T.shfl_sync(inclusive[0], WARP - 1)
        carry[0] = combine(carry[0], other[0])

    @T.macro
    def store(f, before, Y, row, first):
        y = T.alloc_local((vector,), dtype)
        for k in T.unroll(unroll):
            if first + k * threads < L:
                for v in T.unroll(vector):
                    y[v] = T.cast(combine(before[k], f[k * vector + v]), dtype)
                store_vector(Y[row, (first + k * threads) * vector], y, vector, dtype)

    @T.prim_func
    def row_scan(X: T.Tensor((M, L * vector), dtype), Y: T.Tensor((M, L * vector), dtype)):
        with T.Kernel(M, threads=threads) as row:
            thread = T.get_thread_binding(0)
            f = T.alloc_local((unroll * vector,), F32)
            before = T.alloc_local((unroll,), F32)
            carry = T.alloc_local((1,), F32)
            shared = T.alloc_shared((2 * WARP,), F32)
            carry[0] = start
            for t in T.serial(T.ceildiv(L, tile)):
                load(f, X, row, t * tile + thread)
                scan_threads(f, before, shared, t % 2, thread)
                T.sync_threads()
                scan_warps(before, carry, shared, t % 2, thread)
                store(f, before, Y, row, t * tile + thread)

    return Program(row_scan, GUARDED)
