"""The program of few rows times a weight of 4-bit codes, on the tensor cores of one warp.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program

RUN = 128
"""Columns whose products a warp adds up before it scales them."""
_WARP = 32
_LANES = 4  # of a warp, that share a row and split a run
_ROWS, _COLUMNS = 16, 8  # rows of the weight, and of the activation, in one product
_WORD = 8  # codes of 32 bits
_WORDS = RUN // _LANES // _WORD  # of a row, that one lane reads of a run: 16 bytes
_PAIRS = _WORD // 2
_THREADS = 1024  # of a multiprocessor, that 64 registers each leave room for

_DECODE = r"""
#include <cuda_fp16.h>
// Two 4-bit codes, 16 bits apart, as halves less a zero point: with the bits of 1024 around it, a
// code is a half 1024 above itself, and so is the zero point.
static __device__ __forceinline__ int tileops_decode(int word, int zeros) {
  unsigned bits = (static_cast<unsigned>(word) & 0x000f000fu) | 0x64006400u;
  __half2 codes = *reinterpret_cast<__half2*>(&bits);
  __half2 centred = __hsub2(codes, *reinterpret_cast<__half2*>(&zeros));
  return *reinterpret_cast<int*>(&centred);
}
"""


def _loads(group: int, rows: int, columns: int):
    """Makes the macros by which a warp loads a run of its rows of the weight and the activation."""
    tiles, spans = rows // _ROWS, columns // _COLUMNS

    @T.macro
    def load_weight(W, S, Z, words, scale, zeros, bn, N, run, row, lane):
        for r in T.unroll(2 * tiles):
            n = T.min(bn * rows + r * _COLUMNS + row, N - 1)
            for v in T.vectorized(_WORDS):
                words[r * _WORDS + v] = W[n, (run * _LANES + lane) * _WORDS + v]
            scale[r] = S[n, run * RUN // group]
            zeros[r] = Z[n, run * RUN // group]

    @T.macro
    def load_activation(X, x, bm, M, run, row, lane):
        for s in T.unroll(spans):
            if bm * columns + s * _COLUMNS + row < M:
                for w in T.unroll(_WORDS):
                    for v in T.vectorized(_PAIRS):
                        x[(s * _WORDS + w) * _PAIRS + v] = X[
                            bm * columns + s * _COLUMNS + row,
                            ((run * _LANES + lane) * _WORDS + w) * _PAIRS + v,
                        ]

    return load_weight, load_activation


def _products(tiles: int, spans: int):
    """Makes the macro that multiplies a run of `16 * tiles` and `8 * spans` rows."""

    @T.macro
    def multiply(words, zero, x, a, sums, r):
        """Adds the products of a run and 16 rows, from row `r` of the lanes' rows on."""
        for w in T.unroll(_WORDS):
            for half in T.unroll(2):
                for i in T.unroll(4):  # registers: both rows, then both rows further right
                    a[i] = T.call_extern(
                        "int32",
                        "tileops_decode",
                        words[(r + i % 2) * _WORDS + w] >> ((2 * half + i // 2) * 4),
                        zero[i % 2],
                    )
                for s in T.unroll(spans):
                    T.ptx_mma(
                        "float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32",
                        a.data, 0, x.data, (s * _WORDS + w) * _PAIRS + 2 * half,
                        sums.data, s * 4, T.bool(False),
                    )  # fmt: skip

    @T.macro
    def accumulate(words, scale, zeros, x, a, zero, sums, totals):
        """Adds the scaled products of a run to the totals."""
        for tile in T.unroll(tiles):
            r = tile * 2
            for i in T.unroll(2):
                zero[i] = (T.cast(zeros[r + i], "int32") | 0x6400) * 0x10001
            T.clear(sums)
            multiply(words, zero, x, a, sums, r)
            for s in T.unroll(spans):
                for i in T.unroll(4):
                    totals[(tile * spans + s) * 4 + i] += sums[s * 4 + i] * T.cast(
                        scale[r + i // 2], "float32"
                    )

    return accumulate


def build_gemm_packed(*, group: int, rows: int, columns: int, warps: int) -> Program:
    """`D = X W^T` with `W = (q - zero) * scale`: the warps of a block share the runs of its rows.

    Tensors: `X [M, K / 2]`, pairs of float16 as int32; `W [N, K / 8]`, int32 of eight codes in the
    order of packed weights; `S [N, K / group]` in float16; `Z [N, K / group]` in uint8;
    `D [M, N]` in float16; contiguous, 16-byte aligned, K a multiple of `group`, none 0.

    The tensor cores add products over what their operands call the same column, whichever it is:
    each lane takes the columns that lie together in its 16 bytes of codes.

    Args:
        group: columns that share a scale and a zero point, a multiple of 128.
        rows: rows of `W` that a block multiplies, a multiple of 16.
        columns: rows of `X` that it multiplies, a multiple of 8.
        warps: warps of a block.
    """
    M, N = T.dynamic("M"), T.dynamic("N")
    groups = T.dynamic("groups")
    tiles, spans = rows // _ROWS, columns // _COLUMNS
    threads = warps * _WARP
    load_weight, load_activation = _loads(group, rows, columns)
    accumulate = _products(tiles, spans)

    @T.prim_func
    def gemm_packed(
        X: T.Tensor((M, groups * (group // 2)), "int32"),
        W: T.Tensor((N, groups * (group // _WORD)), "int32"),
        S: T.Tensor((N, groups), "float16"),
        Z: T.Tensor((N, groups), "uint8"),
        D: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(
            T.ceildiv(N, rows), T.ceildiv(M, columns), threads=threads, prelude=_DECODE
        ) as (bn, bm):
            if spans == 1:  # many warps, so that enough of the weight is on its way
                T.annotate_min_blocks_per_sm(_THREADS // threads)
            thread = T.get_thread_binding()
            warp = thread // _WARP
            runs = groups * (group // RUN)
            row = thread % _WARP // _LANES
            lane = thread % _LANES
            words = T.alloc_local((2 * tiles * _WORDS,), "int32")
            scale = T.alloc_local((2 * tiles,), "float16")
            zeros = T.alloc_local((2 * tiles,), "uint8")
            zero = T.alloc_local((2,), "int32")
            x = T.alloc_local((spans * _WORDS * _PAIRS,), "int32")
            a = T.alloc_local((4,), "int32")
            sums = T.alloc_local((spans * 4,), "float32")
            totals = T.alloc_local((tiles * spans * 4,), "float32")
            parts = T.alloc_shared((warps, columns, rows), "float32")
            total = T.alloc_local((1,), "float32")
            first = T.alloc_var("int32")
            steps = T.alloc_var("int32")
            first = warp * runs // warps
            steps = (warp + 1) * runs // warps - first
            T.clear(totals)
            T.clear(x)
            for step in T.serial(steps):
                load_weight(W, S, Z, words, scale, zeros, bn, N, first + step, row, lane)
                load_activation(X, x, bm, M, first + step, row, lane)
                accumulate(words, scale, zeros, x, a, zero, sums, totals)
            for tile in T.unroll(tiles):
                for s in T.unroll(spans):
                    for i in T.unroll(4):
                        parts[
                            warp,
                            s * _COLUMNS + lane * 2 + i % 2,
                            tile * _ROWS + i // 2 * _COLUMNS + row,
                        ] = totals[(tile * spans + s) * 4 + i]
            T.sync_threads()
            for turn in T.serial(T.ceildiv(rows * columns, threads)):
                place = turn * threads + thread
                m = bm * columns + place // rows
                n = bn * rows + place % rows
                if place < rows * columns and m < M and n < N:
                    total[0] = 0.0
                    for w in T.unroll(warps):
                        total[0] += parts[w, place // rows, place % rows]
                    D[m, n] = total[0]

    return Program(gemm_packed, GUARDED)
