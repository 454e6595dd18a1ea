"""Checks branch by branch: solvable indices, readable payloads, decided conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tileops._core.lang.nodes import (
    Attribute,
    Constant,
    Expr,
    FamilyApplication,
    Name,
    Node,
    Shape,
    ShapeList,
    Splice,
)
from tileops._core.lang.printer import to_text
from tileops._core.lang.walk import walk
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.cycles import cycles
from tileops._core.signature.discriminants import Point
from tileops._core.signature.findings import Complaint
from tileops._core.signature.guards import describe
from tileops._core.signature.sites import Role, Site
from tileops._core.signature.steps import Called
from tileops._core.signature.usage import Root, Usage, Usages
from tileops._core.spec.model import Declaration, TensorInput


def branch_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Checks 27, 28, 30 and 31."""
    yield from _unsolved(analysis)
    yield from _payloads(analysis)
    yield from _combo_columns(analysis)
    yield from _conditions(analysis)


# 27


def _unsolved(analysis: Analysis) -> Iterator[Complaint]:
    """Indices that a branch uses and no input gives, at the first field that reads them."""
    missing: dict[tuple[str, tuple[str, ...]], int] = {}
    for bit, (usage, called) in enumerate(zip(analysis.usages, analysis.calls, strict=True)):
        if usage.complete:
            for key in _missing(analysis, usage, called):
                missing[key] = missing.get(key, 0) | 1 << bit
    for (path, names), where in missing.items():
        subject = f"index {names[0]}" if len(names) == 1 else f"indices {', '.join(names)}"
        message = f"{subject} cannot be solved from the inputs"
        yield Complaint(path, 27, message + analysis.branches.accepted.witness(where))


