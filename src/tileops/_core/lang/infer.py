"""Kind inference: what an expression stands for, and whether it means anything.

`infer` finds the kind of an expression at a `Position`, `check` holds it against the kind that
the place needs. The first fault found is raised as a `KindFault` with the number of the
validator's check it belongs to. Which payloads and fields a branch may read is not judged here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tileops._core.lang import calls, rejected
from tileops._core.lang.dtypes import is_registered
from tileops._core.lang.faults import KindFault
from tileops._core.lang.kinds import (
    BOOL,
    DIM,
    INT,
    NEVER,
    NONE,
    UNKNOWN,
    VALUE,
    AdtKind,
    DimKind,
    EnumKind,
    IntKind,
    Kind,
    MaybeKind,
    NoneKind,
    SeqKind,
    UnknownKind,
    alternatives,
    fits,
    is_integer,
    is_number,
    join,
    join_all,
    overlap,
    union,
)
from tileops._core.lang.narrow import Kinds, narrow
from tileops._core.lang.nodes import (
    Arithmetic,
    Attribute,
    Bytes,
    Call,
    Compare,
    Conditional,
    Constant,
    Each,
    Expr,
    Logical,
    Name,
    Negate,
    Node,
    Not,
    Present,
    Sequence,
    Slice,
    Subscript,
)
from tileops._core.lang.positions import Position
from tileops._core.lang.printer import to_text

NOTHING_KNOWN: Kinds = {}


def infer(expr: Expr, position: Position, wanted: Kind | None = None) -> Kind:
    """The kind of an expression.

    Args:
        expr: the expression.
        position: what may be read and called where it stands.
        wanted: the kind needed there, where one is; a parameter that may be absent stands bare
            only where a `Maybe` is wanted.

    Raises:
        KindFault: a name is not declared or not readable, an operation is not defined for the
            kinds of its operands, a call is wrong, or the kind does not fit `wanted`.
    """
    checker = _Inference(position, expr)
    if position.root != "expression":
        calls.require_root(expr, position.root)
    checker.reject_definition()
    if wanted is None:
        return checker.kind(expr, NOTHING_KNOWN)
    return checker.fitting(expr, wanted, NOTHING_KNOWN)


class _Inference:
    """The kind rules, one method per node class.

    `known` holds the names narrowed by the conditions around a node and the variables of the
    `for` forms around it.
    """

    def __init__(self, position: Position, root: Expr) -> None:
        self.position = position
        self._root = root
        self._rules: dict[type[Node], Callable[[Any, Kinds], Kind]] = {
            Constant: self._constant,
            Name: self._name,
            Attribute: self._attribute,
            Subscript: self._subscript,
            Slice: self._slice,
            Negate: self._negate,
            Arithmetic: self._arithmetic,
            Compare: self._compare,
            Not: self._not,
            Logical: self._logical,
            Conditional: self._conditional,
            Sequence: self._sequence,
            Call: self._call,
            Each: self._each,
            Present: self._present,
            Bytes: self._bytes,
        }

    def kind(self, expr: Expr, known: Kinds) -> Kind:
        """The kind of a node where a value is needed, which an absent one is not."""
        kind = self._rules[type(expr)](expr, known)
        if isinstance(expr, Constant) and expr.value is None:
            raise KindFault(
                13,
                "None stands only as an argument of a primitive that takes it and as an arm of a "
                "conditional",
                expr.span,
            )
        if isinstance(expr, Name) and isinstance(kind, MaybeKind | NoneKind):
            raise KindFault(15, f"{expr.id} may be absent; read {expr.id}.value", expr.span)
        return kind

    def fitting(self, expr: Expr, wanted: Kind, known: Kinds) -> Kind:
        """The kind of a node that must fit `wanted`."""
        kind = self._for(expr, wanted, known)
        if not fits(kind, wanted):
            raise KindFault(15, f"{_subject(expr)} is {kind} where {wanted} is needed", expr.span)
        return kind

    def _for(self, expr: Expr, wanted: Kind, known: Kinds) -> Kind:
        """The kind of a node that may be absent, or None, if a `Maybe` is wanted."""
        if isinstance(wanted, MaybeKind) and isinstance(expr, Name | Constant):
            return self._rules[type(expr)](expr, known)
        return self.kind(expr, known)

    # Leaves

    def _constant(self, expr: Constant, known: Kinds) -> Kind:
        return _kind_of_value(expr.value)

    def _name(self, expr: Name, known: Kinds) -> Kind:
        kind = known.get(expr.id) or self.position.names(expr.id)
        if kind is not None:
            return kind
        reason = self.position.barred(expr.id)
        if reason is None and expr.id in self.position.tensors:
            reason = f"{expr.id} is a tensor; its contents are no value"
        if reason is None and is_registered(expr.id):
            reason = f"{expr.id} is a dtype; write it quoted, '{expr.id}'"
        raise KindFault(14, reason or self.position.undeclared(expr.id), expr.span)

    def _present(self, expr: Present, known: Kinds) -> Kind:
        if expr.name in self.position.tensors:
            return BOOL
        kind = known.get(expr.name) or self.position.names(expr.name)
        if isinstance(kind, MaybeKind | NoneKind | UnknownKind):
            return BOOL
        if not self.position.is_declared(expr.name):
            reason = self.position.undeclared(expr.name, self.position.tensors)
            raise KindFault(14, reason, expr.span)
        raise KindFault(
            14,
            self.position.barred(expr.name)
            or f"{expr.name} is never absent; present tests tensors, outputs and parameters "
            "that may be None",
            expr.span,
        )

    def _bytes(self, expr: Bytes, known: Kinds) -> Kind:
        if not self.position.sizes:
            raise KindFault(14, "bytes measures tensors in roofline formulas only", expr.span)
        if expr.name not in self.position.tensors or expr.name == "out":
            raise KindFault(23, f"{expr.name} names no tensor", expr.span)
        return DIM

    # Postfixes

    def _attribute(self, expr: Attribute, known: Kinds) -> Kind:
        base = expr.base
        if isinstance(base, Name) and not self._is_value(base, known):
            self._reject_tensor_attribute(base.id, expr)
        is_readable = isinstance(base, Name) or (
            isinstance(base, Attribute) and base.attr == "value"
        )
        if not is_readable:
            raise self._no_attribute(expr)
        kind = self._rules[type(base)](base, known)
        if expr.attr == "value" and isinstance(base, Name):
            return self._payload(expr, base.id, kind)
        return self._field(expr, kind)

    def _is_value(self, name: Name, known: Kinds) -> bool:
        return name.id in known or self.position.names(name.id) is not None

    def _reject_tensor_attribute(self, name: str, expr: Attribute) -> None:
        reason = self.position.barred(name)
        if expr.attr == "value" and reason is not None:
            raise KindFault(14, reason, expr.span)
        if name in self.position.tensors or not self.position.is_declared(name):
            if expr.attr == "shape":
                raise KindFault(13, rejected.tensor_shape(name, None), expr.span)
            if name in self.position.tensors:
                raise self._no_attribute(expr)

    def _no_attribute(self, expr: Attribute) -> KindFault:
        return KindFault(13, rejected.attribute(to_text(expr.base), expr.attr), expr.span)

    def _payload(self, expr: Attribute, name: str, kind: Kind) -> Kind:
        """The kind of `name.value`."""
        if isinstance(kind, MaybeKind):
            return kind.inner
        if isinstance(kind, NoneKind):
            return NEVER
        if isinstance(kind, UnknownKind):
            return UNKNOWN
        if isinstance(kind, AdtKind):
            return self._field(expr, kind)
        raise KindFault(15, f"{name} is never absent; read {name} itself", expr.span)

    def _field(self, expr: Attribute, kind: Kind) -> Kind:
        """The kind of a constructor's name or field."""
        if isinstance(kind, UnknownKind) or kind == NEVER:
            return kind
        if isinstance(kind, MaybeKind):
            base = to_text(expr.base)
            raise KindFault(15, f"{base} may be absent; read {base}.value.{expr.attr}", expr.span)
        if not isinstance(kind, AdtKind):
            raise self._no_attribute(expr)
        constructors = self.position.adts.get(kind.name)
        if constructors is None:
            return UNKNOWN
        if expr.attr == "kind":
            return EnumKind(frozenset(constructors))
        kinds = [fields[expr.attr] for fields in constructors.values() if expr.attr in fields]
        if not kinds:
            raise KindFault(14, f"{kind.name} has no field {expr.attr}", expr.span)
        return join_all(kinds) or union(kinds)

    def _subscript(self, expr: Subscript, known: Kinds) -> Kind:
        self._integer(expr.index, known)
        kind = self.kind(expr.base, known)
        element = _element_kind(expr.base, kind)
        if isinstance(expr.index, Constant):
            _require_item(expr, expr.index.value, kind)
        return element

    def _slice(self, expr: Slice, known: Kinds) -> Kind:
        for bound in (expr.start, expr.stop, expr.step):
            if bound is not None:
                self._integer(bound, known)
        if expr.step == Constant(0):
            raise KindFault(29, f"{to_text(expr)} steps by 0", expr.span)
        return SeqKind(self._element(expr.base, known))

    def _element(self, expr: Expr, known: Kinds) -> Kind:
        """The kind of the items of an operand that must be a sequence."""
        return _element_kind(expr, self.kind(expr, known))

    # Operators

    def _integer(self, expr: Expr, known: Kinds) -> Kind:
        return self.fitting(expr, INT, known)

    def _number(self, expr: Expr, known: Kinds) -> Kind:
        kind = self.kind(expr, known)
        if not is_number(kind):
            raise KindFault(15, f"{_subject(expr)} is {kind} where a number is needed", expr.span)
        return kind

    def _truth(self, expr: Expr, known: Kinds) -> Kind:
        return self.fitting(expr, BOOL, known)

    def _negate(self, expr: Negate, known: Kinds) -> Kind:
        return INT if is_integer(self._number(expr.operand, known)) else VALUE

    def _arithmetic(self, expr: Arithmetic, known: Kinds) -> Kind:
        left, right = self._number(expr.left, known), self._number(expr.right, known)
        divides = expr.op in ("//", "%")
        if divides and expr.right == Constant(0):
            raise KindFault(29, f"{to_text(expr)} divides by 0", expr.span)
        if UNKNOWN in (left, right):
            return UNKNOWN
        if not is_integer(left) or not is_integer(right):
            return VALUE
        if divides:
            is_dim = left == DIM and isinstance(expr.right, Constant) and right == DIM
        else:
            is_dim = left == right == DIM and expr.op != "-"
        return DIM if is_dim else INT

    def _not(self, expr: Not, known: Kinds) -> Kind:
        return self._truth(expr.operand, known)

    def _logical(self, expr: Logical, known: Kinds) -> Kind:
        for operand in expr.operands:
            self._truth(operand, known)
            known = narrow(operand, expr.op == "and", known, self.position.names)
        return BOOL

    def _conditional(self, expr: Conditional, known: Kinds) -> Kind:
        self._truth(expr.test, known)
        arms = [
            self._arm(arm, narrow(expr.test, holds, known, self.position.names))
            for arm, holds in ((expr.then, True), (expr.orelse, False))
        ]
        kind = join(*arms)
        if kind is None:
            raise KindFault(15, f"the arms are {arms[0]} and {arms[1]}", expr.span)
        return kind

    def _arm(self, expr: Expr, known: Kinds) -> Kind:
        return NONE if expr == Constant(None) else self.kind(expr, known)

    def _sequence(self, expr: Sequence, known: Kinds) -> Kind:
        kinds = [self.kind(item, known) for item in expr.items]
        element = join_all(kinds)
        if element is None:
            listed = ", ".join(map(str, kinds))
            raise KindFault(15, f"the items of a tuple are of one kind, not {listed}", expr.span)
        return SeqKind(element, len(kinds))

    # Comparisons

    def _compare(self, expr: Compare, known: Kinds) -> Kind:
        operands = (expr.first, *expr.rest)
        for left, right in pairwise(operands):
            self._reject_shapes(left, right)
        kinds = [self.kind(operand, known) for operand in operands]
        for op, operand_pair, kind_pair in zip(
            expr.ops, pairwise(operands), pairwise(kinds), strict=True
        ):
            _require_comparable(op, operand_pair, kind_pair)
        return BOOL

    def _reject_shapes(self, left: Expr, right: Expr) -> None:
        """`w.shape == (N, K)` and `y.shape == x.shape`."""
        tensors = [self._shape_owner(side) for side in (left, right)]
        if all(tensors):
            raise KindFault(13, rejected.equal_shapes(*map(str, tensors)), left.span)
        for tensor, other in zip(tensors, (right, left), strict=True):
            if tensor:
                shape = f'"[{to_text(other)[1:-1].rstrip(",")}]"'
                is_tuple = isinstance(other, Sequence)
                message = rejected.tensor_shape(tensor, shape if is_tuple else None)
                raise KindFault(13, message, left.span)

    def _shape_owner(self, expr: Expr) -> str | None:
        if not isinstance(expr, Attribute) or expr.attr != "shape":
            return None
        base = expr.base
        if not isinstance(base, Name) or self.position.names(base.id) is not None:
            return None
        return base.id

    def reject_definition(self) -> None:
        """`half == C // 2` with `half` undeclared."""
        expr = self._root
        if not isinstance(expr, Compare) or expr.ops != ("==",):
            return
        for name, other in ((expr.first, expr.rest[0]), (expr.rest[0], expr.first)):
            is_shape = self._shape_owner(other) is not None
            if isinstance(name, Name) and not is_shape and not self.position.is_declared(name.id):
                message = rejected.defining_equation(name.id, to_text(other))
                raise KindFault(13, message, expr.span)

    # Calls

    def _call(self, expr: Call, known: Kinds) -> Kind:
        builtin = calls.resolve(expr, self.position, is_root=expr is self._root)
        if builtin.name in ("max", "min") and len(expr.args) == 2:
            self._reject_scalars(expr, known)
        kinds: list[Kind] = []
        for parameter, argument in calls.bind(expr, builtin):
            kind = self._for(argument, parameter.kind, known)
            calls.require_argument(expr.callee, parameter, argument, kind)
            kinds.append(kind)
        return builtin.result_kind(kinds)

    def _reject_scalars(self, expr: Call, known: Kinds) -> None:
        """`max(a, b)` of two numbers; `max(s, b)` of a sequence has a default."""
        if isinstance(self.kind(expr.args[0], known), IntKind | DimKind):
            texts = [to_text(argument) for argument in expr.args]
            raise KindFault(13, rejected.several_scalars(expr.callee, texts), expr.span)

    def _each(self, expr: Each, known: Kinds) -> Kind:
        if expr.variable in known or self.position.is_declared(expr.variable):
            raise KindFault(14, f"{expr.variable} is declared already", expr.span)
        element = self._element(expr.source, known)
        return SeqKind(self.kind(expr.element, {**known, expr.variable: element}))


