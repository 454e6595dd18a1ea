"""Operation and byte counts of the attention family that depend on metadata contents.

A visible score costs `4 D + 5`: two contractions, and scale, maximum, subtraction, exponential and
sum; a soft cap costs 3 more; each element of the result costs a division.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall


def grouped_query_attention_varlen(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of packed requests.

    Keys, values and rotary rows that no query reaches are not read.
    """
    index = call.indices
    left = index["window_size_left"]
    right = 0 if index["is_causal"] else index["window_size_right"]
    scores = keys_read = 0
    positions: set[int] = set()
    lengths = zip(_lengths(call, "cu_seqlens_q"), _lengths(call, "cu_seqlens_kv"), strict=True)
    for rows, columns in lengths:
        seen = [_visible(c, columns, left, right) for c in range(columns - rows, columns)]
        scores += sum(map(len, seen))
        reached = [keys for keys in seen if keys]
        if reached:
            keys_read += reached[-1].stop - reached[0].start
            positions.update(range(reached[0].start, columns))
    per_score = 4 * index["D"] + 5 + (3 if index["softcap"] else 0)
    flops = index["H"] * (scores * per_score + index["T_q"] * index["D"])
    read = {"k": keys_read, "v": keys_read, "rope_cos": len(positions), "rope_sin": len(positions)}
    return flops, call.derived_bytes() - sum(_excess(call, name, n) for name, n in read.items())


def _lengths(call: SignatureCall, offsets: str) -> list[int]:
    """The length of each request."""
    return [stop - start for start, stop in pairwise(call.metadata_values(offsets))]


def _visible(c: int, columns: int, left: int, right: int) -> range:
    """The keys, out of `columns`, that the query at position `c` sees."""
    start = max(0, c - left) if left >= 0 else 0
    stop = min(columns, c + right + 1) if right >= 0 else columns
    return range(start, stop)


def _excess(call: SignatureCall, name: str, rows: int) -> int:
    """Bytes of a tensor beyond `rows` of its rows; 0 when it is absent."""
    if not call.present(name):
        return 0
    (extent, *_), _ = call.tensors[name]
    return call.bytes(name) * (extent - rows) // extent if extent > rows else 0
