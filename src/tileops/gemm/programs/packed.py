"""The program of up to eight rows times a weight of 4-bit codes, on the tensor cores of one warp.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops.gemm.programs.codes import DECODE, OVER, RUN, WORD

_WARP = 32
_LANES = 4  # of a warp, that share a row and split a run
_ROWS, _COLUMNS = 16, 8  # rows of the weight, and of the activation, in one product
_WORDS = RUN // _LANES // WORD  # of a row, that one lane reads of a run: 16 bytes
_PAIRS = WORD // 2
_HALF = _ROWS // 2
_THREADS = 1024  # of a multiprocessor, that 64 registers each leave room for


@T.macro
def _load(X, W, S, Z, words, scale, zeros, x, w_place, x_place, run, lane, group):
    """Loads a run of the lane's two rows of the weight and of its row of the activation."""
    for r in T.unroll(2):
        for v in T.vectorized(_WORDS):
            words[r * _WORDS + v] = W[w_place[r] + run, lane * _WORDS + v]
        scale[r] = S[T.truncdiv(w_place[r] + run, group // RUN)]
        zeros[r] = Z[T.truncdiv(w_place[r] + run, group // RUN)]
    for w in T.unroll(_WORDS):
        for v in T.vectorized(_PAIRS):
            x[w * _PAIRS + v] = X[x_place + run, (lane * _WORDS + w) * _PAIRS + v]


@T.macro
def _accumulate(words, scale, zeros, x, a, zero, sums, totals):
    """Adds the scaled products of a run to the totals."""
    for r in T.unroll(2):
        zero[r] = T.call_extern("int32", "tileops_zeros", zeros[r])
    T.clear(sums)
    for w in T.unroll(_WORDS):
        for half in T.unroll(2):
            for place in tuple(range(2)):  # registers: both rows, then both rows further right
                for r in T.unroll(2):
                    a[2 * place + r] = T.call_extern(
                        "int32", f"tileops_decode<{place}>", words[r * _WORDS + w] >> 8 * half,
                        zero[r],
                    )  # fmt: skip
            T.ptx_mma(
                "float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32",
                a.data, 0, x.data, w * _PAIRS + 2 * half, sums.data, 0, T.bool(False),
            )  # fmt: skip
    for i in T.unroll(4):
        totals[i] += sums[i] * (T.cast(scale[i // 2], "float32") * OVER)


def build_gemm_packed(*, group: int, warps: int) -> Program:
    """`D = X W^T` with `W = (q - zero) * scale`: the warps of a block share the runs of its rows.

    Tensors: `X [M * runs, 64]`, pairs of float16 as int32, a row for each 128 columns;
    `W [N * runs, 16]` likewise, int32 of eight codes in the order of packed weights;
    `S [N * K / group]` in float16; `Z [N * K / group]` in uint8; `D [M, N]` in float16;
    contiguous, 16-byte aligned, K a multiple of `group`, none 0.

    The tensor cores add products over what their operands call the same column, whichever it is:
    each lane takes the columns that lie together in its 16 bytes of codes.

    Args:
        group: columns that share a scale and a zero point, a multiple of 128.
        warps: warps of a block.
    """
    M, N = T.dynamic("M"), T.dynamic("N")
    xruns, wruns, groups = T.dynamic("xruns"), T.dynamic("wruns"), T.dynamic("groups")
    threads = warps * _WARP

    @T.prim_func
    def gemm_packed(
        X: T.Tensor((xruns, RUN // 2), "int32"),
        W: T.Tensor((wruns, RUN // WORD), "int32"),
        S: T.Tensor((groups,), "float16"),
        Z: T.Tensor((groups,), "uint8"),
        D: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(
            T.ceildiv(N, _ROWS), T.ceildiv(M, _COLUMNS), threads=threads, prelude=DECODE
        ) as (bn, bm):
            # Many warps, so that enough of the weight is on its way.
            T.annotate_min_blocks_per_sm(_THREADS // threads)
            thread = T.get_thread_binding()
            warp = thread // _WARP
            row = thread % _WARP // _LANES
            lane = thread % _LANES
            words = T.alloc_local((2 * _WORDS,), "int32")
            scale = T.alloc_local((2,), "float16")
            zeros = T.alloc_local((2,), "uint8")
            zero = T.alloc_local((2,), "int32")
            x = T.alloc_local((_WORDS * _PAIRS,), "int32")
            a = T.alloc_local((4,), "int32")
            sums = T.alloc_local((4,), "float32")
            totals = T.alloc_local((4,), "float32")
            parts = T.alloc_shared((warps, _COLUMNS, _ROWS), "float32")
            total = T.alloc_local((1,), "float32")
            w_place = T.alloc_local((2,), "int64")
            x_place = T.alloc_var("int64")
            runs = T.alloc_var("int32")
            first = T.alloc_var("int32")
            steps = T.alloc_var("int32")
            runs = T.truncdiv(wruns, N)
            first = warp * runs // warps
            steps = (warp + 1) * runs // warps - first
            T.clear(totals)
            # Rows past the last are multiplied as well, as the last once more, and not stored.
            for r in T.unroll(2):
                w_place[r] = T.cast(T.min(bn * _ROWS + r * _HALF + row, N - 1), "int64") * runs
            x_place = T.cast(T.min(bm * _COLUMNS + row, M - 1), "int64") * runs
            for step in T.serial(steps):
                run = first + step
                _load(X, W, S, Z, words, scale, zeros, x, w_place, x_place, run, lane, group)
                _accumulate(words, scale, zeros, x, a, zero, sums, totals)
            for i in T.unroll(4):
                parts[warp, lane * 2 + i % 2, i // 2 * _HALF + row] = totals[i]
            T.sync_threads()
            for turn in T.serial(T.ceildiv(_ROWS * _COLUMNS, threads)):
                place = turn * threads + thread
                m = bm * _COLUMNS + place // _ROWS
                n = bn * _ROWS + place % _ROWS
                if place < _ROWS * _COLUMNS and m < M and n < N:
                    total[0] = 0.0
                    for w in T.unroll(warps):
                        total[0] += parts[w, place // _ROWS, place % _ROWS]
                    D[m, n] = total[0]

    return Program(gemm_packed, GUARDED)
