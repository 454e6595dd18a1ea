"""Checks of metadata tensors: generators and predicates against the shapes they speak of."""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.lang.kinds import SeqKind, alternatives
from tileops._core.lang.nodes import Call, Expr, Name, Sequence, Splice
from tileops._core.lang.primitives.table import BUILTINS, Builtin
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.findings import Complaint
from tileops._core.signature.sites import Role
from tileops._core.spec.model import TensorInput


def metadata_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Check 32 of every generator and predicate."""
    signature = analysis.facts.signature
    for tensor in (*signature.params.values(), *signature.inputs.values()):
        if not isinstance(tensor, TensorInput):
            continue
        if tensor.values is not None:
            yield from _generator(analysis, tensor, tensor.values.path, tensor.values.node)
        for predicate in tensor.requires:
            yield from _predicate(analysis, tensor, predicate.path, predicate.node)


def _generator(
    analysis: Analysis, tensor: TensorInput, path: str, call: Expr | None
) -> Iterator[Complaint]:
    builtin = _builtin(call)
    if builtin is None or not isinstance(call, Call):
        return
    made = len(call.args[0].items) if builtin.name == "full" and _is_tuple(call) else builtin.rank  # type: ignore[union-attr]
    if made is None:
        return

    def judge(point: Point) -> Iterator[str]:
        rank = tensor_rank(analysis, tensor, point)
        if rank is not None and rank != made:
            yield f"{builtin.name} makes rank {made}, but {tensor.name} has rank {rank}"

    for fault in analysis.branches.judge(_reads(analysis, tensor), judge):
        yield Complaint(path, 32, fault)


def _is_tuple(call: Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], Sequence)


def _predicate(
    analysis: Analysis, tensor: TensorInput, path: str, call: Expr | None
) -> Iterator[Complaint]:
    builtin = _builtin(call)
    if builtin is None or not isinstance(call, Call):
        return
    others = [other for other in map(_tensor_of(analysis), call.args) if other is not None]
    reads = {*_reads(analysis, tensor)}.union(*(_reads(analysis, other) for other in others))

    def judge(point: Point) -> Iterator[str]:
        if not analysis.facts.present(tensor.name, point):
            return
        if builtin.rank is not None:
            yield from _rank_faults(analysis, tensor, builtin, point)
        for other in others:
            if not analysis.facts.present(other.name, point):
                yield f"reads {other.name}, which is absent where {tensor.name} is present"
            elif tensor_rank(analysis, other, point) not in {None, 1}:
                yield f"reads {other.name} as rank 1, which it is not"

    for fault in analysis.branches.judge(reads, judge):
        yield Complaint(path, 32, fault)


def _rank_faults(
    analysis: Analysis, tensor: TensorInput, builtin: Builtin, point: Point
) -> Iterator[str]:
    if analysis.families.parts(tensor.shape, point) is None:
        return
    rank = tensor_rank(analysis, tensor, point)
    if rank is None:
        yield f"{builtin.name} reads rank {builtin.rank}, but the rank of {tensor.name} is not fixed"
    elif rank != builtin.rank:
        yield f"{builtin.name} reads rank {builtin.rank}, but {tensor.name} has rank {rank}"


def _builtin(call: Expr | None) -> Builtin | None:
    return BUILTINS.get(call.callee) if isinstance(call, Call) else None


def _tensor_of(analysis: Analysis):  # type: ignore[no-untyped-def]
    signature = analysis.facts.signature

    def find(argument: Expr) -> TensorInput | None:
        name = argument.id if isinstance(argument, Name) else ""
        tensor = signature.inputs.get(name) or signature.params.get(name)
        return tensor if isinstance(tensor, TensorInput) else None

    return find


def _reads(analysis: Analysis, tensor: TensorInput) -> tuple[str, ...]:
    shape = analysis.facts.reads(tensor.shape.node) if tensor.shape.node is not None else ()
    return (*shape, *analysis.facts.presence_reads(tensor.name))


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
