"""Expression trees to Python text.

A tree becomes a Python syntax tree first, so precedence and quoting are Python's own and no text
of a spec is spliced. Where a value may be symbolic, connectives, conditionals and comparisons
become calls of helpers that never ask for a Python truth value; elsewhere they stay operators.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, cast

from tileops._core.codegen.analysis import depends_on_size, may_be_sequence, may_be_truth
from tileops._core.codegen.names import Names, spell
from tileops._core.codegen.writer import identifier
from tileops._core.lang.nodes import (
    Arithmetic,
    Attribute,
    Bytes,
    Call,
    Compare,
    CompareOp,
    Conditional,
    Constant,
    Each,
    Expr,
    Logical,
    Name,
    Negate,
    Not,
    Present,
    Slice,
    Subscript,
)
from tileops._core.lang.nodes import Sequence as TupleNode
from tileops._core.lang.reads import read_name

_ARITHMETIC: dict[str, ast.operator] = {
    "+": ast.Add(),
    "-": ast.Sub(),
    "*": ast.Mult(),
    "//": ast.FloorDiv(),
    "%": ast.Mod(),
}
_COMPARE: dict[str, ast.cmpop] = {
    "==": ast.Eq(),
    "!=": ast.NotEq(),
    "<": ast.Lt(),
    "<=": ast.LtE(),
    ">": ast.Gt(),
    ">=": ast.GtE(),
    "in": ast.In(),
    "not in": ast.NotIn(),
}
_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


class Lowering:
    """Prints expressions of one plan, and collects the helpers that the text calls.

    Args:
        names: the spelling of names and what is known of their values.
        of_record: whether the presence of outputs is on record, and not to be inferred.
    """

    def __init__(self, names: Names, *, of_record: bool = False) -> None:
        self.names = names
        self.of_record = of_record
        self.helpers: set[str] = set()
        self._symbolic_items: set[str] = set()
        self._forms: dict[type, Callable[..., ast.expr]] = {
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
            TupleNode: self._sequence,
            Call: self._call,
            Each: self._each,
            Present: self._present,
            Bytes: self._bytes,
        }

    def text(self, expr: Expr) -> str:
        """The expression in Python."""
        return _printed(self._lower(expr))

    def negated(self, expr: Expr) -> str:
        """The opposite of a truth that is no symbolic value, in Python."""
        tree = ast.UnaryOp(ast.Not(), self._lower(expr))
        opposite = {
            ast.Eq: ast.NotEq(),
            ast.NotEq: ast.Eq(),
            ast.In: ast.NotIn(),
            ast.NotIn: ast.In(),
        }
        if isinstance(tree.operand, ast.Compare) and len(tree.operand.ops) == 1:
            op = opposite.get(type(tree.operand.ops[0]))
            if op is not None:
                sides = tree.operand
                return _printed(ast.Compare(sides.left, [op], sides.comparators))
        if isinstance(tree.operand, ast.UnaryOp) and isinstance(tree.operand.op, ast.Not):
            return _printed(tree.operand.operand)
        return _printed(tree)

    def tuple_of(self, axes: Sequence[Expr | tuple[Expr]]) -> str:
        """The tuple of axes, `(expr,)` standing for a run of them."""
        if len(axes) == 1 and isinstance(axes[0], tuple) and self._is_tuple(axes[0][0]):
            return self.text(axes[0][0])
        items = [
            ast.Starred(self._lower(axis[0])) if isinstance(axis, tuple) else self._lower(axis)
            for axis in axes
        ]
        return _printed(ast.Tuple(items))

    def _is_tuple(self, expr: Expr) -> bool:
        """Whether the value is certainly a tuple, and not a list."""
        if isinstance(expr, Name):
            return expr.id in self.names.signature.forall
        return isinstance(expr, Call)

    def helper(self, name: str) -> str:
        """The name of a helper, which the unit then imports."""
        self.helpers.add(name)
        return name

    def is_symbolic(self, expr: Expr) -> bool:
        """Whether the value may be symbolic."""
        return depends_on_size(
            expr, lambda name: name in self._symbolic_items or self.names.is_symbolic(name)
        )

    def _lower(self, expr: Expr) -> ast.expr:
        return self._forms[type(expr)](expr)

    def _helper_call(self, name: str, arguments: Sequence[ast.expr]) -> ast.expr:
        return ast.Call(ast.Name(self.helper(name)), list(arguments), [])

    def _constant(self, expr: Constant) -> ast.expr:
        if isinstance(expr.value, float) and expr.value != expr.value:
            return ast.Call(ast.Name("float"), [ast.Constant("nan")], [])
        return ast.Constant(cast("Any", expr.value))  # a tuple prints like any other

    def _name(self, expr: Name) -> ast.expr:
        return ast.Name(self.names.variable(expr.id))

    def _attribute(self, expr: Attribute) -> ast.expr:
        if expr.attr == "value" and read_name(expr) is not None and not self._is_field(expr):
            return self._lower(expr.base)
        field = ast.Attribute(self._lower(expr.base), identifier(expr.attr))
        if expr.attr != "kind" and self._is_python_enum(expr):
            return ast.Attribute(field, "value")
        return field

    def _is_field(self, expr: Attribute) -> bool:
        """Whether `p.value` reads a field of that name and not the payload of a `Maybe`."""
        return isinstance(expr.base, Name) and self.names.is_field(expr.base.id, expr.attr)

    def _is_python_enum(self, expr: Attribute) -> bool:
        owner = read_name(expr.base)
        return owner is not None and self.names.is_python_enum(owner, expr.attr)

    def _subscript(self, expr: Subscript) -> ast.expr:
        return ast.Subscript(self._lower(expr.base), self._lower(expr.index))

    def _slice(self, expr: Slice) -> ast.expr:
        bounds = [
            None if bound is None else self._lower(bound)
            for bound in (expr.start, expr.stop, expr.step)
        ]
        return ast.Subscript(self._lower(expr.base), ast.Slice(*bounds))

    def _negate(self, expr: Negate) -> ast.expr:
        return ast.UnaryOp(ast.USub(), self._lower(expr.operand))

    def _arithmetic(self, expr: Arithmetic) -> ast.expr:
        right = self._lower(expr.right)
        if expr.op in ("//", "%") and self.is_symbolic(expr.right):
            right = self._helper_call("nonzero", [right])
        return ast.BinOp(self._lower(expr.left), _ARITHMETIC[expr.op], right)

    def _compare(self, expr: Compare) -> ast.expr:
        operands = (expr.first, *expr.rest)
        if len(expr.ops) == 1:
            return self._pair(expr.first, expr.ops[0], expr.rest[0])
        plain = not any(may_be_sequence(operand, self.names) for operand in operands)
        if plain and not self.is_symbolic(expr):
            return ast.Compare(
                self._lower(expr.first),
                [_COMPARE[op] for op in expr.ops],
                [self._lower(operand) for operand in expr.rest],
            )
        return self._chain(operands, expr.ops)

    def _chain(self, operands: tuple[Expr, ...], ops: tuple[CompareOp, ...]) -> ast.expr:
        """A chain as a conjunction; an operand between two comparisons is evaluated twice.

        That costs nothing but time: expressions have no effects.
        """
        pairs = zip(operands, ops, operands[1:], strict=False)
        return self._connect("and", [self._pair(*pair) for pair in pairs], symbolic=True)

    def _pair(self, left: Expr, op: CompareOp, right: Expr) -> ast.expr:
        if isinstance(right, Constant) and isinstance(right.value, bool) and op in ("==", "!="):
            return self._lower(left if right.value is (op == "==") else Not(left))
        symbolic = self.is_symbolic(left) or self.is_symbolic(right)
        sequences = [may_be_sequence(side, self.names) for side in (left, right)]
        sides = [self._lower(left), self._lower(right)]
        if op in ("in", "not in"):
            if not (symbolic or sequences[0] or self._holds_sequences(right)):
                return ast.Compare(sides[0], [_COMPARE[op]], [sides[1]])
            found = self._helper_call("contains", [sides[1], sides[0]])
            return found if op == "in" else self._helper_call("sym_not", [found])
        if any(sequences) and op in ("==", "!="):
            same = self._helper_call("same_items", sides)
            return same if op == "==" else self._helper_call("sym_not", [same])
        truths = may_be_truth(left, self.names) or may_be_truth(right, self.names)
        if symbolic and truths and op in ("==", "!="):
            same = self._helper_call("equal", sides)
            return same if op == "==" else self._helper_call("sym_not", [same])
        if all(sequences):
            sides = [ast.Call(ast.Name("tuple"), [side], []) for side in sides]
        return ast.Compare(sides[0], [_COMPARE[op]], [sides[1]])

    def _holds_sequences(self, expr: Expr) -> bool:
        """Whether an item of a sequence may be a sequence itself."""
        if isinstance(expr, Constant) and isinstance(expr.value, tuple):
            return any(isinstance(item, tuple) for item in expr.value)
        items = expr.items if isinstance(expr, TupleNode) else ()
        return any(may_be_sequence(item, self.names) for item in items)

    def _not(self, expr: Not) -> ast.expr:
        operand = self._lower(expr.operand)
        if self.is_symbolic(expr.operand):
            return self._helper_call("sym_not", [operand])
        return ast.UnaryOp(ast.Not(), operand)

    def _logical(self, expr: Logical) -> ast.expr:
        operands = [self._lower(operand) for operand in expr.operands]
        symbolic = any(self.is_symbolic(operand) for operand in expr.operands[:-1])
        return self._connect(expr.op, operands, symbolic=symbolic)

    def _connect(self, op: str, operands: list[ast.expr], *, symbolic: bool) -> ast.expr:
        """A conjunction or disjunction that stops early at a Python value.

        The operators do so themselves as long as every operand but the last is a Python value.
        """
        if not symbolic:
            return ast.BoolOp(ast.And() if op == "and" else ast.Or(), operands)
        later = [ast.Lambda(_NO_ARGUMENTS, operand) for operand in operands[1:]]
        return self._helper_call(f"sym_{op}", [operands[0], *later])

    def _conditional(self, expr: Conditional) -> ast.expr:
        arms = [self._lower(expr.then), self._lower(expr.orelse)]
        if not self.is_symbolic(expr.test):
            return ast.IfExp(self._lower(expr.test), *arms)
        lazy = [ast.Lambda(_NO_ARGUMENTS, arm) for arm in arms]
        return self._helper_call("sym_if", [self._lower(expr.test), *lazy])

    def _sequence(self, expr: TupleNode) -> ast.expr:
        return ast.Tuple([self._lower(item) for item in expr.items])

    def _call(self, expr: Call) -> ast.expr:
        arguments = [self._lower(argument) for argument in expr.args]
        if expr.callee == "len":
            return ast.Call(ast.Name("len"), arguments, [])
        keywords = [ast.keyword(identifier(key), self._lower(v)) for key, v in expr.keywords]
        return ast.Call(ast.Name(self.helper(primitive(expr.callee))), arguments, keywords)

    def _each(self, expr: Each) -> ast.expr:
        source = self._lower(expr.source)
        if self.is_symbolic(expr.source):
            self._symbolic_items.add(expr.variable)
        element = self._lower(expr.element)
        self._symbolic_items.discard(expr.variable)
        target = ast.Name(spell("item", expr.variable))
        return ast.ListComp(element, [ast.comprehension(target, source, [], 0)])

    def _present(self, expr: Present) -> ast.expr:
        output = self.names.signature.outputs.get(expr.name)
        if output is not None and not self.of_record:
            condition = output.nullable
            if condition is None or condition.node is None:
                return ast.Constant(True)
            return self._lower(condition.node)
        if self.names.param(expr.name) is None:
            return ast.Name(spell("has", expr.name))
        value = ast.Name(self.names.variable(expr.name))
        return ast.Compare(value, [ast.IsNot()], [ast.Constant(None)])

    def _bytes(self, expr: Bytes) -> ast.expr:
        method = ast.Attribute(ast.Name("record"), "bytes")
        return ast.Call(method, [ast.Constant(expr.name)], [])


def primitive(callee: str) -> str:
    """The helper that stands for a primitive: `pool.out` is `pool_out`, `max` is `max_of`."""
    if "." in callee:
        return callee.replace(".", "_")
    return f"{callee}_of" if callee in {"sum", "max", "min", "all"} else callee


def _printed(tree: ast.expr) -> str:
    """The text of a tree; Python 3.10 alone puts a blank before the colon of a lambda."""
    return ast.unparse(tree).replace("lambda :", "lambda:")
