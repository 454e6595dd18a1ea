"""What a spec's expressions are worth once some discriminants have values.

`Facts` answers three questions about a spec at a *point*, a value for some discriminants (all of
them on a branch, those of parameters and construction-time tensors at a construction point): what
an expression folds to, whether a tensor is present, which value a match subject has. Every answer
depends on the discriminants an expression reads and on no others, and is kept by those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tileops._core.lang.cached import cached_property
from tileops._core.lang.dtypes import BITS
from tileops._core.lang.fold import fold
from tileops._core.lang.kinds import AdtKind, BoolKind, EnumKind
from tileops._core.lang.nodes import (
    Attribute,
    Bytes,
    Call,
    Constant,
    Expr,
    Name,
    Present,
    Shape,
)
from tileops._core.lang.reads import read_name
from tileops._core.lang.walk import children, rebuild, walk
from tileops._core.signature.discriminants import Point, discriminants, payload_kind
from tileops._core.signature.lets import NOTHING, arms, given, is_payload, may_be_absent
from tileops._core.signature.plan import Value
from tileops._core.signature.references import Reference, References
from tileops._core.spec.model import Declaration, OpSpec, Param, TensorInput, TensorOutput

_OPEN: Any = object()
"""Stands for a discriminant that a point leaves open."""


class Facts:
    """What a spec's expressions are worth at a point.

    Args:
        spec: the spec; names that it does not declare stand for themselves.
    """

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.signature = spec.signature
        self.discriminants = discriminants(spec)
        self._reads: dict[int, tuple[Expr | Shape, tuple[str, ...]]] = {}
        self._folded: dict[tuple[int, tuple[Value, ...]], Expr] = {}
        self._shared: dict[tuple[Expr, tuple[type, ...]], Expr] = {}

    # Declarations

    @cached_property
    def tensors(self) -> tuple[TensorInput | TensorOutput, ...]:
        """Construction-time tensors, inputs, outputs."""
        signature = self.signature
        return (*signature.held, *signature.inputs.values(), *signature.outputs.values())

    @cached_property
    def formulas(self) -> tuple[Declaration[Expr], ...]:
        """The inline roofline formulas."""
        roofline = self.spec.roofline
        declared = (roofline.flops, roofline.bytes) if roofline else ()
        return tuple(formula for formula in declared if formula is not None)

    def tensor(self, name: str) -> TensorInput | TensorOutput | None:
        """The tensor or output of a name."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, TensorInput | TensorOutput]:
        return {tensor.name: tensor for tensor in self.tensors}

    # What an expression depends on

    @cached_property
    def references(self) -> References:
        """The definitions of lets, and the conditions under which tensors are present."""
        found: dict[Reference, Expr] = {}
        for name, let in self.signature.lets.items():
            if let.node is not None:
                found[Reference("value", name)] = let.node
                if may_be_absent(name, self.signature):
                    found[Reference("presence", name)] = given(let.node)
        for tensor in self.tensors:
            declared = tensor.optional if isinstance(tensor, TensorInput) else tensor.nullable
            if isinstance(declared, Declaration) and declared.node is not None:
                found[Reference("presence", tensor.name)] = declared.node
        return References(found)

    @cached_property
    def cyclic_lets(self) -> frozenset[str]:
        """The lets whose definitions lead back to themselves."""
        return self._cyclic("value")

    @cached_property
    def cyclic_presences(self) -> frozenset[str]:
        """What is present on a condition that leads back to itself."""
        return self._cyclic("presence")

    def _cyclic(self, aspect: str) -> frozenset[str]:
        """What leads back to itself, be it through values or through presences."""
        below = self.references.below
        return frozenset(
            key.name
            for key, tree in self.references.definitions.items()
            if key.aspect == aspect and any(each.name == key.name for each in below(tree))
        )

    def reads(self, tree: Expr | Shape) -> tuple[str, ...]:
        """The discriminants that a tree depends on, lets and presences followed, in order."""
        kept = self._reads.get(id(tree))
        if kept is None:
            definitions = self.references.definitions
            trees = [tree, *(definitions[key] for key in self.references.below(tree))]
            named = {name for each in trees for name in _named(each)}
            kept = (tree, tuple(name for name in self.discriminants if name in named))
            self._reads[id(tree)] = kept
        return kept[1]

    def presence_reads(self, name: str) -> tuple[str, ...]:
        """The discriminants that decide whether a tensor, output or `Maybe` is present."""
        condition = self.references.definitions.get(Reference("presence", name))
        if condition is not None:
            return self.reads(condition)
        return (name,) if name in self.discriminants else ()

    def write_reads(self, tensor: TensorInput) -> frozenset[str]:
        """The discriminants that decide whether an input is written."""
        condition = tensor.mutated.node if isinstance(tensor.mutated, Declaration) else None
        own = frozenset(self.reads(condition)) if condition is not None else frozenset()
        return own | {*self.presence_reads(tensor.name)}

    # What a point fixes

    def present(self, name: str, point: Point) -> bool | None:
        """Whether a tensor, output, `Maybe` or `out` is there; None where the point leaves it."""
        if name in self.discriminants:
            value = point.get(name, _OPEN)
            if value is _OPEN:
                return None
            # A parameter is given with the value false, too.
            is_param = self.discriminants[name].source == "param"
            return value is not None if is_param else value is True
        condition = self.references.definitions.get(Reference("presence", name))
        if name in self.cyclic_presences:
            return None
        if condition is None:
            declared = self.tensor(name)
            unread = isinstance(declared, TensorInput) and declared.optional is not False
            unread = unread or (isinstance(declared, TensorOutput) and bool(declared.nullable))
            return None if unread or declared is None else True
        folded = self.fold(condition, point)
        return folded.value is True if isinstance(folded, Constant) else None

    def fold(self, expr: Expr, point: Point) -> Expr:
        """What an expression is at a point; equal results are one object."""
        key = (id(expr), self.projection(expr, point))
        folded = self._folded.get(key)
        if folded is None:
            for reference in self.references.below(expr):
                self._resolve(reference, point)
            folded = self._folded[key] = self.share(fold(self._fix(expr, point), {}, {}))
        return folded

    def _resolve(self, reference: Reference, point: Point) -> None:
        """Fold what an expression leads to before the expression, however long the chain."""
        cyclic = self.cyclic_lets if reference.aspect == "value" else self.cyclic_presences
        definition = self.references.definitions[reference]
        key = (id(definition), self.projection(definition, point))
        if reference.name not in cyclic and key not in self._folded:
            self._folded[key] = self.share(fold(self._fix(definition, point), {}, {}))

    def projection(self, node: Expr | Shape, point: Point) -> tuple[Value, ...]:
        """The part of a point that a tree depends on."""
        return tuple(point.get(name, _OPEN) for name in self.reads(node))

    def share(self, expr: Expr) -> Expr:
        """The first object made for an expression that equals this one.

        Python takes 1 for equal to True, so the types of constants are compared as well.
        """
        types = tuple(type(node.value) for node in walk(expr) if isinstance(node, Constant))
        return self._shared.setdefault((expr, types), expr)

    def _fix(self, expr: Expr, point: Point) -> Expr:
        """`expr` with all that the point fixes replaced by constants."""
        if isinstance(expr, Name):
            return self._fix_name(expr, point)
        if isinstance(expr, Attribute):
            return self._fix_attribute(expr, point)
        if isinstance(expr, Present):
            known = self.present(expr.name, point)
            return self._fix_presence(expr, point) if known is None else Constant(known)
        if isinstance(expr, Call):
            return self._fix_call(expr, point)
        return rebuild(expr, lambda child: self._fix(child, point))

    def _fix_presence(self, expr: Present, point: Point) -> Expr:
        """The presence of a let is an expression, and no variable of a program."""
        definition = self.references.definitions.get(Reference("presence", expr.name))
        is_let = expr.name in self.signature.lets and expr.name not in self.cyclic_presences
        return self.fold(definition, point) if definition is not None and is_let else expr

    def _fix_name(self, expr: Name, point: Point) -> Expr:
        if expr.id in point:
            return self._constant(expr.id, point[expr.id]) or expr
        if expr.id in self.signature.lets:
            definition = self.references.definitions.get(Reference("value", expr.id))
            if expr.id in self.cyclic_lets:
                return expr
            folded = self.fold(definition, point) if definition is not None else None
            return folded if isinstance(folded, Constant) else expr
        if expr.id in BITS:
            return Constant(expr.id)
        return expr

    def _constant(self, name: str, value: Value) -> Constant | None:
        """The constant that a parameter's discriminant stands for, if it is one."""
        param = self.signature.params.get(name)
        if value is None:
            return Constant(None)
        if isinstance(param, Param) and isinstance(payload_kind(param), BoolKind | EnumKind):
            return Constant(value)
        return None

    def _fix_attribute(self, expr: Attribute, point: Point) -> Expr:
        owner = expr.base
        if isinstance(owner, Attribute) and owner.attr == "value":
            owner = owner.base
        if not isinstance(owner, Name) or owner.id not in point:
            behind = self.behind(expr.base, point)
            if read_name(behind) in point and not is_payload(expr, self.signature):
                read = self._fix(replace(expr, base=behind), point)
                return read if isinstance(read, Constant) else expr
            fixed = rebuild(expr, lambda child: self._fix(child, point))
            return expr if fixed.base == NOTHING else fixed  # read where there is nothing
        value = point[owner.id]
        if isinstance(value, tuple):
            constructor, finite = value
            fields = {"kind": constructor, **dict(finite)}  # type: ignore[call-overload]
            is_field = expr.attr in fields and not is_payload(expr, self.signature)
            return Constant(fields[expr.attr]) if is_field else expr
        if expr.attr == "value" and value is not None:
            return self._constant(owner.id, value) or expr
        return expr

    def _fix_call(self, expr: Call, point: Point) -> Expr:
        """A call with what the point fixes.

        A parameter passed whole stays a name unless the call can be evaluated, so that branches
        which differ only in its value share one expression.
        """
        fixed = rebuild(expr, lambda child: fold(self._fix(child, point), {}, {}))
        if all(isinstance(child, Constant) for child in children(fixed)):
            return fixed
        return rebuild(
            expr,
            lambda child: child if isinstance(child, Name) and child.id in point
            else self._fix(child, point),
        )  # fmt: skip

    def subject(self, expr: Expr, point: Point) -> tuple[Value] | None:
        """The value of a match subject, wrapped, or None where the point leaves it open."""
        folded = self.behind(self.fold(expr, point), point)
        if isinstance(folded, Constant):
            return (folded.value,)  # type: ignore[return-value]
        value = point.get(read_name(folded) or "")
        return (value,) if isinstance(value, tuple) else None

    def behind(self, expr: Expr, point: Point) -> Expr:
        """What an expression names at a point, lets looked through and choices made."""
        followed = expr
        while True:
            is_held = isinstance(followed, Attribute) and is_payload(followed, self.signature)
            name = read_name(followed) if is_held or isinstance(followed, Name) else None
            let = self.signature.lets.get(name or "")
            if let is None or let.node is None or name in self.cyclic_lets:
                return followed
            followed = self.fold(let.node, point)

    def has_payload(self, read: Expr, point: Point) -> bool:
        """Whether a value has the payload or field that is read of it.

        Other reads succeed, but of a let only its value can be read and not its presence.
        """
        if not isinstance(read, Attribute):
            return not isinstance(read, Present) or read.name not in self.signature.lets
        owner = read_name(read.base)
        if owner in self.signature.lets:
            return self._let_has(read, point)
        param = self.signature.params.get(owner or "")
        value = point.get(param.name, _OPEN) if isinstance(param, Param) else _OPEN
        if not isinstance(value, tuple) or not isinstance(param, Param) or read.attr == "kind":
            return value is not None
        return is_payload(read, self.signature) or self._has_field(param, str(value[0]), read.attr)

    def _let_has(self, read: Attribute, point: Point) -> bool:
        """Whether all that a let may be at a point, itself rightly read, has what is read of it."""
        if is_payload(read, self.signature):
            return self.present(read_name(read) or "", point) is True
        outcomes = list(arms(self.behind(read.base, point)))
        if NOTHING in outcomes and may_be_absent(read_name(read.base) or "", self.signature):
            return False
        return outcomes == [read.base] or all(
            self.has_payload(replace(read, base=outcome), point)
            for outcome in outcomes
            if self.has_payload(outcome, point)
        )

    def _has_field(self, param: Param, constructor: str, field: str) -> bool:
        kind = payload_kind(param)
        adt = self.spec.adts.get(kind.name) if isinstance(kind, AdtKind) else None
        return adt is None or field in adt.constructors[constructor].fields


def _named(tree: Expr | Shape) -> Iterator[str]:
    """The names that a tree reads the value or tests the presence of."""
    for node in walk(tree):
        if isinstance(node, Name):
            yield node.id
        elif isinstance(node, Present | Bytes):
            yield node.name
