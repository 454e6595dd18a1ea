"""Calls of an op drawn from its spec alone: small, random, on every branch.

Every index and parameter gets a small value. Where a refinement, a shape or metadata contents do
not fit, one of the values that they read is drawn again, until all fit. Shapes are drawn so that
they broadcast, and extents are often the sum of packed lengths; nothing is known of any op. The
same spec gives the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cache
from math import prod
from random import Random
from typing import Any
from zlib import crc32

from tileops._core.lang.dtypes import BITS
from tileops._core.lang.evaluate import evaluate, generate, holds
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.kinds import DimKind, DTypeKind, IntKind, SeqKind, payload
from tileops._core.lang.nodes import Call, Constant, Expr, Name, Splice
from tileops._core.lang.primitives.contents import Contents
from tileops._core.lang.values import AdtView
from tileops._core.lang.walk import walk
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.branches import Branches
from tileops._core.signature.discriminants import GIVEN, Point
from tileops._core.signature.effects import effect_branch
from tileops._core.signature.facts import Facts
from tileops._core.signature.families import Families
from tileops._core.spec.model import Declaration, OpSpec, Param, TensorInput, TensorOutput
from tileops._core.spec.registry import lookup
from tileops._core.workload.cases import Case, TensorForm
from tileops.testing.values import (
    algebraic,
    keeps_invariant,
    small_shape,
    small_value,
    takes_an_object,
)

TRIES = 2000
"""Repairs on a branch before it counts as out of reach."""
LARGEST_TENSOR = 1 << 13
"""Elements of the largest tensor that is drawn."""
LARGEST_NAMED = 64
"""The largest integer of a refinement that a parameter is drawn from."""
LEAST_CALLS, MOST_CALLS = 10, 24
"""Calls of one op: few branches are drawn on several times, many are thinned out."""


@dataclass(frozen=True)
class DrawnTensor:
    """A tensor to be made: its shape, its dtype by name, and its contents if they matter."""

    shape: tuple[int, ...]
    dtype: str
    contents: Any = None


@dataclass(frozen=True)
class DrawnCall:
    """One accepted call; absent tensors and outputs are left out, `written` inputs are named."""

    op: str
    point: Point
    params: Mapping[str, Any]
    tensors: Mapping[str, DrawnTensor]
    outputs: Mapping[str, DrawnTensor]
    written: tuple[str, ...]

    def __str__(self) -> str:
        shown = {name: f"{t.dtype}{list(t.shape)}" for name, t in self.tensors.items()}
        return f"{self.op}({dict(self.params)}) on {shown}"


class _Rejected(Exception):
    """Values that make no call.

    Args:
        names: those that the rejecting declaration reads.
        literals: numbers that stand in it, of which an extent may have to be a multiple.
    """

    def __init__(self, names: set[str], literals: Set[int] = frozenset()) -> None:
        super().__init__(names)
        self.names = names
        self.literals = sorted(literals)


@dataclass
class Attempt:
    """The values of one attempt: the scope in which a spec's expressions are evaluated."""

    spec: OpSpec
    facts: Facts
    point: Point
    values: dict[str, Any] = field(default_factory=dict)
    contents: dict[str, Any] = field(default_factory=dict)
    base: list[int] = field(default_factory=list)
    multiples: list[int] = field(default_factory=list)
    requests: int = 1

    def forget_lets(self) -> None:
        """Lets are computed anew from changed values."""
        for name in self.spec.signature.lets:
            self.values.pop(name, None)

    def value(self, name: str) -> Any:
        """What a name stands for; lets on demand, a metadata tensor for its contents."""
        if name in self.values:
            return self.values[name]
        if name in self.contents:
            return self.contents[name]
        let = self.spec.signature.lets.get(name)
        if let is not None and let.node is not None:
            self.values[name] = evaluate(self.facts.fold(let.node, self.point), self)
            return self.values[name]
        if name in BITS:
            return name
        raise KeyError(name)

    def present(self, name: str) -> bool:
        """Whether a tensor, an output, a `Maybe` or `out` is there."""
        return bool(self.facts.present(name, self.point))

    def bytes(self, name: str) -> int:
        """Sizes belong to rooflines, which are not drawn from."""
        raise KeyError(name)

    def of(self, declaration: Declaration[Expr]) -> Any:
        """The value of a declared expression on the branch."""
        assert declaration.node is not None
        return evaluate(self.facts.fold(declaration.node, self.point), self)


