"""Checks of metadata tensors: generators and predicates against the shapes they speak of."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.kinds import SeqKind, alternatives
from tileops._core.lang.nodes import Call, Expr, Name, Sequence, Splice
from tileops._core.lang.primitives.table import BUILTINS, Builtin
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.findings import Complaint
from tileops._core.signature.sites import Role, Site
from tileops._core.spec.model import TensorInput


def metadata_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Check 32 of every generator and predicate."""
    for site in analysis.sites:
        tensor = analysis.facts.tensor(site.tensor or "")
        call, builtin = site.expr, _builtin(site.expr)
        if not isinstance(tensor, TensorInput) or not isinstance(call, Call) or builtin is None:
            continue
        if site.role is Role.VALUES:
            yield from _generator(analysis, site, tensor, call, builtin)
        elif site.role is Role.REQUIRES:
            yield from _predicate(analysis, site, tensor, call, builtin)


def _builtin(call: Expr | None) -> Builtin | None:
    return BUILTINS.get(call.callee) if isinstance(call, Call) else None


def _generator(
    analysis: Analysis, site: Site, tensor: TensorInput, call: Call, builtin: Builtin
) -> Iterator[Complaint]:
    """The rank of what a generator makes, against the shape."""
    made = builtin.rank
    if builtin.name == "full" and call.args and isinstance(call.args[0], Sequence):
        made = len(call.args[0].items)

    def complaints(point: Point) -> Iterator[Complaint]:
        rank = tensor_rank(analysis, tensor, point)
        if None not in {rank, made} and rank != made:
            message = f"{builtin.name} makes rank {made}, but {tensor.name} has rank {rank}"
            yield Complaint(site.path, 32, message)

    yield from analysis.branches.judge(_shape_reads(analysis, tensor), complaints)


def _predicate(
    analysis: Analysis, site: Site, tensor: TensorInput, call: Call, builtin: Builtin
) -> Iterator[Complaint]:
    """The rank that a predicate reads, and the tensors that it takes."""
    names = [argument.id for argument in call.args if isinstance(argument, Name)]
    found = [analysis.facts.tensor(name) for name in names]
    others = [other for other in found if isinstance(other, TensorInput)]
    read = [_shape_reads(analysis, each) for each in (tensor, *others)]

    def complaints(point: Point) -> Iterator[Complaint]:
        if analysis.facts.present(tensor.name, point):
            faults = [
                _rank_fault(analysis, tensor, builtin, point),
                *(_argument_fault(analysis, other, point) for other in others),
            ]
            yield from (Complaint(site.path, 32, fault) for fault in faults if fault)

    yield from analysis.branches.judge(set[str]().union(*read), complaints)


def _rank_fault(
    analysis: Analysis, tensor: TensorInput, builtin: Builtin, point: Point
) -> str | None:
    if builtin.rank is None or analysis.families.parts(tensor.shape, point) is None:
        return None
    rank = tensor_rank(analysis, tensor, point)
    if rank is None:
        return f"{builtin.name} reads rank {builtin.rank}, but that of {tensor.name} is not fixed"
    if rank != builtin.rank:
        return f"{builtin.name} reads rank {builtin.rank}, but {tensor.name} has rank {rank}"
    return None


def _argument_fault(analysis: Analysis, other: TensorInput, point: Point) -> str | None:
    if not analysis.facts.present(other.name, point):
        return f"argument {other.name} is absent"
    if analysis.families.parts(other.shape, point) is None:
        return None
    rank = tensor_rank(analysis, other, point)
    return None if rank == 1 else f"argument {other.name} has rank {rank}, not 1"


def _shape_reads(analysis: Analysis, tensor: TensorInput) -> set[str]:
    """The discriminants that a tensor's shape and presence depend on."""
    shape = tensor.shape.node
    read = analysis.facts.reads(shape) if shape is not None else ()
    return {*read, *analysis.facts.presence_reads(tensor.name)}


def tensor_rank(analysis: Analysis, tensor: TensorInput, point: Point) -> int | None:
    """The number of axes of a present tensor, None where it is not fixed."""
    parts = analysis.families.parts(tensor.shape, point)
    if parts is None or not analysis.facts.present(tensor.name, point):
        return None
    rank = 0
    for part in parts:
        length = _length(analysis, part.value, point) if isinstance(part, Splice) else 1
        if length is None:
            return None
        rank += length
    return rank


def _length(analysis: Analysis, run: Expr, point: Point) -> int | None:
    members = alternatives(analysis.scope.kind(run, Role.SHAPE, point))
    lengths = {member.length if isinstance(member, SeqKind) else None for member in members}
    return lengths.pop() if len(lengths) == 1 else None
