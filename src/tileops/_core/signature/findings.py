"""Complaints of single checks, and the findings they become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tileops._core.signature.guards import Space
from tileops._core.spec.model import Finding, Location, OpSpec


class Complaint(NamedTuple):
    """What one check has against one field."""

    path: str
    check: int
    message: str
    level: Literal["error", "advisory"] = "error"


def witnessed(space: Space, found: Iterable[tuple[int, Complaint]]) -> Iterator[Complaint]:
    """Each complaint once, ended by a witness when it does not hold on all branches of a space.

    Args:
        space: the branches judged.
        found: complaints, each with the place of a branch on which it holds.
    """
    where: dict[Complaint, int] = {}
    for bit, complaint in found:
        where[complaint] = where.get(complaint, 0) | 1 << bit
    for complaint, branches in where.items():
        yield complaint._replace(message=complaint.message + space.witness(branches))


def findings(spec: OpSpec, complaints: Iterable[Complaint]) -> tuple[Finding, ...]:
    """Findings in the order of the document, then of the checks; equal ones once."""
    ordered = sorted(
        dict.fromkeys(complaints), key=lambda c: (_place(spec, c.path), c.check, c.path)
    )
    return tuple(Finding.of(spec.name, c.path, c.check, c.message, c.level) for c in ordered)


def _place(spec: OpSpec, path: str) -> tuple[int, int]:
    """Where a field, or the nearest field around it, stands."""
    while path:
        location: Location | None = spec.locations.get(path)
        if location is not None:
            return location.line, location.column
        path = re.sub(r"(\.[^.\[]*|\[\d+\]|^[^.\[]*)$", "", path)
    return spec.location.line, spec.location.column


def is_unknown(spec: OpSpec, path: str) -> bool:
    """Whether a field, or one around it, could not be read."""
    return any(
        path == unknown or path.startswith((f"{unknown}.", f"{unknown}["))
        for unknown in spec.unknown
    )
