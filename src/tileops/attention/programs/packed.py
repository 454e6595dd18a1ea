"""TileLang programs of attention by packed requests: over keys in a row, and over pages.

Requests, tokens and pages are run-time values; heads, mask, tile and page are compiled in. There
are as many blocks as tiles at most, and a block finds its request itself: lengths stay on the
device.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import Program
from tileops.attention.programs.prefill import SETTINGS, Mask, Source, Tiling
from tileops.attention.programs.prefill_block import block_of
from tileops.attention.programs.softmax import WARP, WARPGROUP, Heads


def _search(rows: int):
    """Makes the macro that finds the request of a query tile, a warp's width of them at a time.

    It ends with the request, -1 behind the last tile, and with the tile's number in the request.
    """

    @T.macro
    def search(Starts, requests, request: T.Ref, rest: T.Ref):
        lane = T.get_thread_binding() % WARP
        before = T.alloc_var("int32", init=0)
        other = T.alloc_var("int32", init=0)
        place = T.alloc_var("int32", init=0)
        for c in T.serial(T.ceildiv(requests, WARP)):
            if request < 0:
                place = T.min(c * WARP + lane, requests)
                before = T.ceildiv(Starts[T.min(place + 1, requests)] - Starts[place], rows)
                for shift in (1, 2, 4, 8, 16):  # tiles of the requests up to a lane's
                    other = T.shfl_up(before, shift)
                    before = before + T.if_then_else(lane >= shift, other, 0)
                place = T.warp_reduce_sum(T.if_then_else(before <= rest, 1, 0))
                rest = rest - T.warp_reduce_max(T.if_then_else(before <= rest, before, 0))
                if place < WARP:
                    request = c * WARP + place

    return search


@T.macro
def _stay(turn, where, walk, section, total, bx: T.Ref, head: T.Ref):
    """A block has one tile, found before."""
    bx = bx  # noqa: PLW0127
    head = head  # noqa: PLW0127


def _attend(heads: Heads, tiling: Tiling, mask: Mask, source: Source):
    """Makes the macro by which a block attends to the keys of its tile's request."""
    H = heads.count
    search = _search(tiling.rows)
    run = block_of(heads, tiling, mask, source, _stay)

    @T.macro
    def attend(Q, K, V, Starts, KeyStarts, table, Turns, Out, requests, place, tiles):
        request = T.alloc_var("int32", init=-1)
        bx = T.alloc_var("int32", init=0)
        head = T.alloc_var("int32", init=0)
        q_row = T.alloc_var("int32", init=0)
        k_row = T.alloc_var("int32", init=0)
        queries = T.alloc_var("int32", init=0)
        keys = T.alloc_var("int32", init=0)
        turns = T.alloc_var("int32", init=0)
        bx = tiles - 1 - place // H  # the last tiles of requests are the longest
        search(Starts, requests, request, bx)
        if request >= 0:
            turns = 1
            head = request * H + place % H
            q_row = Starts[request]
            queries = Starts[request + 1] - q_row
            if source.page:
                keys = KeyStarts[request] + queries
            else:
                k_row = KeyStarts[request]
                keys = KeyStarts[request + 1] - k_row
        run(
            Q, K, V, table, Turns, Out, turns, 0, 0, 0, 0, q_row, k_row, queries, keys, bx, head
        )  # fmt: skip

    return attend


def build_attention_packed(heads: Heads, *, mask: Mask, tiling: Tiling) -> Program:
    """Attention of packed requests, each over its own keys in a row.

    Tensors: `Q [T_q, H, D]`, `K` and `V [T_kv, H_kv, D]`, `Starts` and `KeyStarts [B + 1]` int32,
    `Out [T_q, H, D]`; contiguous, 16-byte aligned, none empty.

    Args:
        heads: what attends.
        mask: what is seen.
        tiling: how it is cut up.
    """
    D, H, HK, dtype = heads.size, heads.count, heads.kv_count, heads.dtype
    attend = _attend(heads, tiling, mask, Source(is_packed=True))
    tokens, keys, ends = T.dynamic("tokens"), T.dynamic("keys"), T.dynamic("ends")

    @T.prim_func
    def attention(
        Q: T.Tensor((tokens, H, D), dtype),
        K: T.Tensor((keys, HK, D), dtype),
        V: T.Tensor((keys, HK, D), dtype),
        Starts: T.Tensor((ends,), "int32"),
        KeyStarts: T.Tensor((ends,), "int32"),
        Out: T.Tensor((tokens, H, D), dtype),
    ):
        tiles = T.ceildiv(tokens, tiling.rows) + ends - 2
        with T.Kernel(tiles * H, threads=tiling.threads + WARPGROUP) as block:
            attend(Q, K, V, Starts, KeyStarts, None, None, Out, ends - 1, block, tiles)

    return Program(attention, SETTINGS)


def build_attention_paged(heads: Heads, *, mask: Mask, tiling: Tiling, source: Source) -> Program:
    """Attention of packed requests over the pages that hold their keys, the newest last.

    Tensors: `Q [T, H or more, D]`, `K` and `V [rows of all pages, H_kv, D]`, `Starts [B + 1]`,
    `Cached [B]` and `Table [B, W]` int32 as the interface of paged attention tells them, `Turns`
    int64 as the rotation, one element where there is none, `Out [T, H, D]`; contiguous, 16-byte
    aligned, none empty. A request sees its cached keys and those of its queries.

    Args:
        heads: what attends.
        mask: what is seen.
        tiling: how it is cut up.
        source: the pages.
    """
    D, H, HK, dtype = heads.size, heads.count, heads.kv_count, heads.dtype
    attend = _attend(heads, tiling, mask, source)
    pairs = source.rotation.width // 2 if source.rotation is not None else 1
    B, tokens, ends = T.dynamic("B"), T.dynamic("tokens"), T.dynamic("ends")
    pitch, rows, width = T.dynamic("pitch"), T.dynamic("rows"), T.dynamic("width")

    @T.prim_func
    def attention(
        Q: T.Tensor((tokens, pitch, D), dtype),
        K: T.Tensor((rows, HK, D), dtype),
        V: T.Tensor((rows, HK, D), dtype),
        Starts: T.Tensor((ends,), "int32"),
        Cached: T.Tensor((B,), "int32"),
        Table: T.Tensor((B, width), "int32"),
        Turns: T.Tensor((pairs,), "int64"),
        Out: T.Tensor((tokens, H, D), dtype),
    ):
        tiles = T.ceildiv(tokens, tiling.rows) + B - 1
        with T.Kernel(tiles * H, threads=tiling.threads + WARPGROUP) as block:
            attend(Q, K, V, Starts, Cached, Table, Turns, Out, B, block, tiles)

    return Program(attention, SETTINGS)
