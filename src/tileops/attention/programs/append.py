"""TileLang program that puts new keys and values into pages.

Requests, tokens and pages are run-time values; heads, page, rotation and dtype are compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import FAST, Program
from tileops.attention.programs.rotation import Rotation, tables

_THREADS = 128


def build_append(
    heads: int, size: int, dtype: str, *, page: int, rotation: Rotation | None
) -> Program:
    """New keys, turned, and new values into the pages of their requests.

    Tensors: `NewK` and `NewV`, runs of memory that hold `[T, H_kv, D]` with gaps between rows, `K`
    and `V [rows of all pages, H_kv, D]`, `Starts [B + 1]`, `Cached [B]` and `Table [B, W]` int32 as
    the interface of paged attention tells them, `Turns` int64 as the rotation, one element where
    there is none; contiguous, 16-byte aligned, none empty. Then an upper bound of a request's
    tokens, and how far the rows of `NewK` and `NewV` are apart, in units of 8 elements.

    Args:
        heads: key and value heads, H_kv.
        size: channels of a head, D.
        dtype: element type.
        page: rows of a page.
        rotation: what turns the keys, or None.
    """
    half = rotation.width // 2 if rotation else 0
    tabulate = tables(rotation)
    B, ends = T.dynamic("B"), T.dynamic("ends")
    k_length, v_length = T.dynamic("k_length"), T.dynamic("v_length")
    count, width = T.dynamic("count"), T.dynamic("width")

    @T.macro
    def turn(source, first, target, row, Turns, position):
        cos = T.alloc_shared((half,), "float32")
        sin = T.alloc_shared((half,), "float32")
        tabulate(Turns, cos, sin, position)
        for h, i in T.Parallel(heads, half):
            target[row, h, i] = (
                source[first + h * size + i] * cos[i] - source[first + h * size + i + half] * sin[i]
            )
            target[row, h, i + half] = (
                source[first + h * size + i + half] * cos[i] + source[first + h * size + i] * sin[i]
            )

    @T.macro
    def copy(source, first, target, row, begin):
        for h, i in T.Parallel(heads, size - begin):
            target[row, h, begin + i] = source[first + h * size + begin + i]

    @T.prim_func
    def append(
        NewK: T.Tensor((k_length,), dtype),
        NewV: T.Tensor((v_length,), dtype),
        K: T.Tensor((count, heads, size), dtype),
        V: T.Tensor((count, heads, size), dtype),
        Starts: T.Tensor((ends,), "int32"),
        Cached: T.Tensor((B,), "int32"),
        Table: T.Tensor((B, width), "int32"),
        Turns: T.Tensor((max(half, 1),), "int64"),
        longest: T.int32,
        k_pitch: T.int32,
        v_pitch: T.int32,
    ):
        with T.Kernel(B * longest, threads=_THREADS) as block:
            b = T.alloc_var("int32", init=0)
            token = T.alloc_var("int32", init=0)
            position = T.alloc_var("int32", init=0)
            row = T.alloc_var("int64", init=0)
            k_first = T.alloc_var("int64", init=0)
            v_first = T.alloc_var("int64", init=0)
            b = T.truncdiv(block, longest)
            token = Starts[b] + block - b * longest
            for _ in T.serial(T.if_then_else(token < Starts[b + 1], 1, 0)):
                position = Cached[b] + token - Starts[b]
                row = T.cast(Table[b, position // page], "int64") * page + position % page
                k_first = T.cast(token, "int64") * k_pitch
                v_first = T.cast(token, "int64") * v_pitch
                if rotation is not None:
                    turn(NewK, k_first * 8, K, row, Turns, position)
                if 2 * half < size:
                    copy(NewK, k_first * 8, K, row, 2 * half)
                copy(NewV, v_first * 8, V, row, 0)

    return Program(append, FAST)
