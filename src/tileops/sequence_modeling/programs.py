"""Programs of residual streams of several copies, for few tokens.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import F32, as_float, store_vector

_BF16 = "bfloat16"
_WARP = 32
_THREADS = 128
_WARPS = _THREADS // _WARP


@dataclass(frozen=True)
class Mixture:
    """How coefficients of a stream are made.

    Args:
        n: copies of the stream.
        c_x: width of a copy.
        alphas: factors of the coefficients *pre*, *post* and *res*.
        rounds: how often the mixing matrix is made doubly stochastic.
        sinkhorn_eps: what is added to each sum there.
        rms_eps: what is added to the root mean square.
        channels: of a stream that a block projects, a multiple of 128.
    """

    n: int
    c_x: int
    alphas: tuple[float, float, float]
    rounds: int
    sinkhorn_eps: float
    rms_eps: float
    channels: int

    @property
    def coefficients(self) -> int:
        """Columns of the projection."""
        return self.n * self.n + 2 * self.n


def _projector(how: Mixture):
    """Makes the macro by which a block projects some channels and adds up their squares."""
    Q, C = how.coefficients, how.n * how.c_x

    @T.macro
    def project(phi, x, P, part, row):
        thread = T.get_thread_binding()
        shared = T.alloc_shared((_WARPS, Q + 1), F32)
        sums = T.alloc_local((Q + 1,), F32)
        value = T.alloc_local((1,), F32)
        for q in T.unroll(Q + 1):
            sums[q] = 0.0
        for i in T.unroll(how.channels // _THREADS):
            channel = part * how.channels + i * _THREADS + thread
            if channel < C:
                value[0] = as_float(x[row, channel])
                for q in T.unroll(Q):
                    sums[q] += value[0] * phi[channel, q]
                sums[Q] += value[0] * value[0]
        for step in tuple(range(5)):
            for q in T.unroll(Q + 1):
                sums[q] += T.shfl_xor(sums[q], 1 << step)
        if thread % _WARP == 0:
            for q in T.unroll(Q + 1):
                shared[thread // _WARP, q] = sums[q]
        T.sync_threads()
        if thread <= Q:
            value[0] = 0.0
            for warp in T.unroll(_WARPS):
                value[0] += shared[warp, thread]
            P[row, part, thread] = value[0]

    return project


def _mixer(how: Mixture):
    """Makes the macros that turn sums into a matrix, and weigh the copies of a channel."""
    n, eps = how.n, how.sinkhorn_eps

    @T.macro
    def normalise(matrix, by_row: bool):
        total = T.alloc_local((1,), F32)
        for i in T.unroll(n):
            total[0] = eps
            for j in T.unroll(n):
                total[0] += matrix[i * n + j if by_row else j * n + i]
            for j in T.unroll(n):
                place = i * n + j if by_row else j * n + i
                matrix[place] = matrix[place] / total[0]

    @T.macro
    def settle(h, b, pre, post, matrix):
        most = T.alloc_local((1,), F32)
        for i in T.unroll(n):
            pre[i] = 1.0 / (1.0 + T.exp(-(how.alphas[0] * h[i] + b[i])))
            post[i] = 2.0 / (1.0 + T.exp(-(how.alphas[1] * h[n + i] + b[n + i])))
        for i in T.unroll(n):
            for j in T.unroll(n):
                q = 2 * n + i * n + j
                matrix[i * n + j] = how.alphas[2] * h[q] + b[q]
            most[0] = matrix[i * n]
            for j in T.unroll(1, n):
                most[0] = T.max(most[0], matrix[i * n + j])
            for j in T.unroll(n):
                matrix[i * n + j] = T.exp(matrix[i * n + j] - most[0])
        for _ in T.serial(how.rounds):
            normalise(matrix, True)
            normalise(matrix, False)

    return settle


def build_mhc_pre(how: Mixture) -> Program:
    """Mixed copies `Y`, their weighted sum `L`, and the gates `G`: sums by channels, then the rest.

    Tensors: `phi [n c_x, Q]`, `b [Q]` in float32; `X [B, n c_x]` in bfloat16; `P [B, parts, Q + 1]`
    in float32, a part for each run of channels; `Y [B, n c_x]`, `L [B, c_x]` in bfloat16;
    `G [B, n]` in float32; contiguous, B not 0.

    Args:
        how: how coefficients are made.
    """
    n, c_x, Q = how.n, how.c_x, how.coefficients
    C, parts = n * c_x, -(-n * c_x // how.channels)
    project, settle = _projector(how), _mixer(how)
    B = T.dynamic("B")

    @T.prim_func
    def mhc_pre(
        phi: T.Tensor((C, Q), F32),
        X: T.Tensor((B, C), _BF16),
        b: T.Tensor((Q,), F32),
        P: T.Tensor((B, parts, Q + 1), F32),
        Y: T.Tensor((B, C), _BF16),
        L: T.Tensor((B, c_x), _BF16),
        G: T.Tensor((B, n), F32),
    ):
        with T.Kernel(parts, B, threads=_THREADS) as (part, row):
            T.pdl_trigger()
            project(phi, X, P, part, row)
        with T.Kernel(T.ceildiv(c_x, _THREADS), B, threads=_THREADS) as (block, token):
            lane = T.get_thread_binding()
            column = block * _THREADS + lane
            h = T.alloc_shared((Q + 1,), F32)
            total = T.alloc_local((1,), F32)
            pre = T.alloc_local((n,), F32)
            post = T.alloc_local((n,), F32)
            matrix = T.alloc_local((n * n,), F32)
            copies = T.alloc_local((n,), F32)
            for i in T.unroll(n):
                copies[i] = as_float(X[token, i * c_x + T.min(column, c_x - 1)])
            T.pdl_sync()
            if lane <= Q:
                total[0] = 0.0
                for i in T.serial(parts):
                    total[0] += P[token, i, lane]
                h[lane] = total[0]
            T.sync_threads()
            total[0] = 1.0 / (T.sqrt(h[Q] / C) + how.rms_eps)
            T.sync_threads()
            if lane < Q:
                h[lane] = h[lane] * total[0]
            T.sync_threads()
            settle(h, b, pre, post, matrix)
            if column < c_x:
                for i in T.unroll(n):
                    total[0] = 0.0
                    for j in T.unroll(n):
                        total[0] += matrix[i * n + j] * copies[j]
                    Y[token, i * c_x + column] = T.cast(total[0], _BF16)
                total[0] = 0.0
                for j in T.unroll(n):
                    total[0] += pre[j] * copies[j]
                L[token, column] = T.cast(total[0], _BF16)
            if block == 0:
                for i in T.unroll(n):
                    if lane == i:
                        G[token, i] = post[i]

    return Program(mhc_pre, GUARDED)


def build_mhc_post(n: int, width: int) -> Program:
    """`Y[i] = X[i] + G[i] * L` for each copy `i` of a stream, in float32.

    Tensors: `L [B, parts, width]` in bfloat16, `G [B, n]` in float32, `X`, `Y`
    `[B, n, parts, width]` in bfloat16; contiguous, none 0.

    Args:
        n: copies of the stream.
        width: elements of an access, a power of two, at most 8.
    """
    B, parts = T.dynamic("B"), T.dynamic("parts")

    @T.prim_func
    def mhc_post(
        L: T.Tensor((B, parts, width), _BF16),
        G: T.Tensor((B, n), F32),
        X: T.Tensor((B, n, parts, width), _BF16),
        Y: T.Tensor((B, n, parts, width), _BF16),
    ):
        # Rows lie along the axis of the grid that does not end at 65,535 blocks.
        with T.Kernel(B, T.ceildiv(parts, _THREADS), threads=_THREADS) as (row, block):
            part = block * _THREADS + T.get_thread_binding()
            gates = T.alloc_local((n,), F32)
            layer = T.alloc_local((width,), _BF16)
            copies = T.alloc_local((n * width,), _BF16)
            if part < parts:
                for v in T.vectorized(width):
                    layer[v] = L[row, part, v]
                for i in T.unroll(n):
                    gates[i] = G[row, i]
                    for v in T.vectorized(width):
                        copies[i * width + v] = X[row, i, part, v]
                for i in T.unroll(n):
                    for v in T.unroll(width):
                        copies[i * width + v] = T.cast(
                            as_float(copies[i * width + v]) + gates[i] * as_float(layer[v]), _BF16
                        )
                    store_vector(Y[row, i, part, 0], copies, width, _BF16, first=i * width)

    return Program(mhc_post, GUARDED)
