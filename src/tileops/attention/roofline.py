"""Operation and byte counts of the attention family that depend on metadata or on what is visible.

A visible score costs `4 D + 5`: two contractions, and scale, maximum, subtraction, exponential and
sum; a soft cap costs 3 more; each element of the result costs a division. For gradients a visible
score costs five contractions, `10 D`, the six operations that form its weight again and five that
make its gradient; a soft cap costs 6 more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall


class _Reach(NamedTuple):
    """What the queries of requests see.

    Attributes:
        scores: visible pairs.
        keys: keys that some query sees.
        positions: positions that queries or seen keys stand at.
    """

    scores: int
    keys: int
    positions: int


def grouped_query_attention_dense(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of a batch; keys, values and rotary rows out of reach are not read."""
    index = call.indices
    reach, moved = _of_a_batch(call)
    return index["B"] * _flops(index, reach.scores, index["S_q"]), moved


def grouped_query_attention_dense_bwd(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of the gradients of a batch; what is out of reach is not read."""
    index = call.indices
    reach, moved = _of_a_batch(call)
    return index["B"] * index["H"] * reach.scores * _per_score_of_gradients(index), moved


def _of_a_batch(call: SignatureCall) -> tuple[_Reach, int]:
    """What each sequence of a batch reaches, and the bytes of the call."""
    index = call.indices
    columns = index["S_kv"]
    reach = _reached([(index["S_q"], columns)], *_window(index))
    return reach, _bytes(call, reach, columns, columns + index.get("P_pad", 0))


def grouped_query_attention_varlen(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of packed requests; what no query reaches is not read."""
    reach, moved = _of_requests(call)
    return _flops(call.indices, reach.scores, call.indices["T_q"]), moved


def grouped_query_attention_varlen_bwd(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of the gradients of packed requests; what no query reaches is not read."""
    reach, moved = _of_requests(call)
    return call.indices["H"] * reach.scores * _per_score_of_gradients(call.indices), moved


def _of_requests(call: SignatureCall) -> tuple[_Reach, int]:
    """What packed requests reach together, and the bytes of the call."""
    index = call.indices
    spans = zip(_lengths(call, "cu_seqlens_q"), _lengths(call, "cu_seqlens_kv"), strict=True)
    reach = _reached(spans, *_window(index))
    return reach, _bytes(call, reach, index["T_kv"], index.get("P", 0))


def _bytes(call: SignatureCall, reach: _Reach, keys: int, positions: int) -> int:
    """The bytes of a call, without keys, values and rotary rows that are out of reach."""
    read = {
        "k": (keys, reach.keys),
        "v": (keys, reach.keys),
        "rope_cos": (positions, reach.positions),
        "rope_sin": (positions, reach.positions),
    }
    unread = sum(
        call.bytes(name) * (extent - rows) // extent
        for name, (extent, rows) in read.items()
        if call.present(name) and extent > rows
    )
    return call.derived_bytes() - unread


def paged_prefill(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of appending and attending.

    Of the pages the rows that hold a prefix are read, once however many requests share them, and
    those of new tokens written. Scales count for float8 pages only.
    """
    index = call.indices
    lengths, cached = _lengths(call, "cu_seqlens_q"), call.metadata_values("cache_seqlens")
    spans = [(new, before + new) for new, before in zip(lengths, cached, strict=True)]
    reach = _reached(spans, -1, 0 if index["is_causal"] else -1)
    tables, size = call.metadata_values("block_table"), index["page_size"]
    prefix = {
        table[place // size] * size + place % size
        for table, new, before in zip(tables, lengths, cached, strict=True)
        for place in range(before if new else 0)
    }
    total = call.derived_bytes()
    for name in ("k_pages", "v_pages"):
        total -= 2 * call.bytes(name) - _row_bytes(call, name) * (len(prefix) + index["T_q"])
    if call.tensors["k_pages"][1] != "float8_e4m3fn":
        total -= call.bytes("k_scale") + call.bytes("v_scale")
    return _flops(index, reach.scores, index["T_q"]), total


def paged_prefill_writes(call: SignatureCall) -> int:
    """Bytes of the result and of the rows of the pages that are written."""
    rows = _row_bytes(call, "k_pages") + _row_bytes(call, "v_pages")
    written: int = call.bytes("o") + call.indices["T_q"] * rows
    return written


def _row_bytes(call: SignatureCall, name: str) -> int:
    """Bytes of one row of a tensor."""
    (rows, *_), _ = call.tensors[name]
    return call.bytes(name) // rows if rows else 0


def _flops(index: Mapping[str, Any], scores: int, rows: int) -> int:
    """Operations of attention with `scores` visible pairs and `rows` queries."""
    per_score = 4 * index["D"] + 5 + (3 if index["softcap"] else 0)
    flops: int = index["H"] * (scores * per_score + rows * index["D"])
    return flops


def _per_score_of_gradients(index: Mapping[str, Any]) -> int:
    """Operations of the gradients of a visible score."""
    per_score: int = 10 * index["D"] + 11 + (6 if index["softcap"] else 0)
    return per_score


def _window(index: Mapping[str, Any]) -> tuple[int, int]:
    """The sides of the window, negative where open."""
    right = 0 if index["is_causal"] else index["window_size_right"]
    return index["window_size_left"], right


def _lengths(call: SignatureCall, offsets: str) -> list[int]:
    """The length of each request."""
    return [stop - start for start, stop in pairwise(call.metadata_values(offsets))]


def _reached(spans: Iterable[tuple[int, int]], left: int, right: int) -> _Reach:
    """What the queries see of requests with so many queries and keys."""
    scores = keys = 0
    positions: set[int] = set()
    for rows, columns in spans:
        seen = [_visible(c, columns, left, right) for c in range(columns - rows, columns)]
        scores += sum(map(len, seen))
        reached = [part for part in seen if part]
        if reached:
            keys += reached[-1].stop - reached[0].start
            positions.update(range(reached[0].start, columns))
    return _Reach(scores, keys, len(positions))


def _visible(c: int, columns: int, left: int, right: int) -> range:
    """The keys, out of `columns`, that the query at position `c` sees."""
    start = max(0, c - left) if left >= 0 else 0
    stop = min(columns, c + right + 1) if right >= 0 else columns
    return range(start, stop)
