"""The program of products with a handful of rows, which reading the second factor bounds.

All extents are run-time values; dtype and cut are compiled in. Products accumulate in float32 and
are rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program

_WARP = 32
_VECTOR = 8  # 16-bit elements of one access
_UPPER = 0xFFFF0000


def _widened(registers, first, v):
    """Element `v` of the vector at `first`, in float32.

    A bfloat16 is the upper half of a float32: one shift or mask of a word gives it, where a cast
    would take the word apart before.
    """
    if registers.dtype != "bfloat16":
        return T.cast(registers[first + v], "float32")
    words = T.view(registers, (registers.shape[0] // 2,), "uint32")
    word = words[first // 2 + v // 2]
    bits = word & T.uint32(_UPPER) if v % 2 else word << T.uint32(16)
    return T.reinterpret(bits, "float32")


def build_gemv(dtype: str, *, rows: int, columns: int, threads: int, unroll: int) -> Program:
    """`D = A B^T` without tensor cores: a block gives `columns` results of each of `rows` rows.

    Tensors: `A [M, K]`, `B [N, K]`, `D [M, N]`; contiguous, 16-byte aligned, K a multiple of 8,
    none 0.

    Its threads walk along K together, all loads of a step issued before the first product.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        rows: rows of `A` that meet each element of `B` once it is read.
        columns: rows of `B` that a block reads.
        threads: threads of a block, at least `rows * columns`.
        unroll: vectors of each row that a thread reads in one step.
    """
    M, N = T.dynamic("M"), T.dynamic("N")
    KU = T.dynamic("KU")
    K = KU * _VECTOR
    warps = threads // _WARP
    results = rows * columns

    @T.macro
    def load(registers, X, top, count, bottom, first, thread):
        """Vectors of `count` rows from `top`; zeros past the end, the last row again below it."""
        T.clear(registers)
        for u in T.unroll(unroll):
            if first + u * threads + thread < KU:
                for r in T.unroll(count):
                    for v in T.vectorized(_VECTOR):
                        registers[(u * count + r) * _VECTOR + v] = X[
                            T.min(top + r, bottom),
                            (first + u * threads + thread) * _VECTOR + v,
                        ]

    @T.prim_func
    def gemv(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        D: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads) as (bn, bm):
            thread = T.get_thread_binding()
            a = T.alloc_local((unroll * rows * _VECTOR,), dtype)
            b = T.alloc_local((unroll * columns * _VECTOR,), dtype)
            acc = T.alloc_local((results,), "float32")
            sums = T.alloc_shared((warps, results), "float32")
            T.clear(acc)
            for step in T.serial(T.ceildiv(KU, unroll * threads)):
                load(b, B, bn * columns, columns, N - 1, step * unroll * threads, thread)
                load(a, A, bm * rows, rows, M - 1, step * unroll * threads, thread)
                for u in T.unroll(unroll):
                    for r in T.unroll(rows):
                        for c in T.unroll(columns):
                            for v in tuple(range(_VECTOR)):
                                acc[r * columns + c] += _widened(
                                    a, (u * rows + r) * _VECTOR, v
                                ) * _widened(b, (u * columns + c) * _VECTOR, v)
            for i in T.unroll(results):
                for halving in T.unroll(5):
                    acc[i] += T.shfl_xor(acc[i], _WARP // 2 >> halving)
            if thread % _WARP == 0:
                for i in T.unroll(results):
                    sums[thread // _WARP, i] = acc[i]
            T.sync_threads()
            if thread < results:
                row = bm * rows + thread // columns
                column = bn * columns + thread % columns
                if row < M and column < N:
                    acc[0] = 0.0
                    for w in T.unroll(warps):
                        acc[0] += sums[w, thread]
                    D[row, column] = acc[0]

    return Program(gemv, GUARDED)
