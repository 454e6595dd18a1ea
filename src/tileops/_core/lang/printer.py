"""Printing trees: text that parses to an equal tree, with the fewest parentheses.

Folded constants print as the literal or tuple they stand for. The rules of precedence are those
of the parser.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

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
    FamilyApplication,
    Logical,
    Name,
    Negate,
    Node,
    Not,
    Present,
    Sequence,
    Shape,
    ShapeList,
    Slice,
    Splice,
    Subscript,
)

_CONDITIONAL, _OR, _AND, _NOT, _COMPARE, _SUM, _TERM, _UNARY, _POSTFIX = range(9)


def to_text(node: Expr | Shape | Splice) -> str:
    """The text of an expression, a shape, or a spliced axis."""
    return _PRINTERS[type(node)](node)


def _within(node: Expr, level: int) -> str:
    """`node` where the grammar admits rules from `level` on."""
    text = to_text(node)
    return text if _level(node) >= level else f"({text})"


def _level(node: Expr) -> int:
    """The loosest rule of the grammar that derives `node`."""
    if isinstance(node, Logical):
        return _OR if node.op == "or" else _AND
    if isinstance(node, Arithmetic):
        return _SUM if node.op in ("+", "-") else _TERM
    if isinstance(node, Constant):
        is_negative = isinstance(node.value, int | float) and literal(node.value)[0] == "-"
        return _UNARY if is_negative else _POSTFIX
    return _LEVELS.get(type(node), _POSTFIX)


_LEVELS: dict[type[Node], int] = {
    Conditional: _CONDITIONAL,
    Not: _NOT,
    Compare: _COMPARE,
    Negate: _UNARY,
}


def literal(value: object) -> str:
    """The text of a constant."""
    if isinstance(value, tuple | list):
        items = [literal(item) for item in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, str):
        return f"'{value}'" if "'" not in value else f'"{value}"'
    return repr(value)


def _constant(node: Constant) -> str:
    return literal(node.value)


def _name(node: Name) -> str:
    return node.id


def _attribute(node: Attribute) -> str:
    return f"{_base(node.base)}.{node.attr}"


def _base(node: Expr) -> str:
    """What a postfix follows; a number needs parentheses before a dot."""
    is_number = isinstance(node, Constant) and type(node.value) in (int, float)
    text = _within(node, _POSTFIX)
    return f"({text})" if is_number and text[0] != "(" else text


def _subscript(node: Subscript) -> str:
    return f"{_base(node.base)}[{to_text(node.index)}]"


def _slice(node: Slice) -> str:
    start, stop, step = (
        "" if bound is None else to_text(bound) for bound in (node.start, node.stop, node.step)
    )
    return f"{_base(node.base)}[{start}:{stop}{':' + step if node.step is not None else ''}]"


def _negate(node: Negate) -> str:
    text = _within(node.operand, _UNARY)
    is_number = isinstance(node.operand, Constant) and type(node.operand.value) in (int, float)
    return f"-({text})" if is_number and text[0] != "-" else f"-{text}"


def _arithmetic(node: Arithmetic) -> str:
    level = _level(node)
    return f"{_within(node.left, level)} {node.op} {_within(node.right, level + 1)}"


def _compare(node: Compare) -> str:
    parts = [_within(node.first, _SUM)]
    for op, operand in zip(node.ops, node.rest, strict=True):
        parts.append(f"{op} {_within(operand, _SUM)}")
    return " ".join(parts)


def _not(node: Not) -> str:
    return f"not {_within(node.operand, _NOT)}"


def _logical(node: Logical) -> str:
    level = _level(node) + 1
    return f" {node.op} ".join(_within(operand, level) for operand in node.operands)


def _conditional(node: Conditional) -> str:
    then, test = _within(node.then, _OR), _within(node.test, _OR)
    return f"{then} if {test} else {to_text(node.orelse)}"


def _sequence(node: Sequence) -> str:
    items = [to_text(item) for item in node.items]
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _call(node: Call) -> str:
    arguments = [to_text(argument) for argument in node.args]
    arguments += [f"{name}={to_text(value)}" for name, value in node.keywords]
    return f"{node.callee}({', '.join(arguments)})"


def _each(node: Each) -> str:
    return f"{to_text(node.element)} for {node.variable} in {_within(node.source, _OR)}"


def _present(node: Present) -> str:
    return f"present({node.name})"


def _bytes(node: Bytes) -> str:
    return f"bytes({node.name})"


def _splice(node: Splice) -> str:
    return f"*{_within(node.value, _POSTFIX)}"


def _shape_list(node: ShapeList) -> str:
    return f"[{', '.join(to_text(axis) for axis in node.axes)}]"


def _family(node: FamilyApplication) -> str:
    return f"{node.family}[{', '.join(to_text(argument) for argument in node.args)}]"


_PRINTERS: dict[type[Node], Callable[[Any], str]] = {
    Constant: _constant,
    Name: _name,
    Attribute: _attribute,
    Subscript: _subscript,
    Slice: _slice,
    Negate: _negate,
    Arithmetic: _arithmetic,
    Compare: _compare,
    Not: _not,
    Logical: _logical,
    Conditional: _conditional,
    Sequence: _sequence,
    Call: _call,
    Each: _each,
    Present: _present,
    Bytes: _bytes,
    Splice: _splice,
    ShapeList: _shape_list,
    FamilyApplication: _family,
}
