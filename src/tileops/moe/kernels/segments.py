"""Where each expert's rows lie, found without reading anything back to the host."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tileops.moe.types.layouts import ContiguousLayoutSpec, ContiguousMetadata


class Segments(NamedTuple):
    """The first row of each expert `[E]`, and the row after its last one, int64."""

    starts: Tensor
    ends: Tensor

    @property
    def counts(self) -> Tensor:
        """Rows of each expert."""
        return self.ends - self.starts


def segments(layout: ContiguousLayoutSpec, layout_metadata: Tensor, experts: int) -> Segments:
    """The rows of each expert.

    Args:
        layout: what the metadata means.
        layout_metadata: `[E]` or `[P]`, as `layout` says.
        experts: `E`.
    """
    if layout.metadata_kind is ContiguousMetadata.PER_ROW:
        places = _first_places(layout_metadata, experts)
        return Segments(places[:-1], places[1:])
    ends = layout_metadata.long()
    starts = torch.zeros_like(ends)
    starts[1:] = rounded_up(ends[:-1], layout.alignment)
    return Segments(starts, ends)


class Grouping(NamedTuple):
    """Routes in the order of their experts.

    Attributes:
        order: the routes, expert after expert, in their own order within one.
        slots: the row of each of these.
        segments: the rows of each expert.
    """

    order: Tensor
    slots: Tensor
    segments: Segments


def grouped(expert_of_route: Tensor, experts: int, alignment: int) -> Grouping:
    """Routes put into rows, so that each expert starts at a multiple of `alignment`.

    Args:
        expert_of_route: the expert of each route, 1-d.
        experts: number of experts.
        alignment: of which an expert's first row is a multiple.
    """
    owners, order = torch.sort(expert_of_route, stable=True)
    places = _first_places(owners, experts)
    counts = places.diff()
    last = rounded_up(counts, alignment).cumsum(0)
    starts = last - rounded_up(counts, alignment)
    route = torch.arange(order.numel(), device=order.device)
    return Grouping(
        order, route + (starts - places[:-1])[owners], Segments(starts, starts + counts)
    )


def _first_places(owners: Tensor, experts: int) -> Tensor:
    """Where each expert begins in a run of experts that never decrease, `[experts + 1]`."""
    ids = torch.arange(experts + 1, dtype=owners.dtype, device=owners.device)
    return torch.searchsorted(owners, ids)


def rounded_up(rows: Tensor, alignment: int) -> Tensor:
    """Each number as the next multiple of `alignment`."""
    return (rows + (alignment - 1)) // alignment * alignment
