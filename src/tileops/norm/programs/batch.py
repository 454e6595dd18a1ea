"""TileLang programs of the gradients of BatchNorm: sums of every channel, then what they decide.

The accesses to a channel, sample after sample, are one sequence, of which each block takes a part.
All extents are run-time values. Sums are float32, each result is rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, row_reduction
from tileops._programs.vectors import F32, as_float, store_vector

_CHAINS = 4  # independent partial sums of a thread, so that additions do not wait for each other
_I32 = "int32"


def _add_both(mine, other):
    return mine[0] + other[0], mine[1] + other[1]


def _reader(dtype: str, vector: int):
    """Makes a macro that loads an access to a channel of both matrices, or zeros past the end."""

    @T.macro
    def read(g, x, first, G, X, channel, place, end, A):
        sample = T.alloc_var(_I32)
        column = T.alloc_var(_I32)
        for v in T.unroll(vector):
            g[first + v] = T.cast(0.0, dtype)
            x[first + v] = T.cast(0.0, dtype)
        if place < end:
            sample = T.truncdiv(place, A)
            column = place - sample * A
            for v in T.vectorized(vector):
                g[first + v] = G[sample, channel, column * vector + v]
            for v in T.vectorized(vector):
                x[first + v] = X[sample, channel, column * vector + v]

    return read


def build_batch_norm_bwd_sums(dtype: str, vector: int, *, threads: int, unroll: int) -> Program:
    """What part `p` of channel `c` adds to the gradients of its bias and its weight.

    `S[0, c, p]` is the sum of `G`, `S[1, c, p]` that of `G * (X - mean) * rstd`.

    Arguments: `G` and `X` `[B, C, A * vector]`, contiguous, on 16-byte boundaries; mean and rstd
    `[C]` in float32; `S [2, C, P]` in float32; accesses of a part.

    Args:
        dtype: element type.
        vector: elements of one access.
        threads: threads of a block, a power of two.
        unroll: accesses to each matrix that a thread has in flight.
    """
    read = _reader(dtype, vector)
    add_up = row_reduction(threads, 1, _add_both)
    B, C, A, P = T.dynamic("B, C, A, P")

    @T.macro
    def visit(plain, normed, G, X, mean, channel, first, end, thread):
        """Adds what the block reads at once, from its access `first` on."""
        g = T.alloc_local((unroll * vector,), dtype)
        x = T.alloc_local((unroll * vector,), dtype)
        for u in T.unroll(unroll):
            read(g, x, u * vector, G, X, channel, first + u * threads + thread, end, A)
        for i in T.unroll(unroll * vector):
            plain[i % _CHAINS] += as_float(g[i])
            normed[i % _CHAINS] += as_float(g[i]) * (as_float(x[i]) - mean)

    @T.prim_func
    def batch_norm_bwd_sums(
        G: T.Tensor((B, C, A * vector), dtype),
        X: T.Tensor((B, C, A * vector), dtype),
        Mean: T.Tensor((C,), F32),
        Rstd: T.Tensor((C,), F32),
        S: T.Tensor((2, C, P), F32),
        size: T.int32,
    ):
        with T.Kernel(C * P, threads=threads) as block:
            thread = T.get_thread_binding(0)
            channel = T.alloc_var(_I32)
            part = T.alloc_var(_I32)
            end = T.alloc_var(_I32)
            mean = T.alloc_var(F32)
            plain = T.alloc_local((_CHAINS,), F32)
            normed = T.alloc_local((_CHAINS,), F32)
            partial = tuple(T.alloc_shared((threads // WARP,), F32) for _ in range(2))
            channel = T.truncdiv(block, P)
            part = block - channel * P
            end = T.min((part + 1) * size, B * A)
            mean = Mean[channel]
            for i in T.unroll(_CHAINS):
                plain[i] = 0.0
                normed[i] = 0.0
            for step in T.serial(T.ceildiv(size, threads * unroll)):
                first = part * size + step * (threads * unroll)
                visit(plain, normed, G, X, mean, channel, first, end, thread)
            plain[0] = (plain[0] + plain[1]) + (plain[2] + plain[3])
            normed[0] = (normed[0] + normed[1]) + (normed[2] + normed[3])
            add_up((plain, normed), partial, thread)
            if thread == 0:
                S[0, channel, part] = plain[0]
                S[1, channel, part] = normed[0] * Rstd[channel]

    return Program(batch_norm_bwd_sums, GUARDED)


def build_batch_norm_bwd(dtype: str, vector: int, *, threads: int, unroll: int) -> Program:
    """`Y = (G - mean(G) - N * mean(G * N)) * weight * rstd` with `N = (X - mean) * rstd`.

    Arguments: as `build_batch_norm_bwd_sums`, the weight `[C]` in float32 after the input; after
    the sums of `P` parts the results `Y [B, C, A * vector]` and the gradients of weight and bias
    `[C]` in float32; then how many parts blocks take here, and accesses of each.

    Args:
        dtype: element type.
        vector: elements of one access.
        threads: threads of a block, a power of two.
        unroll: accesses to each matrix that a thread has in flight.
    """
    read = _reader(dtype, vector)
    add_up = row_reduction(WARP, threads // WARP, _add_both)
    B, C, A, P = T.dynamic("B, C, A, P")

    @T.macro
    def total(plain, normed, S, channel, thread):
        """The sums of a channel over all parts, in every warp."""
        plain[0] = 0.0
        normed[0] = 0.0
        for k in T.serial(T.ceildiv(P, WARP)):
            if k * WARP + thread % WARP < P:
                plain[0] += S[0, channel, k * WARP + thread % WARP]
                normed[0] += S[1, channel, k * WARP + thread % WARP]
        add_up((plain, normed), (plain, normed), thread)

    @T.macro
    def put(g, x, at, factors, Y, channel, place):
        y = T.alloc_local((vector,), dtype)
        sample = T.alloc_var(_I32)
        for v in T.unroll(vector):
            slope = (as_float(x[at + v]) - factors[1]) * factors[2]
            y[v] = T.cast((as_float(g[at + v]) - factors[0] - slope) * factors[3], dtype)
        sample = T.truncdiv(place, A)
        store_vector(Y[sample, channel, (place - sample * A) * vector], y, vector, dtype)

    @T.macro
    def visit(factors, G, X, Y, channel, first, end, thread):
        """Makes what the block reads at once, from its access `first` on."""
        g = T.alloc_local((unroll * vector,), dtype)
        x = T.alloc_local((unroll * vector,), dtype)
        for u in T.unroll(unroll):
            read(g, x, u * vector, G, X, channel, first + u * threads + thread, end, A)
        for u in T.unroll(unroll):
            if first + u * threads + thread < end:
                put(g, x, u * vector, factors, Y, channel, first + u * threads + thread)

    @T.prim_func
    def batch_norm_bwd(
        G: T.Tensor((B, C, A * vector), dtype),
        X: T.Tensor((B, C, A * vector), dtype),
        W: T.Tensor((C,), F32),
        Mean: T.Tensor((C,), F32),
        Rstd: T.Tensor((C,), F32),
        S: T.Tensor((2, C, P), F32),
        Y: T.Tensor((B, C, A * vector), dtype),
        GW: T.Tensor((C,), F32),
        GB: T.Tensor((C,), F32),
        parts: T.int32,
        size: T.int32,
    ):
        with T.Kernel(C * parts, threads=threads) as block:
            thread = T.get_thread_binding(0)
            channel = T.alloc_var(_I32)
            part = T.alloc_var(_I32)
            end = T.alloc_var(_I32)
            plain = T.alloc_local((1,), F32)
            normed = T.alloc_local((1,), F32)
            factors = T.alloc_local((4,), F32)
            channel = T.truncdiv(block, parts)
            part = block - channel * parts
            end = T.min((part + 1) * size, B * A)
            total(plain, normed, S, channel, thread)
            if part == 0:
                if thread == 0:
                    GW[channel] = normed[0]
                    GB[channel] = plain[0]
            factors[0] = plain[0] / as_float(B * A * vector)
            factors[1] = Mean[channel]
            factors[2] = normed[0] / as_float(B * A * vector) * Rstd[channel]
            factors[3] = W[channel] * Rstd[channel]
            for step in T.serial(T.ceildiv(size, threads * unroll)):
                first = part * size + step * (threads * unroll)
                visit(factors, G, X, Y, channel, first, end, thread)

    return Program(batch_norm_bwd, GUARDED)
