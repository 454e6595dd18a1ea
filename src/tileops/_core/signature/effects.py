"""Effects of a call: what it writes, what it returns, how often each tensor crosses memory."""

from __future__ import annotations

from typing import NamedTuple

from tileops._core.lang.nodes import Constant
from tileops._core.signature.discriminants import OUT, Point
from tileops._core.signature.facts import Facts
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import Declaration, TensorInput, TensorOutput


def written(tensor: TensorInput, facts: Facts, point: Point) -> bool:
    """Whether a call on a branch writes an input; an absent one is never written."""
    if not facts.present(tensor.name, point):
        return False
    if isinstance(tensor.mutated, Declaration):
        node = tensor.mutated.node
        return node is not None and facts.fold(node, point) == Constant(True)
    return tensor.mutated


def aliases(output: TensorOutput, facts: Facts, point: Point) -> bool:
    """Whether an output is the very object that was passed as its `alias`."""
    source = facts.signature.inputs.get(output.alias or "")
    return source is not None and written(source, facts, point)


def effect_branch(facts: Facts, point: Point) -> EffectBranch:
    """The inputs a branch writes, whether `out` is passed, the outputs it emits."""
    signature = facts.signature
    return EffectBranch(
        tuple(name for name, tensor in signature.inputs.items() if written(tensor, facts, point)),
        bool(facts.present(OUT, point)),
        tuple(name for name in signature.outputs if facts.present(name, point)),
    )


class OperatorSchema(NamedTuple):
    """The effects in the schema of the operator that serves a branch.

    `written` are the inputs marked as written, `returned` the outputs it returns, `buffered` the
    output that goes into a passed `out`.
    """

    written: tuple[str, ...]
    returned: tuple[str, ...]
    buffered: tuple[str, ...]


def operator_schema(facts: Facts, point: Point) -> OperatorSchema:
    """What the operator of a branch writes and returns."""
    signature = facts.signature
    branch = effect_branch(facts, point)
    emitted = [signature.outputs[name] for name in branch.emits]
    buffered = tuple(o.name for o in emitted if o.buffered and branch.has_out)
    returned = tuple(
        o.name for o in emitted if o.name not in buffered and o.alias not in branch.writes
    )
    return OperatorSchema(branch.writes, returned, buffered)


def traffic(facts: Facts, point: Point) -> tuple[tuple[str, int, int], ...]:
    """How often each tensor of a branch is read and written: name, reads, writes."""
    signature = facts.signature
    rows: list[tuple[str, int, int]] = []
    for tensor in (*signature.held, *signature.inputs.values()):
        if facts.present(tensor.name, point):
            writes = written(tensor, facts, point)
            rows.append((tensor.name, int(not (writes and tensor.write_only)), int(writes)))
    for name, output in signature.outputs.items():
        if facts.present(name, point):
            rows.append((name, 0, int(not aliases(output, facts, point))))
    return tuple(rows)
