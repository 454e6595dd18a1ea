"""The program that turns rows into float8 codes, each by a scale of its own.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import row_loader, row_reduction
from tileops._programs.vectors import F32, as_float, store_vector

CODE = "float8_e4m3fn"
_MAGNITUDE = 0x7FFFFFFF  # of a float32: all but its sign


def build_fp8_quant(
    dtype: str, width: int, *, vector: int, lanes: int, rows: int, smallest: float, largest: float
) -> Program:
    """`S = max(amax, smallest) / largest` of each row, and the codes `Q` of `X / S`.

    Tensors: `X [M, width]`, `S [M]` in float32, `Q [M, width]` of codes; contiguous, 16-byte
    aligned, M not 0. NaN in a row makes its scale and all its codes NaN.

    Magnitudes are compared as integers, which order like them and put NaN above infinity.

    Args:
        dtype: element type of the rows.
        width: elements of a row.
        vector: elements of one access; divides the width.
        lanes: threads that share a row, a power of two within one warp.
        rows: rows of a block.
        smallest: what the largest magnitude of a row counts as at least.
        largest: the largest magnitude of a code.
    """
    vectors = width // vector
    turns = -(-vectors // lanes)
    load_row = row_loader(vectors, lanes, vector)
    join = row_reduction(lanes, rows, lambda mine, other: (T.max(mine[0], other[0]),))
    M = T.dynamic("M")

    @T.macro
    def find_scale(x, scale, lane, thread):
        peak = T.alloc_local((1,), "int32")
        peak[0] = T.reinterpret(T.float32(smallest), "int32")
        for k in T.unroll(turns):
            if k * lanes + lane < vectors:
                for v in T.unroll(vector):
                    bits = T.reinterpret(as_float(x[k * vector + v]), "int32") & _MAGNITUDE
                    peak[0] = T.max(peak[0], bits)
        join((peak,), (peak,), thread)  # within a warp: nothing is shared
        scale[0] = T.reinterpret(peak[0], F32) / T.float32(largest)

    @T.macro
    def store(x, q, scale, Q, row, lane):
        for k in T.unroll(turns):
            if k * lanes + lane < vectors:
                for v in T.unroll(vector):  # no quotient is beyond the largest code
                    q[v] = T.cast(as_float(x[k * vector + v]) / scale[0], CODE)
                store_vector(Q[row, (k * lanes + lane) * vector], q, vector, CODE)

    @T.prim_func
    def fp8_quant(
        X: T.Tensor((M, width), dtype), S: T.Tensor((M,), F32), Q: T.Tensor((M, width), CODE)
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=rows * lanes) as block:
            thread = T.get_thread_binding()
            lane = thread % lanes
            x = T.alloc_local((turns * vector,), dtype)
            q = T.alloc_local((vector,), CODE)
            scale = T.alloc_local((1,), F32)
            row = T.min(block * rows + thread // lanes, M - 1)
            load_row(x, X, row, lane)
            find_scale(x, scale, lane, thread)
            if block * rows + thread // lanes < M:
                if lane == 0:
                    S[row] = scale[0]
                store(x, q, scale, Q, row, lane)

    return Program(fp8_quant, GUARDED)
