"""The branch that a row selects, and which indices it has to give there.

A row settles every discriminant: parameters by value, tensors by `some`. What the branch uses is
read from folded expressions; what generators solve of it is found by the rules of unification, on
names alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tileops._core.lang.kinds import AdtKind, BoolKind, DTypeKind, EnumKind
from tileops._core.lang.nodes import Call, Constant, Expr
from tileops._core.lang.reads import reads
from tileops._core.lang.values import read_field
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import GIVEN, Point, payload_kind
from tileops._core.signature.plan import Value
from tileops._core.signature.solve import Operand, Solver
from tileops._core.signature.unify import value_of
from tileops._core.signature.usage import Usage, Usages
from tileops._core.spec.model import Declaration, OpSpec, Param, TensorInput, TensorOutput


def point_of(spec: OpSpec, analysis: Analysis, params: Mapping[str, Any], some: set[str]) -> Point:
    """The value of every discriminant.

    Args:
        spec: the spec.
        analysis: the same spec, taken apart.
        params: each parameter as expressions see it.
        some: the tensors with `optional: true` that are passed.
    """
    point: dict[str, Value] = {}
    for name, discriminant in analysis.facts.discriminants.items():
        if discriminant.source == "param":
            param = spec.signature.params[name]
            assert isinstance(param, Param)
            point[name] = _discriminant_value(spec, param, params[name])
        else:
            point[name] = name in some
    return point


def _discriminant_value(spec: OpSpec, param: Param, value: Any) -> Value:
    kind = payload_kind(param)
    if value is None or isinstance(kind, BoolKind | EnumKind):
        found: Value = value
        return found
    if isinstance(kind, AdtKind):
        fields = spec.adts[kind.name].constructors[value.kind].fields.values()
        return (
            str(value.kind),
            tuple(
                (field.name, read_field(value, field.name))
                for field in fields
                if isinstance(field.kind, BoolKind | EnumKind)
            ),
        )
    return GIVEN


@dataclass(frozen=True)
class Branch:
    """What one branch uses and what its generators solve.

    Args:
        point: the value of every discriminant.
        usage: what a call on the branch uses.
        lets: the folded definition of each let that a call or a generator uses.
        used: the indices that a row has to account for.
        solved: for each index that a generator solves the tensor that it generates.
    """

    point: Point
    usage: Usage
    lets: Mapping[str, Expr]
    used: frozenset[str]
    solved: Mapping[str, str]

    @property
    def given(self) -> frozenset[str]:
        """The indices that a row gives, dtypes included."""
        return self.used - frozenset(self.solved)


class BranchFinder:
    """Branches of one spec.

    Args:
        analysis: the spec, taken apart.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.spec = analysis.spec
        self.signature = analysis.spec.signature
        self._usages = Usages(analysis.catalogue, analysis.families)
        self._branches: dict[tuple[Value, ...], Branch] = {}

    def at(self, point: Point) -> Branch:
        """The branch at a point."""
        key = tuple(point.values())
        if key not in self._branches:
            self._branches[key] = self._make(point)
        return self._branches[key]

    def present(self, name: str, point: Point) -> bool:
        """Whether a tensor or output is there."""
        return bool(self.analysis.facts.present(name, point))

    def tensors(self, point: Point) -> Iterator[TensorInput]:
        """The construction-time tensors and the inputs that are present, in order."""
        tensors = (*self.signature.held, *self.signature.inputs.values())
        return (tensor for tensor in tensors if self.present(tensor.name, point))

    def outputs(self, point: Point) -> Iterator[TensorOutput]:
        """The outputs that are present, in order."""
        return (o for o in self.signature.outputs.values() if self.present(o.name, point))

    def metadata(self, point: Point) -> list[tuple[TensorInput, Call]]:
        """The present tensors whose contents are generated, each with its folded generator."""
        found = []
        for tensor in self.tensors(point):
            if tensor.values is not None and tensor.values.node is not None:
                call = self.analysis.facts.fold(tensor.values.node, point)
                if isinstance(call, Call):
                    found.append((tensor, call))
        return found

    def requirements(
        self, tensor: TensorInput, point: Point
    ) -> Iterator[tuple[Declaration[Expr], Call]]:
        """The predicates of a tensor, each with its folded call."""
        for declaration in tensor.requires:
            if declaration.node is not None:
                call = self.analysis.facts.fold(declaration.node, point)
                if isinstance(call, Call):
                    yield declaration, call

    def _make(self, point: Point) -> Branch:
        usage = self._usages.at(point)
        names = {name for expr in self._read(point) for name in self._names(expr)}
        lets = self._lets(names | set(usage.lets), point)
        for definition in lets.values():
            names |= self._names(definition)
        used = frozenset(names & set(self.signature.forall))
        return Branch(point, usage, lets, used, self._solved(point, used, lets))

    def _read(self, point: Point) -> Iterator[Expr]:
        """The folded expressions that a case on the branch evaluates, lets left out."""
        facts = self.analysis.facts
        roofline = self.spec.roofline
        formulas = (roofline.flops, roofline.bytes) if roofline else ()
        tensors: list[TensorInput | TensorOutput] = [*self.tensors(point), *self.outputs(point)]
        dtypes = (tensor.dtype for tensor in tensors)
        for declared in (*dtypes, *self.signature.shape_rules, *formulas):
            if declared is not None and declared.node is not None:
                folded = facts.fold(declared.node, point)
                if not is_true(folded):
                    yield folded
        for tensor in tensors:
            for part in self.analysis.families.parts(tensor.shape, point) or ():
                yield value_of(part)
        for metadata, generator in self.metadata(point):
            yield generator
            yield from (call for _, call in self.requirements(metadata, point))

    @staticmethod
    def _names(expr: Expr) -> set[str]:
        return set(reads(expr).names)

    def _lets(self, names: set[str], point: Point) -> dict[str, Expr]:
        """The folded definitions of the lets behind some names."""
        lets: dict[str, Expr] = {}
        pending = [name for name in names if name in self.signature.lets]
        while pending:
            name = pending.pop()
            node = self.signature.lets[name].node
            if name not in lets and node is not None:
                lets[name] = folded = self.analysis.facts.fold(node, point)
                pending += [n for n in self._names(folded) if n in self.signature.lets]
        return {name: lets[name] for name in self.signature.lets if name in lets}

    def _solved(
        self, point: Point, used: frozenset[str], lets: Mapping[str, Expr]
    ) -> dict[str, str]:
        """The used indices that generators solve, each with the tensor that gives it."""
        waiting = self.operands(point)
        in_shapes = {
            name
            for operand, _ in waiting
            for part in operand.parts or ()
            for name in self._names(value_of(part))
        }
        solver = Solver(self.analysis.catalogue, used - in_shapes, lets)
        ready: list[Operand] = []
        solved: dict[str, str] = {}
        while True:
            before = set(solver.bound)
            solver.solve(ready)
            if ready:
                new = sorted((solver.bound - before) & used)
                solved.update(dict.fromkeys(new, ready[-1].tensor.name))
            found = next((pair for pair in waiting if solver.known(pair[1])), None)
            if found is None:
                return solved
            waiting.remove(found)
            ready.append(found[0])

    def operands(self, point: Point) -> list[tuple[Operand, Call]]:
        """The metadata tensors, whose axes may bind indices, each with its generator."""
        return [
            (Operand(tensor, place, None, self.analysis.families.parts(tensor.shape, point)), call)
            for place, (tensor, call) in enumerate(self.metadata(point))
        ]


def is_dtype_index(spec: OpSpec, name: str) -> bool:
    """Whether an index stands for a dtype."""
    return isinstance(spec.signature.forall[name].kind, DTypeKind)


def is_true(expr: Expr) -> bool:
    """Whether a folded refinement holds on the whole branch."""
    return expr == Constant(True)
