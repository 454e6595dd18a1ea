"""Remarks on specs that are correct: checks 42 and 44; 43 comes with the signature's checks."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.dtypes import BITS
from tileops._core.signature.branches import Branches
from tileops._core.spec.model import Finding, OpSpec


def check_advisories(spec: OpSpec, branches: Branches, branch_limit: int) -> Iterator[Finding]:
    """Findings of level advisory."""
    if branches.count > branch_limit and not branches.are_too_many:
        message = f"{branches.count} branches, the limit is {branch_limit}; each of them is checked"
        yield _remark(spec, 42, "signature", message)
    for number, row in enumerate(spec.workloads):
        if row is None or row.label is None:
            continue
        path = f"workloads[{number}].label"
        if spec.name in row.label:
            yield _remark(spec, 44, path, f"{row.label!r} repeats the name of the op")
        elif row.label in BITS:
            yield _remark(spec, 44, path, f"{row.label!r} is the name of a dtype")


def _remark(spec: OpSpec, check: int, path: str, message: str) -> Finding:
    return Finding.of(spec.name, path, check, message, "advisory")
