"""Expressions as a program runs them: operands in order, stopping early.

Folding may drop an operand wherever it stands; a running program reads operands from left to
right. Where nothing that is missing on a branch would be read there, the text as written serves
all branches at once, and that is what a reader of generated code expects to find. Otherwise a
condition is rebuilt from the branches on which it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from tileops._core.lang.nodes import (
    Attribute,
    Bytes,
    Compare,
    Conditional,
    Constant,
    Expr,
    Logical,
    Name,
    Not,
    Present,
)
from tileops._core.lang.walk import children
from tileops._core.signature.discriminants import Point
from tileops._core.signature.facts import Facts
from tileops._core.signature.plan import Discriminant, Guard, Value


def reached(expr: Expr, facts: Facts, point: Point) -> Iterator[Expr]:
    """The names, attributes, presences and sizes that are read before evaluation stops."""
    if isinstance(expr, Conditional):
        yield from reached(expr.test, facts, point)
        test = facts.fold(expr.test, point)
        for arm, chosen in ((expr.then, True), (expr.orelse, False)):
            if not isinstance(test, Constant) or test.value is chosen:
                yield from reached(arm, facts, point)
    elif isinstance(expr, Logical):
        for operand in expr.operands:
            yield from reached(operand, facts, point)
            if facts.fold(operand, point) == Constant(expr.op == "or"):
                return
    elif isinstance(expr, Name | Attribute | Present | Bytes):
        yield expr
    else:
        for child in children(expr):
            yield from reached(cast("Expr", child), facts, point)


def runs_on(expr: Expr, facts: Facts, point: Point) -> bool:
    """Whether an expression reads no payload or field that is missing at a point."""
    return all(facts.has_payload(read, point) for read in reached(expr, facts, point))


def from_guard(guard: Guard, discriminants: Mapping[str, Discriminant]) -> Expr:
    """The condition that a guard states, as an expression."""
    clauses = [
        _join("and", [_test(discriminants[name], values) for name, values in clause.items()])
        for clause in guard.clauses
    ]
    return _join("or", clauses)


def _join(op: Any, operands: list[Expr]) -> Expr:
    if not operands:
        return Constant(op == "and")
    return operands[0] if len(operands) == 1 else Logical(op, tuple(operands))


def _test(discriminant: Discriminant, values: Iterable[Value]) -> Expr:
    """That a discriminant has one of some values."""
    name = discriminant.name
    admitted = [value for value in discriminant.values if value in set(values)]
    if discriminant.source != "param":
        return Present(name) if True in admitted else Not(Present(name))
    optional = None in discriminant.values
    read: Expr = Attribute(Name(name), "value") if optional else Name(name)
    given = [value for value in admitted if value is not None]
    if optional and len(given) == len(discriminant.values) - 1:
        test: Expr = Present(name)
    else:
        test = _join("or", [_equals(read, value) for value in given])
        test = _join("and", [Present(name), test]) if optional else test
    return _join("or", [Not(Present(name)), test]) if None in admitted else test


def _equals(read: Expr, value: Value) -> Expr:
    if isinstance(value, bool):
        return read if value else Not(read)
    if not isinstance(value, tuple):
        return Compare(read, ("==",), (Constant(value),))
    constructor, fields = cast("tuple[str, tuple[tuple[str, bool | str], ...]]", value)
    tests = [Compare(Attribute(read, "kind"), ("==",), (Constant(constructor),))]
    return _join("and", [*tests, *(_equals(Attribute(read, f), v) for f, v in fields)])
