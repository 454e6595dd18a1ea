"""What a validation found, in the order of the document; renders nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tileops._core.spec.entries import nearest
from tileops._core.spec.model import Finding, Location, OpSpec

_CHECK = re.compile(r"\[V(\d+)\]")


@dataclass(frozen=True)
class Report:
    """Findings and where each belongs.

    Args:
        findings: every fault and remark, in the order of ops, then of fields in the document,
            then of check numbers.
        places: for each finding the place of its field, or of the nearest one around it.
    """

    findings: list[Finding]
    places: Mapping[Finding, Location] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """Whether there is no error; advisories alone do not count."""
        return all(found.level != "error" for found in self.findings)


def check_number(found: Finding) -> int:
    """The number of the check that a finding belongs to."""
    match = _CHECK.match(found.message)
    return int(match[1]) if match else 0


def in_document_order(spec: OpSpec, findings: Iterable[Finding]) -> dict[Finding, Location]:
    """The distinct findings about one spec with their places, ordered by place and check."""
    places = {
        found: nearest(spec.locations, found.field) for found in findings if found.op == spec.name
    }

    def order(found: Finding) -> tuple[int, int, int]:
        place = places[found]
        return place.line, place.column, check_number(found)

    return {found: places[found] for found in sorted(places, key=order)}
