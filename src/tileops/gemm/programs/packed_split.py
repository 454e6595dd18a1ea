"""The program of rows times a weight of 4-bit codes, decoded into Hopper's tensor cores.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T
from tilelang.layout import make_full_bank_swizzled_layout

from tileops._programs.program import GUARDED, Program
from tileops.gemm.programs.codes import DECODE, OVER, RUN, WORD
from tileops.gemm.programs.parts import add_parts, keep_part
from tileops.gemm.programs.ring import WARP, WARPGROUP, WARPS, Tiling, advance, releaser

_RUNS = 2  # of a step, so that a row of its codes fills 128 bytes
_STEP_WORDS = _RUNS * RUN // WORD

_TAKE_TILE = r"""
// A run of codes of a tile, 128 swizzled bytes a row, as the left operand of the products of a
// warpgroup: what a thread holds are neighbouring columns, each two of them in one word, of whose
// lowest codes `decode` makes numbers, for the upper and the lower row.
template <typename Decode>
static __device__ __forceinline__ void tileops_take_tile(void* to, const void* from, int run,
                                                         int thread, Decode decode) {
  int* registers = static_cast<int*>(to);
  #pragma unroll
  for (int below = 0; below < 2; ++below) {
    const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * below;
    #pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      const int place = (4 * run + quarter) ^ (row & 7);
      const int4 four = *reinterpret_cast<const int4*>(static_cast<const char*>(from) + 128 * row +
                                                       16 * place);
      const int words[4] = {four.x, four.y, four.z, four.w};
      #pragma unroll
      for (int word = 0; word < 4; ++word)
        registers[8 * quarter + 2 * word + below] = decode(words[word] >> 4 * (thread % 4), below);
    }
  }
}
"""

_SCALE_TILE = r"""
static __device__ __forceinline__ int tileops_twice(float half) {
  __half2 both = __float2half2_rn(half);
  return *reinterpret_cast<int*>(&both);
}
// What decoding takes off: 1024, whose last bits a code takes the place of, and a zero point.
static __device__ __forceinline__ int tileops_offset(unsigned char zero) {
  return tileops_twice(1024.0f + zero);
}
// Codes less their zero points times their scales.
static __device__ __forceinline__ void tileops_scale_tile(void* to, const void* from,
                                                          const int* offsets, const int* scales,
                                                          int run, int thread) {
  tileops_take_tile(to, from, run, thread, [=](int word, int below) {
    const int bits = (word & 0x000f000f) | 0x64006400;
    __half2 scaled = __hmul2(__hsub2(tileops_halves(bits), tileops_halves(offsets[below])),
                             tileops_halves(scales[below]));
    return *reinterpret_cast<int*>(&scaled);
  });
}
"""

_DECODE_TILE = r"""
static __device__ __forceinline__ void tileops_decode_tile(void* to, const void* from,
                                                           const int* zeros, int run, int thread) {
  tileops_take_tile(to, from, run, thread, [=](int word, int below) {
    return tileops_decode<0>(word, zeros[below]);
  });
}
"""


def _producer(tiling: Tiling):
    """Makes the macro by which one warp copies the steps of a part into the ring."""

    @T.macro
    def produce(X, W, Xs, Ws, full, empty, first, steps, top, left, slot: T.Ref, phase: T.Ref):
        for step in T.serial(steps):
            word = (first + step) * _STEP_WORDS
            T.barrier_wait(empty[slot], 1 - phase)
            T.tma_copy(
                W[top : top + tiling.rows, word : word + _STEP_WORDS],
                Ws[slot, :, :],
                barrier=full[slot],
            )
            for i in tuple(range(_RUNS)):
                column = ((first + step) * _RUNS + i) * RUN
                T.tma_copy(
                    X[left : left + tiling.columns, column : column + RUN],
                    Xs[slot * _RUNS + i, :, :],
                    barrier=full[slot],
                )
            if T.shuffle_elect(WARP):
                T.barrier_arrive(full[slot])
            advance(slot, phase, tiling.stages)

    return produce


def _codes_layout(rows: int):
    """Where the left operand of products lies in the registers of a warpgroup."""
    return T.Fragment(
        (rows, RUN),
        forward_thread_fn=lambda i, j: i // 16 * WARP + i % 8 * 4 + j % 8 // 2,
        forward_index_fn=lambda i, j: j // 8 * 4 + i % 16 // 8 * 2 + j % 2,
    )


def _scaling_consumer(tiling: Tiling, group: int):
    """As `_consumer`, of codes that are scaled before they are multiplied, and rounded for that.

    Sums need no second copy in registers, so that a tile may have more columns.
    """
    release = releaser(tiling)
    rows, columns = tiling.rows, tiling.columns

    @T.macro
    def fetch(S, Z, offsets, scales, row, N, groups, run):
        for i in T.unroll(2):
            place = T.min(row + 8 * i, N - 1)
            share = T.min(T.truncdiv(run, group // RUN), groups - 1)
            offsets[i] = T.call_extern("int32", "tileops_offset", Z[place, share])
            scales[i] = T.call_extern("int32", "tileops_twice", T.cast(S[place, share], "float32"))

    @T.macro
    def multiply(
        S, Z, Xs, Ws, acc, full, empty, first, steps, top, N, groups, thread,
        slot: T.Ref, phase: T.Ref,
    ):  # fmt: skip
        codes = T.alloc_fragment((rows, RUN), "float16")
        offsets = T.alloc_local((2,), "int32")
        scales = T.alloc_local((2,), "int32")
        T.annotate_layout({codes: _codes_layout(rows)})
        row = top + thread // WARP * 16 + thread % WARP // 4
        T.clear(acc)
        fetch(S, Z, offsets, scales, row, N, groups, first * _RUNS)
        for step in T.serial(steps):
            T.barrier_wait(full[slot], phase)
            for i in tuple(range(_RUNS)):
                T.call_extern(
                    "handle", "tileops_scale_tile", T.access_ptr(codes, "w"),
                    T.access_ptr(Ws[slot, 0, 0], "r", extent=rows * _STEP_WORDS),
                    offsets.data, scales.data, i, thread,
                )  # fmt: skip
                fetch(S, Z, offsets, scales, row, N, groups, (first + step) * _RUNS + i + 1)
                T.wgmma_gemm(
                    codes, Xs[slot * _RUNS + i, :, :], acc,
                    transpose_B=True, policy=T.GemmWarpPolicy.FullRow,
                )  # fmt: skip
                T.wait_wgmma(0)
                T.warpgroup_fence_operand(acc, num_regs=columns // 2)
            release(empty, slot, thread)
            advance(slot, phase, tiling.stages)

    return multiply


def _consumer(tiling: Tiling, group: int):
    """Makes the macro by which the warpgroups decode and multiply the steps of a part.

    Zero points are fetched a run ahead. What lies behind the last run is multiplied by zeros.
    """
    release = releaser(tiling)
    rows, columns = tiling.rows, tiling.columns

    @T.macro
    def fetch_zeros(Z, zeros, row, N, groups, run):
        for i in T.unroll(2):
            zeros[i] = T.call_extern(
                "int32", "tileops_zeros",
                Z[T.min(row + 8 * i, N - 1), T.min(T.truncdiv(run, group // RUN), groups - 1)],
            )  # fmt: skip

    @T.macro
    def multiply(
        S, Z, Xs, Ws, acc, full, empty, first, steps, top, N, groups, thread,
        slot: T.Ref, phase: T.Ref,
    ):  # fmt: skip
        codes = T.alloc_fragment((rows, RUN), "float16")
        part = T.alloc_fragment((rows, columns), "float32")
        scale = T.alloc_fragment((rows,), "float32")
        zeros = T.alloc_local((2,), "int32")
        T.annotate_layout({codes: _codes_layout(rows)})
        row = top + thread // WARP * 16 + thread % WARP // 4
        T.clear(acc)
        fetch_zeros(Z, zeros, row, N, groups, first * _RUNS)
        for step in T.serial(steps):
            T.barrier_wait(full[slot], phase)
            for i in tuple(range(_RUNS)):
                run = (first + step) * _RUNS + i
                for j in T.Parallel(rows):
                    scale[j] = S[
                        T.min(top + j, N - 1), T.min(T.truncdiv(run, group // RUN), groups - 1)
                    ]
                T.call_extern(
                    "handle", "tileops_decode_tile", T.access_ptr(codes, "w"),
                    T.access_ptr(Ws[slot, 0, 0], "r", extent=rows * _STEP_WORDS),
                    zeros.data, i, thread,
                )  # fmt: skip
                fetch_zeros(Z, zeros, row, N, groups, run + 1)
                T.wgmma_gemm(
                    codes, Xs[slot * _RUNS + i, :, :], part,
                    transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow,
                )  # fmt: skip
                T.wait_wgmma(0)
                T.warpgroup_fence_operand(part, num_regs=columns // 2)
                for j, m in T.Parallel(rows, columns):
                    acc[j, m] += part[j, m] * (scale[j] * OVER)
            release(empty, slot, thread)
            advance(slot, phase, tiling.stages)

    return multiply


def build_gemm_packed_split(
    *, group: int, rows: int, columns: int, stages: int, resident: int, scaled: bool = False
) -> Program:
    """`D = X W^T` with `W = (q - zero) * scale`: blocks multiply parts of K, then parts add up.

    Tensors: `X [M, K]` in float16; `W [N, K / 8]`, int32 of eight codes in the order of packed
    weights; `S [N, K / group]` in float16; `Z [N, K / group]` in uint8; `P [splits, M, N]` in
    float32, whose first extent is the number of parts; `D [M, N]` in float16; contiguous, 16-byte
    aligned, K a multiple of `group` with at least `splits` steps of 256, none 0.

    Rows of `W` take the place of rows in the tensor cores' products; those of `X` are the columns.

    Args:
        group: columns that share a scale and a zero point, a multiple of 128.
        rows: rows of `W` that a block multiplies, 64 for each warpgroup.
        columns: rows of `X` that it multiplies, a power of two from 8.
        stages: buffers of the ring between copying and multiplying.
        resident: blocks of a multiprocessor, which registers must suffice for.
        scaled: whether codes are scaled before they are multiplied, and rounded; else sums are.
    """
    tiling = Tiling(rows, columns, RUN * _RUNS, stages)
    produce = _producer(tiling)
    multiply = (_scaling_consumer if scaled else _consumer)(tiling, group)
    consumers = tiling.warpgroups * WARPGROUP
    M, N, groups, splits = (T.dynamic(name) for name in ("M", "N", "groups", "splits"))

    @T.macro
    def accumulate(X, W, S, Z, acc, bn, bm, part):
        """The products of one part, in the registers of the first warpgroups."""
        Xs = T.alloc_shared((stages * _RUNS, columns, RUN), "float16")
        Ws = T.alloc_shared((stages, rows, _STEP_WORDS), "int32")
        T.annotate_layout({Ws: make_full_bank_swizzled_layout(Ws)})
        full = T.alloc_barrier([1] * stages)
        empty = T.alloc_barrier([WARPS * tiling.warpgroups] * stages)
        thread = T.get_thread_binding()
        slot = T.alloc_var("int32", init=0)
        phase = T.alloc_var("int32", init=0)
        first = T.alloc_var("int32", init=0)
        steps = T.alloc_var("int32", init=0)
        whole = T.ceildiv(groups * (group // RUN), _RUNS)
        top, left = bn * rows, bm * columns
        first = T.truncdiv(part * whole, splits)
        steps = T.truncdiv((part + 1) * whole, splits) - first
        if thread >= consumers:
            produce(X, W, Xs, Ws, full, empty, first, steps, top, left, slot, phase)
        else:
            multiply(
                S, Z, Xs, Ws, acc, full, empty, first, steps, top, N, groups, thread, slot, phase
            )

    @T.prim_func
    def gemm_packed_split(
        X: T.Tensor((M, groups * group), "float16"),
        W: T.Tensor((N, groups * (group // WORD)), "int32"),
        S: T.Tensor((N, groups), "float16"),
        Z: T.Tensor((N, groups), "uint8"),
        P: T.Tensor((splits, M, N), "float32"),
        D: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(
            T.ceildiv(N, rows), T.ceildiv(M, columns), splits, threads=consumers + WARP,
            prelude=DECODE + _TAKE_TILE + (_SCALE_TILE if scaled else _DECODE_TILE),
        ) as (bn, bm, part):  # fmt: skip
            T.annotate_min_blocks_per_sm(resident)
            acc = T.alloc_fragment((rows, columns), "float32")
            T.pdl_trigger()
            accumulate(X, W, S, Z, acc, bn, bm, part)
            if T.get_thread_binding() < consumers:
                keep_part(acc, P, part, bn * rows, bm * columns, rows, columns, M, N)
        add_parts(P, D, splits, M, N)

    return Program(gemm_packed_split, {**GUARDED, "tl.disable_thread_storage_sync": True})