def _kind_of_value(value: object) -> Kind:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return DIM if value >= 0 else INT
    if isinstance(value, str):
        return EnumKind(frozenset({value}))
    if isinstance(value, tuple):
        kinds = [_kind_of_value(item) for item in value]
        return SeqKind(join_all(kinds) or union(kinds), len(value))
    return VALUE


def _subject(expr: Expr) -> str:
    text = to_text(expr)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _element_kind(expr: Expr, kind: Kind) -> Kind:
    """The kind of the items of `expr`, which must be a sequence."""
    elements: list[Kind] = []
    for member in alternatives(kind):
        if isinstance(member, UnknownKind):
            elements.append(UNKNOWN)
        elif isinstance(member, SeqKind):
            elements.append(member.element)
        else:
            message = f"{_subject(expr)} is {kind} where a sequence is needed"
            raise KindFault(15, message, expr.span)
    return join_all(elements) or union(elements)


def _require_item(expr: Subscript, index: object, kind: Kind) -> None:
    """Require a literal index to be in range where the length is known."""
    lengths = [m.length if isinstance(m, SeqKind) else None for m in alternatives(kind)]
    longest = max((length for length in lengths if length is not None), default=0)
    is_known = bool(lengths) and None not in lengths
    if isinstance(index, int) and is_known and index not in range(-longest, longest):
        message = f"{_subject(expr)} is out of range: {_subject(expr.base)} is {kind}"
        raise KindFault(29, message, expr.span)


