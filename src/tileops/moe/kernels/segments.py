"""Where each expert's rows lie, found from the metadata of a layout without reading it back."""

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
        ids = torch.arange(experts + 1, dtype=layout_metadata.dtype, device=layout_metadata.device)
        places = torch.searchsorted(layout_metadata, ids)
        return Segments(places[:-1], places[1:])
    ends = layout_metadata.long()
    starts = torch.zeros_like(ends)
    starts[1:] = rounded_up(ends[:-1], layout.alignment)
    return Segments(starts, ends)


def rounded_up(rows: Tensor, alignment: int) -> Tensor:
    """Each number as the next multiple of `alignment`."""
    return (rows + (alignment - 1)) // alignment * alignment
