"""How the rows of an operand that is grouped by expert are organised: `MGroupedLayout` in Python.

`layout_metadata`, int32, tells which rows belong to which of `E` experts:

* contiguous, `physical_psum`: `[E]`, the end of each expert's rows. An expert starts at the end of
  the one before, rounded up to a multiple of `alignment`; the first starts at row 0.
* contiguous, `per_row`: `[P]`, the expert of each row, never decreasing, `E` in the rows after the
  last expert. With `aligned` each expert's share is a multiple of `alignment`, padding included.
* masked: `[E]`, how many leading rows of each expert's slab are valid.

Rows of no expert are unspecified in results. The invariant of a layout is the signature's to check.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar


class ContiguousPacking(str, enum.Enum):
    """Whether each expert's rows follow those of the one before at once."""

    TIGHT = "tight"
    ALIGNED = "aligned"


class ContiguousMetadata(str, enum.Enum):
    """What the metadata of contiguous rows holds: the end of each expert, or each row's expert."""

    PHYSICAL_PSUM = "physical_psum"
    PER_ROW = "per_row"


@dataclass(frozen=True)
class ContiguousLayoutSpec:
    """All rows in one matrix `[P, C]`, expert after expert.

    Args:
        packing: tight, or aligned to `alignment` rows; its string will do.
        metadata_kind: what the metadata holds; its string will do.
        alignment: at which multiple of rows an expert starts; 1 exactly when packing is tight.
    """

    kind: ClassVar[str] = "contiguous"

    packing: ContiguousPacking
    metadata_kind: ContiguousMetadata
    alignment: int = 1

    def __post_init__(self) -> None:
        # One form of each value, so that equal layouts compare equal however they were written.
        object.__setattr__(self, "packing", ContiguousPacking(self.packing))
        object.__setattr__(self, "metadata_kind", ContiguousMetadata(self.metadata_kind))

    @classmethod
    def tight_physical_psum(cls) -> ContiguousLayoutSpec:
        """Experts without gaps, described by their ends."""
        return cls(ContiguousPacking.TIGHT, ContiguousMetadata.PHYSICAL_PSUM)

    @classmethod
    def tight_per_row(cls) -> ContiguousLayoutSpec:
        """Experts without gaps, described row by row."""
        return cls(ContiguousPacking.TIGHT, ContiguousMetadata.PER_ROW)

    @classmethod
    def aligned_physical_psum(cls, alignment: int) -> ContiguousLayoutSpec:
        """Experts that start at multiples of `alignment`, described by their ends."""
        return cls(ContiguousPacking.ALIGNED, ContiguousMetadata.PHYSICAL_PSUM, alignment)

    @classmethod
    def aligned_per_row(cls, alignment: int) -> ContiguousLayoutSpec:
        """Experts that start at multiples of `alignment`, described row by row."""
        return cls(ContiguousPacking.ALIGNED, ContiguousMetadata.PER_ROW, alignment)


@dataclass(frozen=True)
class MaskedLayoutSpec:
    """A slab of `max_m` rows for each expert, `[E, max_m, C]`, of which the leading ones are valid.

    Args:
        max_m: rows of a slab.
    """

    kind: ClassVar[str] = "masked"

    max_m: int


Layout = ContiguousLayoutSpec | MaskedLayoutSpec
