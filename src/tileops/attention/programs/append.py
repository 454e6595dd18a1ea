"""TileLang program that puts new keys and values into pages, and turns queries and keys.

Requests, tokens and pages are run-time values; heads, page, rotation and dtype are compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from math import pi

import tilelang.language as T

from tileops._programs.program import FAST, Program

_THREADS = 128


@dataclass(frozen=True)
class Rows:
    """What is put where.

    Args:
        heads: query heads.
        kv_heads: key and value heads.
        size: channels of a head.
        dtype: element type of everything.
        page: rows of a page.
        rotary: leading channels that are turned, in halves; 0 for none.
        last_position: the position as which later ones turn.
    """

    heads: int
    kv_heads: int
    size: int
    dtype: str
    page: int
    rotary: int = 0
    last_position: int = 0


def _store(rows: Rows):
    """Makes the macro by which a block stores one token's keys and values."""
    HK, D, half = rows.kv_heads, rows.size, rows.rotary // 2

    @T.macro
    def tables(Turns, cos, sin, position):
        """Cosines and sines; whole turns overflow out of the product and are gone, exactly."""
        for i in T.Parallel(half):
            angle = T.cast(
                T.reinterpret(
                    T.cast(
                        T.shift_right(
                            T.cast(T.min(position, rows.last_position), "uint64")
                            * T.reinterpret(Turns[i], "uint64"),
                            T.uint64(32),
                        ),
                        "uint32",
                    ),
                    "int32",
                ),
                "float32",
            ) * (2 * pi / 2**32)
            cos[i] = T.cos(angle)
            sin[i] = T.sin(angle)

    @T.macro
    def turn(source, place, target, row, count, cos, sin):
        for h, i in T.Parallel(count, half):
            target[row, h, i] = T.cast(
                T.cast(source[place, h, i], "float32") * cos[i]
                - T.cast(source[place, h, i + half], "float32") * sin[i],
                rows.dtype,
            )
            target[row, h, i + half] = T.cast(
                T.cast(source[place, h, i + half], "float32") * cos[i]
                + T.cast(source[place, h, i], "float32") * sin[i],
                rows.dtype,
            )
        if 2 * half < D:
            for h, i in T.Parallel(count, D - 2 * half):
                target[row, h, i + 2 * half] = source[place, h, i + 2 * half]

    @T.macro
    def copy(source, place, target, row):
        for h, i in T.Parallel(HK, D):
            target[row, h, i] = source[place, h, i]

    return tables, turn, copy


def build_append(rows: Rows) -> Program:
    """New keys and values into the pages of their requests.

    Tensors: `NewK` and `NewV [T, H_kv, D]`, `K` and `V [rows of all pages, H_kv, D]`,
    `Starts [B + 1]`, `Cached [B]` and `Table [B, W]` int32 as the interface of paged attention
    tells them, and an upper bound of a request's tokens. Where something is turned, also `Q` and
    its result `Turned [T, H, D]`, before the bound, and `Turns [rotary / 2]` int64: what a pair of
    channels turns at each position, in units of 2 ** -64 turns. Contiguous, none empty.
    """
    H, HK, D, dtype, page = rows.heads, rows.kv_heads, rows.size, rows.dtype, rows.page
    half = rows.rotary // 2
    tables, turn, copy = _store(rows)
    B, tokens, ends = T.dynamic("B"), T.dynamic("tokens"), T.dynamic("ends")
    count, width = T.dynamic("count"), T.dynamic("width")

    if rows.rotary:

        @T.prim_func
        def append_turned(
            NewK: T.Tensor((tokens, HK, D), dtype),
            NewV: T.Tensor((tokens, HK, D), dtype),
            K: T.Tensor((count, HK, D), dtype),
            V: T.Tensor((count, HK, D), dtype),
            Starts: T.Tensor((ends,), "int32"),
            Cached: T.Tensor((B,), "int32"),
            Table: T.Tensor((B, width), "int32"),
            Q: T.Tensor((tokens, H, D), dtype),
            Turned: T.Tensor((tokens, H, D), dtype),
            Turns: T.Tensor((half,), "int64"),
            longest: T.int32,
        ):
            with T.Kernel(B * longest, threads=_THREADS) as block:
                cos = T.alloc_shared((half,), "float32")
                sin = T.alloc_shared((half,), "float32")
                b = T.alloc_var("int32", init=0)
                token = T.alloc_var("int32", init=0)
                position = T.alloc_var("int32", init=0)
                row = T.alloc_var("int64", init=0)
                b = T.truncdiv(block, longest)
                token = Starts[b] + block - b * longest
                for _ in T.serial(T.if_then_else(token < Starts[b + 1], 1, 0)):
                    position = Cached[b] + token - Starts[b]
                    row = T.cast(Table[b, position // page], "int64") * page + position % page
                    tables(Turns, cos, sin, position)
                    turn(Q, token, Turned, token, H, cos, sin)
                    turn(NewK, token, K, row, HK, cos, sin)
                    copy(NewV, token, V, row)

        return Program(append_turned, FAST)

    @T.prim_func
    def append(
        NewK: T.Tensor((tokens, HK, D), dtype),
        NewV: T.Tensor((tokens, HK, D), dtype),
        K: T.Tensor((count, HK, D), dtype),
        V: T.Tensor((count, HK, D), dtype),
        Starts: T.Tensor((ends,), "int32"),
        Cached: T.Tensor((B,), "int32"),
        Table: T.Tensor((B, width), "int32"),
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
                copy(NewK, token, K, row)
                copy(NewV, token, V, row)

    return Program(append, FAST)


def turns(rotary: int, base: float) -> list[int]:
    """What each pair of channels turns at a position, as `Turns` holds it."""
    per_position = [base ** (-2 * i / rotary) / (2 * pi) for i in range(rotary // 2)]
    units = [int(turn % 1.0 * 2.0**64) for turn in per_position]
    return [unit - (1 << 64) if unit >= 1 << 63 else unit for unit in units]
