"""The program of the delta rule in chunks that keeps what its gradients reuse, on Hopper.

Beside what `chunks` writes, the first launch keeps the inverse of each chunk and its products with
keys and values, the second the states at the bounds of chunks.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import Program
from tileops._programs.vectors import F32, as_float
from tileops.gemm.programs.ring import WARP, WARPGROUP
from tileops.linear_attention.programs.chunk_systems import (
    FACTORS,
    MATRICES,
    Share,
    chunk_preparer,
)
from tileops.linear_attention.programs.chunks import SETTINGS, state_launch
from tileops.linear_attention.programs.sequences import CHUNK
from tileops.linear_attention.programs.tokens import Recurrence


def _keeper(how: Recurrence):
    """Makes the macro that keeps a chunk's inverse, and its products with keys and values.

    Both products are of the inverse with the strengths, as a sum of two numbers of 16 bits.
    """
    dim, width, dtype = how.key_dim, how.value_dim, how.dtype

    @T.macro
    def keep(kept, Ks, numbers, share, betas, b, head, first, thread):
        V, Aw, Au, W, U = kept
        Vs = T.alloc_shared((CHUNK, width), dtype)
        inverse = T.alloc_shared((2, CHUNK, CHUNK), dtype)
        keys = T.alloc_fragment((CHUNK, dim), F32)
        values = T.alloc_fragment((CHUNK, width), F32)
        weighed = T.alloc_local((1,), F32)
        rounded = T.alloc_local((1,), dtype)
        full = T.alloc_barrier(1)
        T.sync_threads()  # all have read the system, whose memory may be written now
        if thread < WARP:
            T.tma_copy(V[b, first : first + CHUNK, head, :], Vs, barrier=full)
            if T.shuffle_elect(WARP):
                T.barrier_arrive(full)
        for i in T.unroll(Share.ROWS):
            rounded[0] = T.cast(numbers[i], dtype)
            Aw[b, first + share.row(i), share.column] = rounded[0]
            Au[b, first + share.row(i), share.column] = rounded[0]
            weighed[0] = numbers[i] * betas[share.column]
            rounded[0] = T.cast(weighed[0], dtype)
            inverse[0, share.row(i), share.column] = rounded[0]
            inverse[1, share.row(i), share.column] = T.cast(
                weighed[0] - as_float(rounded[0]), dtype
            )
        T.fence_proxy_async()
        T.sync_threads()
        T.wgmma_gemm(inverse[0, :, :], Ks, keys, clear_accum=True)
        T.wgmma_gemm(inverse[1, :, :], Ks, keys)
        T.barrier_wait(full, 0)
        T.wgmma_gemm(inverse[0, :, :], Vs, values, clear_accum=True)
        T.wgmma_gemm(inverse[1, :, :], Vs, values)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(keys, num_regs=dim // 2)
        T.warpgroup_fence_operand(values, num_regs=width // 2)
        for i, d in T.Parallel(CHUNK, dim):
            W[b, first + i, d] = keys[i, d]
        for i, d in T.Parallel(CHUNK, width):
            U[b, first + i, d] = values[i, d]

    return keep


def build_kept_chunks(dtype: str, key_dim: int, value_dim: int) -> Program:
    """The delta rule from states of zeros, with what its gradients reuse.

    Tensors: `Q`, `K` `[B, L, 1, key_dim]` and `V`, `O` `[B, L, 1, value_dim]`; `strengths
    [B, L, 1]`; `X` and `F` as `build_chunks` has them; in float32 `R [B, L / CHUNK + 1, key_dim,
    value_dim]`, the states at the bounds of chunks; `Aw`, `Au` `[B, L, CHUNK]`, both the inverse of
    each chunk; `W [B, L, key_dim]` and `U [B, L, value_dim]`, its products with the keys and the
    values times their strengths. All contiguous, 16-byte aligned, L a multiple of `CHUNK`, B and L
    not 0.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        key_dim: channels of a key, 64 or 128.
        value_dim: channels of a value, 64 or 128.
    """
    how = Recurrence(
        dtype=dtype,
        state_dtype=F32,
        heads=1,
        value_heads=1,
        key_dim=key_dim,
        value_dim=value_dim,
        scale=1.0,
        gate="none",
        is_raw_gate=False,
        lower_bound=None,
        has_delta_rule=True,
        beta_range=0,
        has_unit_keys=False,
        has_gate_bias=False,
        has_state=False,
        is_v_first=False,
        is_packed=False,
    )
    prepare, carry = chunk_preparer(how, _keeper(how)), state_launch(how, keeps=True)
    B, length, places, bounds = (T.dynamic(name) for name in ("B", "length", "places", "bounds"))

    @T.prim_func
    def run_kept_chunks(
        Q: T.Tensor((B, length, 1, key_dim), dtype),
        K: T.Tensor((B, length, 1, key_dim), dtype),
        V: T.Tensor((B, length, 1, value_dim), dtype),
        strengths: T.Tensor((B, length, 1), dtype),
        X: T.Tensor((places, MATRICES, CHUNK, CHUNK), dtype),
        F: T.Tensor((places, FACTORS, CHUNK), F32),
        O: T.Tensor((B, length, 1, value_dim), dtype),  # noqa: E741
        R: T.Tensor((B, bounds, key_dim, value_dim), F32),
        Aw: T.Tensor((B, length, CHUNK), dtype),
        Au: T.Tensor((B, length, CHUNK), dtype),
        W: T.Tensor((B, length, key_dim), dtype),
        U: T.Tensor((B, length, value_dim), dtype),
    ):
        with T.Kernel(T.ceildiv(length, CHUNK), B, threads=WARPGROUP) as (n, b):
            T.pdl_trigger()
            place = b * T.ceildiv(length, CHUNK) + n
            kept = V, Aw, Au, W, U
            first = n * CHUNK
            prepare(Q, K, R, strengths, R, R, X, F, kept, b, 0, first, length, place, n)
        carry(Q, K, V, R, X, F, R, O, R, B, length)

    return Program(run_kept_chunks, SETTINGS)
