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

    Tensors: `NewK` and `NewV [T, H_kv, D]`, `K` and `V [rows of all pages, H_kv, D]`,
    `Starts [B + 1]`, `Cached [B]` and `Table [B, W]` int32 as the interface of paged attention
    tells them, `Turns` int64 as the rotation, one element where there is none, and an upper bound
    of a request's tokens; contiguous, none empty.

    Args:
        heads: key and value heads, H_kv.
        size: channels of a head, D.
        dtype: element type.
        page: rows of a page.
        rotation: what turns the keys, or None.
    """
    half = rotation.width // 2 if rotation else 0
    tabulate = tables(rotation)
    B, tokens, ends = T.dynamic("B"), T.dynamic("tokens"), T.dynamic("ends")
    count, width = T.dynamic("count"), T.dynamic("width")

    @T.macro
    def turn(source, token, target, row, Turns, position):
        cos = T.alloc_shared((half,), "float32")
        sin = T.alloc_shared((half,), "float32")
        tabulate(Turns, cos, sin, position)
        for h, i in T.Parallel(heads, half):
            target[row, h, i] = source[token, h, i] * cos[i] - source[token, h, i + half] * sin[i]
            target[row, h, i + half] = (
                source[token, h, i + half] * cos[i] + source[token, h, i] * sin[i]
            )

    @T.macro
    def copy(source, token, target, row, first):
        for h, i in T.Parallel(heads, size - first):
            target[row, h, first + i] = source[token, h, first + i]

    @T.prim_func
    def append(
        NewK: T.Tensor((tokens, heads, size), dtype),
        NewV: T.Tensor((tokens, heads, size), dtype),
        K: T.Tensor((count, heads, size), dtype),
        V: T.Tensor((count, heads, size), dtype),
        Starts: T.Tensor((ends,), "int32"),
        Cached: T.Tensor((B,), "int32"),
        Table: T.Tensor((B, width), "int32"),
        Turns: T.Tensor((max(half, 1),), "int64"),
        longest: T.int32,
    ):
        with T.Kernel(B * longest, threads=_THREADS) as block:
            b = T.alloc_var("int32", init=0)
            token = T.alloc_var("int32", init=0)
            position = T.alloc_var("int32", init=0)
            row = T.alloc_var("int64", init=0)
            b = T.truncdiv(block, longest)
            token = Starts[b] + block - b * longest
            for _ in T.serial(T.if_then_else(token < Starts[b + 1], 1, 0)):
                position = Cached[b] + token - Starts[b]
                row = T.cast(Table[b, position // page], "int64") * page + position % page
                if rotation is not None:
                    turn(NewK, token, K, row, Turns, position)
                if 2 * half < size:
                    copy(NewK, token, K, row, 2 * half)
                copy(NewV, token, V, row, 0)

    return Program(append, FAST)
