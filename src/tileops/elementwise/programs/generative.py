"""TileLang programs of tensors that are made of parameters alone.

A block makes several rows, of which a thread owns the same columns. Extents are run-time values;
element type and vector width are compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import math

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import F32, as_float, store_vector

_F64 = "float64"


def build_alibi(dtype: str, vector: int, *, threads: int, rows: int) -> Program:
    """`Y[h, i, j] = -2^(-8 (h + 1) / H) * abs(i - j)`.

    Tensor: `Y [H, S, A * vector]` with `S = A * vector`.

    Args:
        dtype: element type.
        vector: elements of one access, which divides a row.
        threads: threads of a block.
        rows: rows of a block.
    """
    H, S, A = T.dynamic("H, S, A")

    @T.macro
    def put(Y, slope, head, i, access):
        y = T.alloc_local((vector,), dtype)
        distance = T.alloc_local((1,), F32)
        distance[0] = as_float(i - access * vector)
        for v in T.unroll(vector):
            y[v] = T.cast(slope[0] * T.abs(distance[0] - as_float(v)), dtype)
        store_vector(Y[head, i, access * vector], y, vector, dtype)

    @T.prim_func
    def alibi(Y: T.Tensor((H, S, A * vector), dtype)):
        with T.Kernel(T.ceildiv(S, rows), H, threads=threads) as (group, head):
            thread = T.get_thread_binding(0)
            slope = T.alloc_local((1,), F32)
            slope[0] = 0.0 - T.exp2(as_float(head + 1) * -8.0 / as_float(H))
            for r in T.unroll(rows):
                if group * rows + r < S:
                    for c in T.serial(T.ceildiv(A, threads)):
                        if c * threads + thread < A:
                            put(Y, slope, head, group * rows + r, c * threads + thread)

    return Program(alibi, GUARDED)


def build_sinusoidal(dtype: str, vector: int, *, threads: int, rows: int) -> Program:
    """`Y[p, 2 i] = sin(p / 10000^(2 i / D))`, `Y[p, 2 i + 1]` its cosine.

    Angles are float64 up to their last turn. Tensor: `Y [S, A * vector]` with `D = A * vector`.

    Args:
        dtype: element type.
        vector: elements of one access, even, which divides a row.
        threads: threads of a block.
        rows: rows of a block.
    """
    pairs = vector // 2
    S, A = T.dynamic("S, A")

    @T.macro
    def put(Y, turns, p, access):
        y = T.alloc_local((vector,), dtype)
        turn = T.alloc_local((1,), _F64)
        angle = T.alloc_local((1,), F32)
        for k in T.unroll(pairs):
            turn[0] = T.cast(p, _F64) * turns[k]
            turn[0] = turn[0] - T.call_extern(_F64, "rint", turn[0])
            angle[0] = T.cast(turn[0] * (2.0 * math.pi), F32)
            y[2 * k] = T.cast(T.sin(angle[0]), dtype)
            y[2 * k + 1] = T.cast(T.cos(angle[0]), dtype)
        store_vector(Y[p, access * vector], y, vector, dtype)

    @T.prim_func
    def sinusoidal(Y: T.Tensor((S, A * vector), dtype)):
        with T.Kernel(T.ceildiv(A, threads), T.ceildiv(S, rows), threads=threads) as (tile, group):
            thread = T.get_thread_binding(0)
            turns = T.alloc_local((pairs,), _F64)
            access = T.alloc_var("int32")
            access = tile * threads + thread
            if access < A:
                for k in T.unroll(pairs):
                    share = T.cast(access * pairs + k, _F64) / T.cast(A * pairs, _F64)
                    turns[k] = T.call_extern(_F64, "exp2", share * -math.log2(10000.0)) * (
                        0.5 / math.pi
                    )
                for r in T.unroll(rows):
                    if group * rows + r < S:
                        put(Y, turns, group * rows + r, access)

    return Program(sinusoidal, GUARDED)
