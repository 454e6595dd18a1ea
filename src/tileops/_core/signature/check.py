"""The static checks of a signature: every fault that can be found without a workload row."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.nodes import Name, Present
from tileops._core.lang.walk import walk
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.branch_checks import branch_complaints
from tileops._core.signature.branches import MOST_BRANCHES
from tileops._core.signature.choice_checks import choice_complaints
from tileops._core.signature.effect_checks import effect_complaints
from tileops._core.signature.family_checks import family_complaints
from tileops._core.signature.findings import Complaint, findings, is_unknown
from tileops._core.signature.kind_checks import kind_complaints
from tileops._core.signature.metadata_checks import metadata_complaints
from tileops._core.signature.sites import Role
from tileops._core.signature.symint_checks import symint_complaints
from tileops._core.spec.model import Finding, OpSpec, TypeFamily

FIRST_PER_BRANCH = 26
"""The number of the first check that judges branch by branch."""


def check_spec(spec: OpSpec) -> tuple[Finding, ...]:
    """Judge a signature and its inline formulas.

    Args:
        spec: a spec as read; what its own `faults` say is not repeated.

    Returns:
        Errors and remarks in the order of the document.
    """
    return findings(spec, complaints(Analysis(spec)))


def complaints(analysis: Analysis) -> Iterator[Complaint]:
    """All that the checks have to say about a spec, in no order.

    A field that means nothing by itself is not judged branch by branch, and nothing at all of a
    spec with too many branches.
    """
    branches = analysis.branches
    if branches.are_too_many:
        message = (
            f"{branches.related_count} branches, more than the {MOST_BRANCHES} that are checked"
        )
        yield Complaint("signature", 42, message)
        return
    found = [*kind_complaints(analysis), *family_complaints(analysis), *_let_cycles(analysis)]
    faulty = {each.path for each in found if each.check < FIRST_PER_BRANCH}
    found += [
        *choice_complaints(analysis, faulty),
        *branch_complaints(analysis, faulty),
        *effect_complaints(analysis),
        *metadata_complaints(analysis),
        *symint_complaints(analysis),
    ]
    yield from (each for each in found if each.check < FIRST_PER_BRANCH or each.path not in faulty)
    yield from _unread(analysis)


def _let_cycles(analysis: Analysis) -> Iterator[Complaint]:
    for cycle in analysis.facts.references.cycles("value"):
        path = f"signature.let.{cycle[0]}"
        yield Complaint(path, 20, f"cycle {', '.join(cycle)}")


def _unread(analysis: Analysis) -> Iterator[Complaint]:
    """Indices and formals that nothing reads."""
    signature = analysis.facts.signature
    if not any(site.node is None for site in analysis.sites):
        read = _names(analysis, None)
        for name in signature.forall:
            if name not in read and not is_unknown(analysis.spec, f"signature.forall.{name}"):
                yield Complaint(
                    f"signature.forall.{name}", 43, "unused: nothing reads it", "advisory"
                )
    for family in signature.types.values():
        inside = [site for site in analysis.sites if site.owner is family]
        if any(site.node is None for site in inside):
            continue
        read = _names(analysis, family)
        for name in family.formals:
            if name not in read:
                path = f"signature.types.{family.name}.params.{name}"
                yield Complaint(path, 43, "unused: nothing reads it", "advisory")


def _names(analysis: Analysis, family: TypeFamily | None) -> set[str]:
    """The names read inside a family, or everywhere outside families."""
    found: set[str] = set()
    for site in analysis.sites:
        is_inside = site.role in {Role.SUBJECT, Role.CASE}
        if site.node is None or is_inside != (family is not None):
            continue
        if family is None or site.owner is family:
            found |= {node.id for node in walk(site.node) if isinstance(node, Name)}
            found |= {node.name for node in walk(site.node) if isinstance(node, Present)}
    return found
