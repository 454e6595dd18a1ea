"""Evaluation on Python values, at a bounded cost.

Every failure, a too large number or a too long evaluation included, is an `EvaluationFault` at
the part of the text where it arose. Sizes here are plain integers: symbolic ones are the business
of generated code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

from tileops._core.lang.explain import failed_call
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.limits import MAX_STEPS, bounded
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
    Slice,
    Subscript,
)
from tileops._core.lang.nodes import Sequence as TupleNode
from tileops._core.lang.primitives.contents import Contents
from tileops._core.lang.primitives.sampling import generator_for
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.printer import to_text
from tileops._core.lang.values import read_field, shown

_ITEMS_PER_STEP = 8
"""Items of a sequence that a built-in or a comparison goes through at the cost of one step."""

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


class Scope(Protocol):
    """Where an expression finds what its names stand for."""

    def value(self, name: str) -> object:
        """The value of a name; None for an absent `Maybe`. `KeyError` when it is not known."""

    def present(self, name: str) -> bool:
        """Whether a tensor, an output, a `Maybe` or `out` is there."""

    def bytes(self, name: str) -> int:
        """The size of a tensor in bytes."""


class NoNames:
    """The scope of an expression that reads no name."""

    def value(self, name: str) -> object:
        """Nothing has a value."""
        raise KeyError(name)

    def present(self, name: str) -> bool:
        """Nothing is there."""
        raise KeyError(name)

    def bytes(self, name: str) -> int:
        """Nothing has a size."""
        raise KeyError(name)


def evaluate(expr: Expr, scope: Scope) -> Any:
    """The value of an expression.

    Raises:
        EvaluationFault: an operation, a primitive or a name failed, or the cost is too high.
    """
    return _Evaluation(scope).value(expr)


def generate(call: Call, scope: Scope, owner: str) -> Contents:
    """What a generator yields.

    Args:
        call: the generator's call.
        scope: finds the values of its arguments.
        owner: `"<op>:<tensor>"`, which seeds random generators.

    Raises:
        EvaluationFault: an argument or the generator failed.
    """
    builtin = BUILTINS[call.callee]
    extra: dict[str, Random] = {"rng": generator_for(owner)} if builtin.random else {}
    contents: Contents = _Evaluation(scope).call(call, (), extra)
    return contents


def holds(call: Call, contents: Sequence[Any], scope: Scope) -> bool:
    """Whether a predicate holds for the contents of a metadata tensor.

    Raises:
        EvaluationFault: an argument or the predicate failed, which counts as not holding.
    """
    return bool(_Evaluation(scope).call(call, (contents,), {}))


class _Evaluation:
    """One evaluation: the values of `for` variables, and the steps left."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._variables: dict[str, object] = {}
        self._steps = MAX_STEPS

    def value(self, expr: Expr) -> Any:
        """The value of a node."""
        self._spend(1, expr)
        return _RULES[type(expr)](self, expr)

    def _spend(self, steps: int, expr: Expr) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise EvaluationFault(f"takes more than {MAX_STEPS} steps", expr.span)

    def _spend_items(self, value: object, expr: Expr) -> None:
        if isinstance(value, tuple | list):
            self._spend(len(value) // _ITEMS_PER_STEP, expr)

    def _guarded(self, expr: Expr, compute: Callable[[], Any]) -> Any:
        """A computation whose own errors become faults of `expr`."""
        try:
            return bounded(compute())
        except (ArithmeticError, ValueError, TypeError) as error:
            raise EvaluationFault(f"{to_text(expr)}: {error}", expr.span) from error

    # Leaves

    def _constant(self, expr: Constant) -> Any:
        return expr.value

    def _name(self, expr: Name) -> Any:
        if expr.id in self._variables:
            return self._variables[expr.id]
        try:
            return self._scope.value(expr.id)
        except KeyError as error:
            raise EvaluationFault(f"{expr.id} is not known", expr.span) from error

    def _present(self, expr: Present) -> bool:
        return self._scope.present(expr.name)

    def _bytes(self, expr: Bytes) -> int:
        try:
            return self._scope.bytes(expr.name)
        except KeyError:
            raise EvaluationFault(f"{expr.name} is absent", expr.span) from None

    # Postfixes

    def _attribute(self, expr: Attribute) -> Any:
        base = self.value(expr.base)
        if base is None:
            raise EvaluationFault(f"{to_text(expr.base)} is absent", expr.span)
        if expr.attr == "value":
            return base
        try:
            return read_field(base, expr.attr)
        except AttributeError as error:
            message = f"{to_text(expr.base)} has no {expr.attr}: it is {shown(base)}"
            raise EvaluationFault(message, expr.span) from error

    def _subscript(self, expr: Subscript) -> Any:
        base, index = self.value(expr.base), self.value(expr.index)
        try:
            return base[index]
        except (IndexError, TypeError) as error:
            message = f"{to_text(expr)}: no item {shown(index)} of {shown(base)}"
            raise EvaluationFault(message, expr.span) from error

    def _slice(self, expr: Slice) -> Any:
        base = self.value(expr.base)
        bounds = [
            None if bound is None else self.value(bound)
            for bound in (expr.start, expr.stop, expr.step)
        ]
        self._spend_items(base, expr)
        return self._guarded(expr, lambda: base[slice(*bounds)])

    # Operators

    def _negate(self, expr: Negate) -> Any:
        operand = self._number(expr.operand)
        return -operand

    def _arithmetic(self, expr: Arithmetic) -> Any:
        left, right = self._number(expr.left), self._number(expr.right)
        if expr.op in ("//", "%") and right == 0:
            raise EvaluationFault(f"{to_text(expr)} divides by 0", expr.span)
        return self._guarded(expr, partial(_ARITHMETIC[expr.op], left, right))

    def _number(self, expr: Expr) -> Any:
        value = self.value(expr)
        if not isinstance(value, int | float | complex):
            raise EvaluationFault(f"{to_text(expr)} is {shown(value)}, no number", expr.span)
        return value

    def _truth(self, expr: Expr) -> bool:
        value = self.value(expr)
        if not isinstance(value, bool):
            raise EvaluationFault(f"{to_text(expr)} is {shown(value)}, no truth value", expr.span)
        return value

    def _not(self, expr: Not) -> bool:
        return not self._truth(expr.operand)

    def _logical(self, expr: Logical) -> bool:
        decisive = expr.op == "or"
        for operand in expr.operands:
            if self._truth(operand) is decisive:
                return decisive
        return not decisive

    def _conditional(self, expr: Conditional) -> Any:
        return self.value(expr.then if self._truth(expr.test) else expr.orelse)

    def _compare(self, expr: Compare) -> bool:
        left = self._comparable(expr.first)
        for op, operand in zip(expr.ops, expr.rest, strict=True):
            right = self._comparable(operand)
            if not self._guarded(expr, partial(_COMPARISONS[op], left, right)):
                return False
            left = right
        return True

    def _comparable(self, expr: Expr) -> Any:
        """A value for comparison; lists and tuples compare alike."""
        value = self.value(expr)
        self._spend_items(value, expr)
        return _as_tuple(value)

    def _tuple(self, expr: TupleNode) -> tuple[Any, ...]:
        return tuple([self.value(item) for item in expr.items])

    # Calls

    def _call(self, expr: Call) -> Any:
        return self.call(expr, (), {})

    def call(self, expr: Call, before: tuple[Any, ...], extra: Mapping[str, Any]) -> Any:
        """The result of a built-in, `before` preceding its written arguments."""
        builtin = BUILTINS.get(expr.callee)
        if builtin is None:
            raise EvaluationFault(f"{expr.callee} is not a built-in", expr.span)
        arguments = [self.value(argument) for argument in expr.args]
        named = {name: self.value(argument) for name, argument in expr.keywords}
        for argument in arguments:
            self._spend_items(argument, expr)
        try:
            return bounded(builtin.function(*before, *arguments, **named, **extra))
        except (ValueError, ArithmeticError, TypeError) as error:
            reason = failed_call(expr, str(error), self._known)
            raise EvaluationFault(reason, expr.span) from error

    def _known(self, name: str) -> object:
        return self._variables[name] if name in self._variables else self._scope.value(name)

    def _each(self, expr: Each) -> list[Any]:
        source = self.value(expr.source)
        if not isinstance(source, list | tuple):
            message = f"{to_text(expr.source)} is {shown(source)}, no sequence"
            raise EvaluationFault(message, expr.span)
        items: list[Any] = []
        for item in source:
            self._variables[expr.variable] = item
            items.append(self.value(expr.element))
        self._variables.pop(expr.variable, None)
        return items


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple([_as_tuple(item) for item in value])
    return value


_RULES: Mapping[type[Node], Callable[[_Evaluation, Any], Any]] = {
    Constant: _Evaluation._constant,
    Name: _Evaluation._name,
    Attribute: _Evaluation._attribute,
    Subscript: _Evaluation._subscript,
    Slice: _Evaluation._slice,
    Negate: _Evaluation._negate,
    Arithmetic: _Evaluation._arithmetic,
    Compare: _Evaluation._compare,
    Not: _Evaluation._not,
    Logical: _Evaluation._logical,
    Conditional: _Evaluation._conditional,
    TupleNode: _Evaluation._tuple,
    Call: _Evaluation._call,
    Each: _Evaluation._each,
    Present: _Evaluation._present,
    Bytes: _Evaluation._bytes,
}
"""How each kind of node is evaluated."""
