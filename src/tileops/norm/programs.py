"""TileLang programs of the normalisations.

The row count is a run-time value everywhere; dtype, epsilon and the presence of a weight are
compiled in. Element offsets are formed in 64 bits, so matrices of more than 2**31 elements are
served. Statistics are float32 and each result is rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import (
    F32,
    WARP,
    as_float,
    item_bytes,
    row_loader,
    row_sum,
    store_vector,
    widest_vector,
)

_CHAINS = 4  # independent partial sums of a thread, so that additions do not wait for each other
_PREFETCH_BYTES = 64  # per thread: weights up to this size are fetched together with the row


@T.macro
def _add_squares(x, total, first, n):
    for i in T.unroll(n):
        total[i % _CHAINS] += as_float(x[first + i]) * as_float(x[first + i])


def _scaler(count: int, dtype: str, weighted: bool):
    """Makes a macro that stores `x[i:] * scale[0] * w[j:]`, one vector of a row."""

    @T.macro
    def scale_vector(x, i, w, j, scale, Y, row, column):
        f = T.alloc_local((count,), F32)
        y = T.alloc_local((count,), dtype)
        for v in T.unroll(count):
            f[v] = as_float(x[i + v]) * scale[0]
        if weighted:
            for v in T.unroll(count):
                f[v] = f[v] * as_float(w[j + v])
        for v in T.vectorized(count):
            y[v] = T.cast(f[v], dtype)
        store_vector(Y[row, column], y, count, dtype)

    return scale_vector


def build_rms_norm_on_chip(
    width: int, dtype: str, eps: float, *, weighted: bool, lanes: int, rows: int
) -> Program:
    """`Y = X * rsqrt(mean(X ** 2) + eps) * W` with each row held in registers: one read, one write.

    Tensors: `X [M, width]`, `W [width]` when weighted, `Y [M, width]`; contiguous, `M` at run
    time, all starting on 16-byte boundaries.

    Args:
        width: elements of a row.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`.
        eps: added to the mean of squares.
        weighted: whether `W` is a parameter of the program.
        lanes: threads that share a row, a power of two.
        rows: rows of a block.
    """
    count = widest_vector(width, dtype)
    whole, rest = divmod(width // count, lanes)
    held = (whole + (rest > 0)) * count
    prefetch = weighted and held * item_bytes(dtype) <= _PREFETCH_BYTES
    load_row = row_loader(width // count, lanes, count)
    sum_row = row_sum(lanes, rows)
    scale_vector = _scaler(count, dtype, weighted)
    M = T.dynamic("M")

    @T.macro
    def scale(x, w, total, W, Y, row, k, column):
        if weighted and not prefetch:
            for v in T.vectorized(count):
                w[v] = W[column * count + v]
        scale_vector(x, k * count, w, k * count if prefetch else 0, total, Y, row, column * count)

    @T.macro
    def normalise(X, W, Y, block):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((held,), dtype)
        w = T.alloc_local((held if prefetch else count,), dtype)
        total = T.alloc_local((_CHAINS,), F32)
        partial = T.alloc_shared((rows * max(1, lanes // WARP),), F32)
        lane = thread % lanes
        # A block's surplus rows repeat the last one up to the store: barriers stay uniform.
        row = T.min(block * rows + thread // lanes, M - 1) if rows > 1 else block
        load_row(x, X, row, lane)
        if prefetch:
            load_row(w, W, None, lane)
        for i in T.unroll(_CHAINS):
            total[i] = 0.0
        _add_squares(x, total, 0, whole * count)
        if rest:
            if lane < rest:
                _add_squares(x, total, whole * count, count)
        total[0] = (total[0] + total[1]) + (total[2] + total[3])
        sum_row(total, partial, thread)
        total[0] = T.rsqrt(total[0] * (1.0 / width) + eps)
        if block * rows + thread // lanes < M:
            for k in T.unroll(whole):
                scale(x, w, total, W, Y, row, k, k * lanes + lane)
            if rest:
                if lane < rest:
                    scale(x, w, total, W, Y, row, whole, whole * lanes + lane)

    if weighted:

        @T.prim_func
        def rms_norm(
            X: T.Tensor((M, width), dtype),
            W: T.Tensor((width,), dtype),
            Y: T.Tensor((M, width), dtype),
        ):
            with T.Kernel(T.ceildiv(M, rows), threads=lanes * rows) as block:
                normalise(X, W, Y, block)

    else:

        @T.prim_func
        def rms_norm(X: T.Tensor((M, width), dtype), Y: T.Tensor((M, width), dtype)):
            with T.Kernel(T.ceildiv(M, rows), threads=lanes * rows) as block:
                normalise(X, None, Y, block)

    return Program(rms_norm, GUARDED)


def build_rms_norm_streaming(
    dtype: str, eps: float, *, weighted: bool, count: int, threads: int, unroll: int
) -> Program:
    """The same normalisation for rows that do not fit in registers: each row is read twice.

    Tensors: `X [M, L * count]`, `W [L * count]` when weighted, `Y [M, L * count]`; contiguous, `M`
    and `L` at run time, all starting on boundaries of one access. The second read of a row mostly
    hits the L2 cache.

    Args:
        dtype: `"float32"`, `"float16"` or `"bfloat16"`.
        eps: added to the mean of squares.
        weighted: whether `W` is a parameter of the program.
        count: elements of one access; divides the width and is at most 16 bytes.
        threads: threads of a block, which works on one row; a power of two.
        unroll: vectors a thread has in flight.
    """
    sum_row = row_sum(threads, 1)
    scale_vector = _scaler(count, dtype, weighted)
    M, L = T.dynamic("M, L")

    @T.macro
    def load(x, source, row, first, n):
        for u in T.unroll(n):
            for v in T.vectorized(count):
                if row is None:
                    x[u * count + v] = source[(first + u * threads) * count + v]
                else:
                    x[u * count + v] = source[row, (first + u * threads) * count + v]

    @T.macro
    def accumulate(x, total, X, row, first, n):
        load(x, X, row, first, n)
        _add_squares(x, total, 0, n * count)

    @T.macro
    def scale(x, w, total, X, W, Y, row, first, n):
        load(x, X, row, first, n)
        if weighted:
            load(w, W, None, first, n)
        for u in T.unroll(n):
            at = (first + u * threads) * count
            scale_vector(x, u * count, w, u * count, total, Y, row, at)

    @T.macro
    def normalise(X, W, Y, row):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((unroll * count,), dtype)
        w = T.alloc_local((unroll * count,), dtype)
        total = T.alloc_local((_CHAINS,), F32)
        partial = T.alloc_shared((threads // WARP,), F32)
        steps = T.alloc_var("int32")
        steps = T.truncdiv(L, threads * unroll)
        tail = T.ceildiv(L - steps * unroll * threads, threads)
        for i in T.unroll(_CHAINS):
            total[i] = 0.0
        for step in T.serial(steps):
            accumulate(x, total, X, row, step * unroll * threads + thread, unroll)
        for u in T.serial(tail):
            if (steps * unroll + u) * threads + thread < L:
                accumulate(x, total, X, row, (steps * unroll + u) * threads + thread, 1)
        total[0] = (total[0] + total[1]) + (total[2] + total[3])
        sum_row(total, partial, thread)
        total[0] = T.rsqrt(total[0] / as_float(L * count) + eps)
        for step in T.serial(steps):
            scale(x, w, total, X, W, Y, row, step * unroll * threads + thread, unroll)
        for u in T.serial(tail):
            if (steps * unroll + u) * threads + thread < L:
                scale(x, w, total, X, W, Y, row, (steps * unroll + u) * threads + thread, 1)

    if weighted:

        @T.prim_func
        def rms_norm(
            X: T.Tensor((M, L * count), dtype),
            W: T.Tensor((L * count,), dtype),
            Y: T.Tensor((M, L * count), dtype),
        ):
            with T.Kernel(M, threads=threads) as row:
                normalise(X, W, Y, row)

    else:

        @T.prim_func
        def rms_norm(X: T.Tensor((M, L * count), dtype), Y: T.Tensor((M, L * count), dtype)):
            with T.Kernel(M, threads=threads) as row:
                normalise(X, None, Y, row)

    return Program(rms_norm, GUARDED)
