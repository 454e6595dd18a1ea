"""Variable names of generated source, and what is known of the values behind them.

Every kind of thing has a prefix of its own, so names from a spec meet neither each other nor the
helpers that generated source calls, none of which starts with a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileops._core.codegen.analysis import depends_on_size
from tileops._core.codegen.writer import identifier
from tileops._core.lang.kinds import (
    VALUE,
    AdtKind,
    BoolKind,
    DTypeKind,
    EnumKind,
    Kind,
    SeqKind,
)
from tileops._core.lang.members import FloatMember
from tileops._core.lang.nodes import Expr
from tileops._core.lang.reads import reads
from tileops._core.signature.discriminants import payload_kind
from tileops._core.signature.lets import may_be_absent, source
from tileops._core.signature.plan import (
    CheckAxis,
    CheckSplice,
    ComputeLet,
    Plan,
    SolveAxis,
    SolveDtype,
    SolveSplice,
)
from tileops._core.spec.model import Adt, Constructor, Param

PREFIXES = {
    "dim": "a length",
    "shape": "a run of lengths",
    "dtype": "a dtype name",
    "let": "a computed quantity",
    "param": "a parameter's converted value",
    "case": "a parameter's value as a discriminant",
    "has": "whether a tensor is there",
    "in": "a tensor",
    "size": "a tensor's shape",
    "type": "a tensor's dtype name",
    "value": "a returned value",
    "item": "a comprehension variable",
}
"""Prefix of a variable, before the name from the spec, and what the variable holds."""

Solving = SolveAxis | SolveSplice | SolveDtype | ComputeLet
"""The steps that give a name its value."""


class Names:
    """How generated source spells the names of one plan.

    Args:
        plan: the plan that is printed.
        traced: whether tensors' lengths may be symbolic.
    """

    def __init__(self, plan: Plan, *, traced: bool = False) -> None:
        self.plan = plan
        self.traced = traced
        self.signature = plan.spec.signature
        self._symbolic: set[str] = set()
        if traced:
            self._mark_symbolic()

    def variable(self, name: str) -> str:
        """The variable of an index, a parameter or a let; else of a comprehension."""
        index = self.signature.forall.get(name)
        if index is not None:
            kind = index.kind
            prefix = "dtype" if isinstance(kind, DTypeKind) else "dim"
            return spell("shape" if isinstance(kind, SeqKind) else prefix, name)
        if name in self.signature.params:
            return spell("param", name)
        return spell("let" if name in self.signature.lets else "item", name)

    def is_symbolic(self, name: str) -> bool:
        """Whether `name` may be a symbolic integer under tracing, or hold some."""
        return name in self._symbolic

    def kind(self, name: str) -> Kind | None:
        """The declared kind of an index or an ordinary parameter; None for anything else."""
        index = self.signature.forall.get(name)
        if index is not None:
            return index.kind
        param = self.param(name)
        return None if param is None or param.type.node is None else param.type.node.kind

    def param(self, name: str) -> Param | None:
        """The ordinary parameter of that name."""
        found = self.signature.params.get(name)
        return found if isinstance(found, Param) else None

    def sites(self, phase: str) -> Iterator[tuple[int, Solving]]:
        """The steps of a phase that give names their values, with their numbers."""
        steps = self.plan.construction if phase == "construction" else self.plan.call
        for number, step in enumerate(steps):
            if isinstance(step, SolveAxis | SolveSplice | SolveDtype | ComputeLet):
                yield number, step

    def adt(self, name: str) -> Adt | None:
        """The algebraic type of a parameter or let that has one, or may be absent."""
        param = source(name, self.signature)
        kind = param and payload_kind(param)
        return self.plan.spec.adts.get(kind.name) if isinstance(kind, AdtKind) else None

    def is_field(self, name: str, attr: str) -> bool:
        """Whether `name.attr` reads a field, not the payload of a `Maybe`."""
        if may_be_absent(name, self.signature):
            return False
        return any(attr in c.fields for c in _constructors(self.adt(name)))

    def is_python_enum(self, name: str, attr: str) -> bool:
        """Whether a field of an algebraic value is a Python enum member, read by its value."""
        fields = (c.fields.get(attr) for c in _constructors(self.adt(name)))
        return any(field is not None and field.python is not None for field in fields)

    def finite_fields(self, name: str) -> dict[str, tuple[str, ...]]:
        """For each constructor of a parameter's type, the fields that tell branches apart."""
        return {
            c.name: tuple(
                field.name for field in c.fields.values()
                if isinstance(field.kind, BoolKind | EnumKind)
            )
            for c in _constructors(self.adt(name))
        }  # fmt: skip

    def let(self, name: str) -> Expr | None:
        """The definition of a let."""
        declared = self.signature.lets.get(name)
        return None if declared is None else declared.node

    def is_opaque(self, name: str) -> bool:
        """Whether a parameter may be any Python value, on which operators may fail."""
        param = self.param(name)
        if param is None or param.type.node is None:
            return False
        members = param.type.node.members
        return any(m.kind == VALUE and not isinstance(m, FloatMember) for m in members)

    def solved_at_construction(self) -> dict[str, bool]:
        """The names that construction may solve, and whether it always does."""
        found: dict[str, bool] = {}
        for _, step in self.sites("construction"):
            name = solved_name(step)
            found[name] = found.get(name, False) or step.guard.always
        return found

    def shape_dtypes(self) -> frozenset[str]:
        """The dtype indices on which shapes depend, so that inference cannot do without them."""
        found: set[str] = set()
        for step in self.plan.call:
            if isinstance(step, CheckAxis):
                found.update(self.call_dtypes(step.axis))
            elif isinstance(step, CheckSplice):
                found.update(self.call_dtypes(step.value))
            elif isinstance(step, SolveAxis) and step.offset is not None:
                found.update(self.call_dtypes(step.offset))
        for form in self.plan.outputs:
            for part in form.parts:
                found.update(self.call_dtypes(part))
        return frozenset(found)

    def call_dtypes(self, expr: Expr) -> tuple[str, ...]:
        """The dtype indices that a call solves on which an expression depends, lets followed."""
        solved = {step.index for _, step in self.sites("call") if isinstance(step, SolveDtype)}
        found: set[str] = set()
        pending = [expr]
        while pending:
            for name in reads(pending.pop()).names:
                found |= {name} & solved
                definition = self.let(name)
                if definition is not None:
                    pending.append(definition)
        return tuple(sorted(found))

    def _mark_symbolic(self) -> None:
        """Lengths that a call brings are symbolic, and so is what is computed from them."""
        for _, step in self.sites("call"):
            if isinstance(step, SolveAxis | SolveSplice):
                self._symbolic.add(step.index)
            elif isinstance(step, ComputeLet) and depends_on_size(step.expr, self.is_symbolic):
                self._symbolic.add(step.name)


def _constructors(adt: Adt | None) -> tuple[Constructor, ...]:
    return () if adt is None else tuple(adt.constructors.values())


def spell(prefix: str, name: str) -> str:
    """The variable of that prefix for a name from a spec."""
    return f"{prefix}_{identifier(name)}"


def solved_name(step: Solving) -> str:
    """The name that a step gives a value."""
    return step.name if isinstance(step, ComputeLet) else step.index