class Drawing:
    """Draws calls of one op.

    Args:
        spec: the op's spec.
    """

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.facts = Facts(spec)
        self.families = Families(self.facts)
        signature = spec.signature
        tensors = (*signature.held, *signature.inputs.values())
        self._inputs = {tensor.name: tensor for tensor in tensors}
        self._sequences = {name for name, index in signature.forall.items() if index.is_sequence}
        params = [name for name, item in signature.params.items() if isinstance(item, Param)]
        self._names = [*params, *sorted(signature.forall, key=lambda n: n not in self._sequences)]
        self.points = tuple(filter(self._reachable, Branches(self.facts).calls()))

    def _reachable(self, point: Point) -> bool:
        """Whether no refinement is false for every call of the branch."""
        rules = (rule.node for rule in self.spec.signature.shape_rules if rule.node is not None)
        return all(self.facts.fold(rule, point) != Constant(False) for rule in rules)

    def calls(self) -> Iterator[DrawnCall]:
        """Calls on each branch, or on as many as there may be calls."""
        rng = self._rng("calls")
        points = list(self.points)
        if len(points) > MOST_CALLS:
            points = rng.sample(points, MOST_CALLS)
        for point in points * -(-LEAST_CALLS // len(points)):
            found = self.draw(point, rng)
            if found is not None:
                yield found

    def empty_calls(self) -> Iterator[DrawnCall]:
        """For each index that can be, a call on which it is 0 or has an axis of length 0."""
        for name, index in self.spec.signature.forall.items():
            if isinstance(index.kind, DimKind | SeqKind):
                rng = self._rng(f"empty {name}")
                for point in self.points[:MOST_CALLS]:
                    found = self.draw(point, rng, empty=name, tries=TRIES // 20)
                    if found is not None:
                        yield found
                        break

    def draw(
        self, point: Point, rng: Random, *, empty: str | None = None, tries: int = TRIES
    ) -> DrawnCall | None:
        """A call on a branch, None when `tries` repairs led to none.

        A declaration that rejects the values names those it reads; one of them is drawn again.
        """
        attempt = Attempt(self.spec, self.facts, point)
        self._draw_values(attempt, rng, empty)
        for _ in range(tries):
            attempt.contents.clear()
            try:
                return self._complete(attempt)
            except _Rejected as rejected:
                free = [name for name in self._names if name in rejected.names]
                attempt.multiples = [n * times for n in rejected.literals for times in (1, 2)]
            if not free:
                return None
            attempt.forget_lets()
            name = rng.choice(free)
            self._draw_value(attempt, name, rng, empty=name == empty)
        return None

    def _rng(self, purpose: str) -> Random:
        return Random(crc32(f"{self.spec.name} {purpose}".encode()))

    # Values

    def _draw_values(self, attempt: Attempt, rng: Random, empty: str | None) -> None:
        attempt.base = [rng.randint(1, 5) for _ in range(3)]
        attempt.requests = rng.randint(1, 4)
        for name in self._names:
            self._draw_value(attempt, name, rng, empty=name == empty)

    def _draw_value(self, attempt: Attempt, name: str, rng: Random, *, empty: bool = False) -> None:
        signature, values = self.spec.signature, attempt.values
        param = signature.params.get(name)
        if isinstance(param, Param):
            values[name] = self._draw_param(param, attempt.point, rng)
            return
        index = signature.forall[name]
        if index.is_sequence:
            values[name] = [rng.choice((0, 1, 2, 3, 5)) for _ in range(attempt.requests)]
        elif isinstance(index.kind, DTypeKind):
            values[name] = rng.choice(sorted(index.kind.members))
        elif isinstance(index.kind, DimKind):
            lengths = (v for n, v in values.items() if n in self._sequences)
            sums = [attempt.requests, *map(sum, lengths)] * 2 if self._sequences else ()
            values[name] = (
                0 if empty else rng.choice((*range(1, 7), 8, 16, *sums, *attempt.multiples))
            )
        else:
            values[name] = small_shape(rng, attempt.base, empty=empty)

    def _draw_param(self, param: Param, point: Point, rng: Random) -> Any:
        """A value; what the branch fixes, the default half of the time, else a small one."""
        assert param.type.node is not None
        kind = param.type.node.kind
        fixed = point.get(param.name, GIVEN)
        if isinstance(fixed, tuple):
            return algebraic(self.spec, param, fixed, rng)
        if fixed != GIVEN:
            return fixed
        if param.name in point:
            return small_value(payload(kind), rng)
        keeps = rng.random() < 0.5 or takes_an_object(param)
        if param.has_default and keeps:
            return param.default
        named = self._named_in_rules(param.name) if isinstance(kind, IntKind) else []
        return rng.choice(named) if named and rng.random() < 0.5 else small_value(kind, rng)

    def _named_in_rules(self, name: str) -> list[int]:
        """The integers that stand beside a parameter in refinements, but for large ones."""
        found: set[int] = set()
        rules = (rule.node for rule in self.spec.signature.shape_rules if rule.node is not None)
        for rule in rules:
            nodes = list(walk(rule))
            if any(isinstance(node, Name) and node.id == name for node in nodes):
                values = (node.value for node in nodes if isinstance(node, Constant))
                found |= {v for v in values if type(v) is int and v <= LARGEST_NAMED}
        return sorted(found)

    # Completion

    def _complete(self, attempt: Attempt) -> DrawnCall:
        """The call that the values make."""
        signature = self.spec.signature
        self._check_rules(attempt)
        tensors = self._tensors(attempt, self._inputs)
        self._check_promises(attempt, tensors)
        outputs = self._tensors(attempt, signature.outputs)
        params = {name: attempt.values[name] for name in signature.params if name in attempt.values}
        written = effect_branch(self.facts, attempt.point).writes
        return DrawnCall(self.spec.name, attempt.point, params, tensors, outputs, written)

    def _check_rules(self, attempt: Attempt) -> None:
        """The values keep invariants, refinements and a row of the dtype combinations."""
        signature = self.spec.signature
        for name, value in attempt.values.items():
            if isinstance(value, AdtView) and not keeps_invariant(self.spec, name, value):
                raise _Rejected({name})
        combos = [combo.dtypes for combo in signature.dtype_combos]
        if combos and not any(combo.items() <= attempt.values.items() for combo in combos):
            raise _Rejected(set(combos[0]))
        for rule in signature.shape_rules:
            if not _succeeds(attempt.of, rule):
                raise self._rejected(rule)

    def _check_promises(self, attempt: Attempt, tensors: Mapping[str, DrawnTensor]) -> None:
        """What is said of contents holds."""
        for name, tensor in tensors.items():
            declared = self._inputs[name]
            for requirement in declared.requires:
                if not _succeeds(holds, requirement.node, tensor.contents, attempt):
                    raise self._rejected(requirement, declared.values)

    def _tensors(
        self, attempt: Attempt, declared: Mapping[str, TensorInput] | Mapping[str, TensorOutput]
    ) -> dict[str, DrawnTensor]:
        """The tensors that are present."""
        return {
            name: self._tensor(attempt, tensor)
            for name, tensor in declared.items()
            if attempt.present(name)
        }

    def _tensor(self, attempt: Attempt, tensor: TensorInput | TensorOutput) -> DrawnTensor:
        """One tensor, with contents where they are declared."""
        values = tensor.values if isinstance(tensor, TensorInput) else None
        rejected = self._rejected(tensor.shape, values)
        try:
            shape = self._shape_of(attempt, tensor)
            dtype = attempt.of(tensor.dtype)
            if min(shape, default=0) < 0 or prod(shape) > LARGEST_TENSOR:
                raise rejected
            if values is None:
                return DrawnTensor(shape, dtype)
            contents = self._contents(attempt, tensor.name, values)
        except (EvaluationFault, OverflowError):
            raise rejected from None
        if contents.shape != shape:
            raise rejected
        return DrawnTensor(shape, dtype, contents.values)

    def _contents(self, attempt: Attempt, name: str, values: Declaration[Expr]) -> Contents:
        """What the generator of a metadata tensor yields; predicates of others may read it."""
        assert values.node is not None
        call = self.facts.fold(values.node, attempt.point)
        assert isinstance(call, Call)
        contents = generate(call, attempt, f"{self.spec.name}:{name}")
        attempt.contents[name] = contents.values
        return contents

    def _shape_of(self, attempt: Attempt, tensor: TensorInput | TensorOutput) -> tuple[int, ...]:
        shape: list[int] = []
        for part in self.families.parts(tensor.shape, attempt.point) or ():
            if isinstance(part, Splice):
                shape.extend(evaluate(part.value, attempt))
            else:
                shape.append(evaluate(part, attempt))
        return tuple(shape)

    def _rejected(self, *declarations: Declaration[Any] | None) -> _Rejected:
        """The rejection by declarations: what they read, lets and families of shapes followed."""
        names: set[str] = set()
        literals: set[int] = set()
        pending: list[Any] = [item.node for item in declarations if item is not None]
        while pending:
            for node in walk(pending.pop()):
                if isinstance(node, Constant) and type(node.value) is int and node.value > 1:
                    literals.add(node.value)
                if isinstance(node, Name) and node.id not in names:
                    names.add(node.id)
                    let = self.spec.signature.lets.get(node.id)
                    if let is not None and let.node is not None:
                        pending.append(let.node)
        return _Rejected(names, literals)


def _succeeds(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a truth can be computed, and holds."""
    try:
        return bool(function(*arguments))
    except (EvaluationFault, OverflowError):
        return False


def form_of(spec: OpSpec, case: Case) -> DrawnCall:
    """A case in the form in which calls are judged."""
    point = case.setting.branch.point
    return DrawnCall(
        spec.name,
        point,
        case.setting.params,
        {name: _as_drawn(form) for name, form in case.tensors.items()},
        {name: _as_drawn(form) for name, form in case.outputs.items()},
        effect_branch(Analysis(spec).facts, point).writes,
    )


def _as_drawn(form: TensorForm) -> DrawnTensor:
    return DrawnTensor(form.shape, form.dtype, form.values)


@cache
def drawn(op: str) -> tuple[DrawnCall, ...]:
    """The calls of an op, drawn once per process."""
    spec = lookup(op)
    assert spec is not None
    return tuple(Drawing(spec).calls())


@cache
def drawn_empty(op: str) -> tuple[DrawnCall, ...]:
    """The calls of an op with something empty, drawn once per process."""
    spec = lookup(op)
    assert spec is not None
    return tuple(Drawing(spec).empty_calls())