def _require_comparable(op: str, operands: tuple[Expr, Expr], kinds: tuple[Kind, Kind]) -> None:
    """Require `left op right` to make sense."""
    left, right = operands
    if op in ("in", "not in"):
        _require_membership(left, right, *kinds)
    elif op in ("==", "!="):
        _require_overlap(left, right, *kinds)
    elif not _is_ordered(*kinds):
        message = f"`{op}` orders numbers or sequences, not {kinds[0]} and {kinds[1]}"
        raise KindFault(15, message, left.span)


def _require_membership(left: Expr, right: Expr, a: Kind, b: Kind) -> None:
    element = _element_kind(right, b)
    literals = (
        [item for item in right.items if isinstance(item, Constant)]
        if isinstance(right, Sequence)
        else []
    )
    for literal in literals:
        _require_overlap(left, literal, a, _kind_of_value(literal.value))
    if not literals:
        _require_overlap(left, right, a, element)


def _require_overlap(left: Expr, right: Expr, a: Kind, b: Kind) -> None:
    for expr, kind in ((left, a), (right, b)):
        if isinstance(kind, MaybeKind | NoneKind):
            raise KindFault(15, f"{_subject(expr)} may be absent and is not compared", expr.span)
    if overlap(a, b):
        return
    for literal, kind in ((left, b), (right, a)):
        if isinstance(literal, Constant) and isinstance(literal.value, str):
            raise KindFault(15, f"{literal.value!r} is not one of {kind}", literal.span)
    message = f"{_subject(left)} is {a} and {_subject(right)} is {b}, which are never equal"
    raise KindFault(15, message, left.span)


def _is_ordered(a: Kind, b: Kind) -> bool:
    def are_sequences(kind: Kind) -> bool:
        members = alternatives(kind)
        return all(isinstance(member, SeqKind | UnknownKind) for member in members)

    return (is_number(a) and is_number(b)) or (are_sequences(a) and are_sequences(b))