def _missing(
    analysis: Analysis, usage: Usage, called: Called
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The unsolved indices of a branch, grouped by the field that is to blame.

    A tensor that is passed is the place where an index could have been solved, so inputs are
    blamed before outputs and these before rules, whatever reads the index too.
    """
    bindable = analysis.catalogue.indices - called.known
    if not bindable:
        return
    blamed: set[str] = set()
    for root in usage.roots:
        names = tuple(n for n in bindable_in_order(analysis, root, usage, bindable - blamed))
        if names:
            blamed.update(names)
            yield root.path, names


def bindable_in_order(
    analysis: Analysis, root: Root, usage: Usage, unsolved: frozenset[str]
) -> list[str]:
    """The unsolved indices that a root reads, directly or through lets."""
    found: set[str] = set()
    pending = list(root.names)
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in unsolved:
            found.add(name)
        elif name in usage.lets:
            pending += analysis.catalogue.names(usage.lets[name])
    return [name for name in analysis.facts.signature.forall if name in found]


# 28


def _payloads(analysis: Analysis) -> Iterator[Complaint]:
    """Payloads and fields that are read where the value has none."""
    for site in analysis.sites:
        if site.node is None or site.role in {Role.SUBJECT, Role.CASE}:
            continue
        if site.role is Role.LET:
            yield from _let_payloads(analysis, site)
            continue
        owner = site.owner.name if site.owner else None
        presence = analysis.facts.presence_reads(owner) if owner else ()
        reads = (*analysis.facts.reads(site.node), *presence)
        for fault in analysis.branches.judge(reads, _payload_judge(analysis, site, owner)):
            path, _, message = fault.partition(": ")
            yield Complaint(path, 28, message)


def _payload_judge(
    analysis: Analysis, site: Site, owner: str | None
) -> Callable[[Point], Iterator[str]]:
    def judge(point: Point) -> Iterator[str]:
        if owner is None or analysis.facts.present(owner, point):
            for path, node in _evaluated(analysis, site, point):
                for message in _missing_payloads(analysis, node, point):
                    yield f"{path}: {message}"

    return judge


def _evaluated(analysis: Analysis, site: Site, point: Point) -> Iterator[tuple[str, Node]]:
    """The folded trees that a site evaluates at a point, with the field each stands in."""
    facts, node = analysis.facts, site.node
    if isinstance(node, FamilyApplication):
        for argument in node.args:
            yield site.path, facts.fold(argument, point)
        for application, choice in analysis.families.chain(node, point):
            if not choice.cases:
                continue
            place = choice.cases[0]
            body = analysis.families.body(application, place)
            path = f"signature.types.{application.family}.cases[{place}].is"
            for expr in _parts(body):
                yield path, facts.fold(expr, point)
    elif isinstance(node, ShapeList):
        for expr in _parts(node):
            yield site.path, facts.fold(expr, point)
    elif node is not None:
        yield site.path, facts.fold(node, point)


def _parts(shape: Shape | None) -> Iterator[Expr]:
    if isinstance(shape, FamilyApplication):
        yield from shape.args
    elif shape is not None:
        for axis in shape.axes:
            yield axis.value if isinstance(axis, Splice) else axis


def _missing_payloads(analysis: Analysis, node: Node, point: Point) -> Iterator[str]:
    facts = analysis.facts
    for read in walk(node):  # type: ignore[arg-type]
        if not isinstance(read, Attribute) or facts.has_payload(read, point):
            continue
        owner = read.base.base if isinstance(read.base, Attribute) else read.base
        name = owner.id if isinstance(owner, Name) else ""
        value = point[name]
        if isinstance(value, tuple):
            yield f"{to_text(read)} is read where {name} is {value[0]}, which has no such field"
        else:
            yield f"{to_text(read)} is read where {name} is absent"


def _let_payloads(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    """A let is evaluated only where it is used."""
    node = site.node
    if node is None or not any(isinstance(n, Attribute) for n in walk(node)):
        return
    name = site.path.rpartition(".")[2]
    usages = Usages(analysis.catalogue, analysis.families)

    def judge(point: Point) -> Iterator[str]:
        folded = usages.at(point).lets.get(name)
        if folded is not None:
            yield from _missing_payloads(analysis, folded, point)

    everything = [d.name for d in analysis.branches.participating]
    for fault in analysis.branches.judge(everything, judge):
        yield Complaint(site.path, 28, fault)


# 30


def _combo_columns(analysis: Analysis) -> Iterator[Complaint]:
    """Dtype indices of combinations that an accepted branch does not use."""
    rows = analysis.facts.signature.dtype_combos
    space = analysis.branches.accepted
    for name in rows[0].dtypes if rows else ():
        if name not in analysis.catalogue.dtypes:
            continue
        unused = 0
        for bit, usage in enumerate(analysis.usages):
            read = frozenset[str]().union(*(root.names for root in usage.roots))
            lets = (analysis.catalogue.names(expr) for expr in usage.lets.values())
            if name not in read.union(*lets) and usage.complete:
                unused |= 1 << bit
        if unused:
            message = f"column {name} is not used{space.witness(unused)}"
            yield Complaint("signature.dtype_combos", 30, message)


# 31


def _conditions(analysis: Analysis) -> Iterator[Complaint]:
    """Conditions that the discriminants do not decide, and presence that depends on itself."""
    cyclic = set()
    for cycle in cycles(_presence_references(analysis)):
        cyclic.update(cycle)
        tensor = analysis.facts.signature.inputs.get(cycle[0])
        field = "optional" if cycle[0] in _given(analysis) else "nullable"
        section = "inputs" if tensor else ("params" if field == "optional" else "outputs")
        path = f"signature.{section}.{cycle[0]}.{field}"
        yield Complaint(path, 31, f"presence depends on itself: {', '.join(cycle)}")
    for site in analysis.sites:
        if site.role is not Role.CONDITION or site.node is None:
            continue
        if site.owner is not None and site.owner.name in cyclic:
            continue
        yield from _undecided(analysis, site)


def _given(analysis: Analysis) -> set[str]:
    signature = analysis.facts.signature
    held = (name for name, p in signature.params.items() if isinstance(p, TensorInput))
    return {*signature.inputs, *held}


def _presence_references(analysis: Analysis) -> dict[str, list[str]]:
    signature = analysis.facts.signature
    conditions: dict[str, object] = {
        name: tensor.optional
        for name, tensor in (*signature.params.items(), *signature.inputs.items())
        if isinstance(tensor, TensorInput)
    }
    conditions |= {name: output.nullable for name, output in signature.outputs.items()}
    return {
        name: analysis.facts.presences(condition.node)
        for name, condition in conditions.items()
        if isinstance(condition, Declaration) and condition.node is not None
    }


def _undecided(analysis: Analysis, site: Site) -> Iterator[Complaint]:
    """A condition that does not reduce to a constant; one of a held tensor must do so early."""
    node = site.node
    early = isinstance(site.owner, TensorInput) and site.owner.role == "param"
    reads = analysis.facts.reads(node) if node is not None else ()
    late = [name for name in reads if not analysis.facts.discriminants[name].at_construction]
    if early and late:
        facts = ", ".join(describe(analysis.facts.discriminants[name], True) for name in late)
        yield Complaint(site.path, 31, f"is needed at construction, but reads {facts}")
        return

    def judge(point: Point) -> Iterator[str]:
        folded = analysis.facts.fold(node, point)  # type: ignore[arg-type]
        if not isinstance(folded, Constant):
            yield f"does not reduce to a constant: {to_text(folded)} is left"

    for fault in analysis.branches.judge(reads, judge):
        yield Complaint(site.path, 31, fault)
