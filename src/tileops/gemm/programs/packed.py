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
_RUN_WORDS = RUN // _WORD
_PAIRS = _WORD // 2
_RUN_PAIRS = RUN // 2
_THREADS = 1024  # of a multiprocessor, that 64 registers each leave room for

_DECODE = r"""
#include <cuda_fp16.h>
// Two 4-bit codes, 16 bits apart, as halves less a zero point, all over 512. Where nothing is
// around its bits, a code is a half 2^24 below itself, 2^20 when it lies 4 bits further up.
static __device__ __forceinline__ __half2 tileops_halves(int bits) {
  return *reinterpret_cast<__half2*>(&bits);
}
template <int Place>
static __device__ __forceinline__ int tileops_decode(int word, int zeros) {
  constexpr int kMask = Place ? 0x00f000f0 : 0x000f000f;
  constexpr int kFactor = Place ? 0x68006800 : 0x78007800;  // 2^11, 2^15
  __half2 centred =
      __hfma2(tileops_halves(word & kMask), tileops_halves(kFactor), tileops_halves(zeros));
  return *reinterpret_cast<int*>(&centred);
}
// Minus a zero point over 512, twice.
static __device__ __forceinline__ int tileops_zeros(unsigned char zero) {
  __half2 both = __float2half2_rn(static_cast<float>(zero) * -0x1p-9f);
  return *reinterpret_cast<int*>(&both);
}
"""
_OVER = 512.0  # what decoded codes are divided by


def _loads(group: int, rows: int, columns: int):
    """Makes the macros by which a warp loads a run of its rows of the weight and the activation."""
    tiles, spans = rows // _ROWS, columns // _COLUMNS

    @T.macro
    def load_weight(W, S, Z, words, scale, zeros, place, run, lane):
        for r in T.unroll(2 * tiles):
            for v in T.vectorized(_WORDS):
                words[r * _WORDS + v] = W[place[r] + run, lane * _WORDS + v]
            scale[r] = S[T.truncdiv(place[r] + run, group // RUN)]
            zeros[r] = Z[T.truncdiv(place[r] + run, group // RUN)]

    @T.macro
    def load_activation(X, x, place, run, lane):
        for s in T.unroll(spans):
            for w in T.unroll(_WORDS):
                for v in T.vectorized(_PAIRS):
                    x[(s * _WORDS + w) * _PAIRS + v] = X[
                        place[s] + run, (lane * _WORDS + w) * _PAIRS + v
                    ]

    return load_weight, load_activation


def _products(tiles: int, spans: int):
    """Makes the macro that multiplies a run of `16 * tiles` and `8 * spans` rows."""

    @T.macro
    def multiply(words, zero, x, a, sums, r):
        """Adds the products of a run and 16 rows, from row `r` of the lanes' rows on."""
        for w in T.unroll(_WORDS):
            for half in T.unroll(2):
                for place in tuple(range(2)):  # registers: both rows, then both rows further right
                    for i in T.unroll(2):
                        a[2 * place + i] = T.call_extern(
                            "int32",
                            f"tileops_decode<{place}>",
                            words[(r + i) * _WORDS + w] >> (8 * half),
                            zero[i],
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
                zero[i] = T.call_extern("int32", "tileops_zeros", zeros[r + i])
            T.clear(sums)
            multiply(words, zero, x, a, sums, r)
            for s in T.unroll(spans):
                for i in T.unroll(4):
                    totals[(tile * spans + s) * 4 + i] += sums[s * 4 + i] * (
                        T.cast(scale[r + i // 2], "float32") * _OVER
                    )

    return accumulate


def build_gemm_packed(*, group: int, rows: int, columns: int, warps: int) -> Program:
    """`D = X W^T` with `W = (q - zero) * scale`: the warps of a block share the runs of its rows.

    Tensors: `X [M * runs, 64]`, pairs of float16 as int32, a row of 128 columns; `W [N * runs, 16]`
    likewise, int32 of eight codes in the order of packed weights; `S [N * K / group]` in float16;
    `Z [N * K / group]` in uint8; `D [M, N]` in float16; contiguous, 16-byte aligned, K a multiple
    of `group`, none 0.

    The tensor cores add products over what their operands call the same column, whichever it is:
    each lane takes the columns that lie together in its 16 bytes of codes.

    Args:
        group: columns that share a scale and a zero point, a multiple of 128.
        rows: rows of `W` that a block multiplies, a multiple of 16.
        columns: rows of `X` that it multiplies, a multiple of 8.
        warps: warps of a block.
    """
    M, N = T.dynamic("M"), T.dynamic("N")
    xruns, wruns, groups = T.dynamic("xruns"), T.dynamic("wruns"), T.dynamic("groups")
    tiles, spans = rows // _ROWS, columns // _COLUMNS
    threads = warps * _WARP
    load_weight, load_activation = _loads(group, rows, columns)
    accumulate = _products(tiles, spans)

    @T.prim_func
    def gemm_packed(
        X: T.Tensor((xruns, _RUN_PAIRS), "int32"),
        W: T.Tensor((wruns, _RUN_WORDS), "int32"),
        S: T.Tensor((groups,), "float16"),
        Z: T.Tensor((groups,), "uint8"),
        D: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(
            T.ceildiv(N, rows), T.ceildiv(M, columns), threads=threads, prelude=_DECODE
        ) as (bn, bm):
            if spans == 1:  # many warps, so that enough of the weight is on its way
                T.annotate_min_blocks_per_sm(_THREADS // threads)
            thread = T.get_thread_binding()
            warp = thread // _WARP
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
            w_place = T.alloc_local((2 * tiles,), "int64")
            x_place = T.alloc_local((spans,), "int64")
            runs = T.alloc_var("int32")
            first = T.alloc_var("int32")
            steps = T.alloc_var("int32")
            runs = T.truncdiv(wruns, N)
            first = warp * runs // warps
            steps = (warp + 1) * runs // warps - first
            T.clear(totals)
            # Rows past the last are multiplied as well, as the last once more, and not stored.
            for r in T.unroll(2 * tiles):
                w_place[r] = T.cast(T.min(bn * rows + r * _COLUMNS + row, N - 1), "int64") * runs
            for s in T.unroll(spans):
                x_place[s] = T.cast(T.min(bm * columns + s * _COLUMNS + row, M - 1), "int64") * runs
            for step in T.serial(steps):
                load_weight(W, S, Z, words, scale, zeros, w_place, first + step, lane)
                load_activation(X, x, x_place, first + step, lane)
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
