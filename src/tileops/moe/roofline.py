"""Operation and byte counts of the moe family that depend on which expert gets which rows.

A gated element costs 6 beside the products. A weight that no row meets is not read, and a row of
no expert is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall

_GATED = 6
"""Operations of an activation and the product with its value."""


def moe_grouped_gemm(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of one product for each expert."""
    index = call.indices
    counts = _expert_rows(call)
    rows, n = sum(counts), index["N"]
    gated = index["activation"] is not None
    flops = rows * (2 * index["K"] * (2 * n if gated else n) + (_GATED * n if gated else 0))
    return flops, _reached_bytes(call, counts, rows=("a", "output"), weights=("b",))


def moe_expert_mlp(call: SignatureCall) -> tuple[int, int]:
    """FLOPs and bytes of the gated layer of each expert."""
    index = call.indices
    counts = _expert_rows(call)
    flops = sum(counts) * _mlp_flops(index["H"], index["F"])
    rows, weights = ("expert_input", "output"), ("w_gate_up", "w_down")
    return flops, _reached_bytes(call, counts, rows=rows, weights=weights)


def rows_written(call: SignatureCall, output: str) -> int:
    """Bytes of those rows of a grouped output that belong to some expert."""
    return _share(call, output, sum(_expert_rows(call)), _rows(call, output))


def _mlp_flops(hidden: int, width: int) -> int:
    """Operations of a gated layer for one row."""
    return 6 * hidden * width + _GATED * width


def _expert_rows(call: SignatureCall) -> list[int]:
    """The number of rows of each expert."""
    layout, contents = call.indices["layout"], call.metadata_values("layout_metadata")
    if layout.kind == "masked":
        return contents
    experts = call.indices["E"]
    if layout.metadata_kind == "per_row":
        counts = {expert: len(list(run)) for expert, run in groupby(contents)}
        return [counts.get(expert, 0) for expert in range(experts)]
    return list(_between_ends(contents, layout.alignment))


def _between_ends(ends: Iterable[int], alignment: int) -> Iterator[int]:
    """Rows of experts that end there and start at multiples of the alignment."""
    start = 0
    for end in ends:
        yield end - start
        start = -(-end // alignment) * alignment


def _reached_bytes(
    call: SignatureCall, counts: list[int], *, rows: Iterable[str], weights: Iterable[str]
) -> int:
    """All bytes less the rows of no expert and the weights of experts without rows."""
    idle = sum(count == 0 for count in counts)
    unread = sum(_share(call, name, idle, len(counts)) for name in weights)
    for name in rows:
        extent = _rows(call, name)
        unread += _share(call, name, extent - sum(counts), extent)
    return call.derived_bytes() - unread


def _rows(call: SignatureCall, name: str) -> int:
    """The rows of a grouped operand, those of all slabs together."""
    shape, _ = call.tensors[name]
    return prod(shape[:-1])


def _share(call: SignatureCall, name: str, part: int, whole: int) -> int:
    """Bytes of `part` of `whole` equal parts of a tensor."""
    return call.bytes(name) * part // whole if whole else 0
