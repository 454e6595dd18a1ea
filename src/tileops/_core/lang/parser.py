"""The one parser of expressions and shapes: text to trees.

A recursive descent with a bound on nesting, so no input exhausts the stack; the trees it returns
are bounded in depth too, so no later pass does. It decides form only: which names exist and what
kinds things have is the business of `infer`.
"""

from __future__ import annotations

import keyword
import math
from typing import TypeVar, cast

from tileops._core.lang import rejected
from tileops._core.lang.cursor import Cursor
from tileops._core.lang.nodes import (
    Arithmetic,
    ArithmeticOp,
    Attribute,
    Bytes,
    Call,
    Compare,
    CompareOp,
    Conditional,
    Constant,
    Each,
    Expr,
    FamilyApplication,
    Name,
    Negate,
    Not,
    Present,
    Sequence,
    Shape,
    ShapeList,
    Slice,
    Splice,
    Subscript,
)
from tileops._core.lang.printer import to_text
from tileops._core.lang.tokens import MAX_TEXT
from tileops._core.lang.walk import deepest, logical

MAX_DEPTH = 100
"""Levels of a tree; a chain such as `a + b + c` has one per operator."""

AGGREGATES = frozenset({"all", "sum", "max", "min"})
"""The primitives that take `element for name in sequence`."""

_WIDENING = 5
"""Printing makes no text more than so many times as long: `1e15` becomes `1000000000000000.0`."""

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_LITERALS = {"True": True, "False": False, "None": None}
_NONE = Constant(None)

Tree = TypeVar("Tree", Expr, Shape)


def parse_expression(text: str) -> Expr:
    """The tree of an expression.

    Raises:
        LanguageFault: the text is no expression of the language.

    Example:
        >>> parse_expression("2 * C")
        Arithmetic(op='*', left=Constant(value=2), right=Name(id='C'))
    """
    parser = _Parser(text)
    return parser.whole(parser.expression())


def parse_shape(text: str) -> Shape:
    """The tree of a shape: a list of axes, or a family applied to arguments.

    Raises:
        LanguageFault: the text is no shape of the language.

    Example:
        >>> parse_shape("[*S, N]")
        ShapeList(axes=(Splice(value=Name(id='S')), Name(id='N')))
    """
    parser = _Parser(text)
    return parser.whole(parser.shape())


class _Parser(Cursor):
    """One method per rule of the grammar, loosest first."""

    def whole(self, tree: Tree) -> Tree:
        """`tree`, which must reach the end of the text, be of bounded depth and print as a text."""
        self.finish()
        node = deepest(tree, MAX_DEPTH)
        if node is not None:
            raise self.fault(f"a tree of more than {MAX_DEPTH} levels", node.span[0])
        if len(self.text) > MAX_TEXT // _WIDENING and len(to_text(tree)) > MAX_TEXT:
            message = f"longer than {MAX_TEXT} characters with a blank beside each operator"
            raise self.fault(message, tree.span[0])
        return tree

    def _source(self, node: Expr) -> str:
        return self.text[node.span[0] : node.span[1]]

    # Shapes

    def shape(self) -> Shape:
        start = self.token.start
        if self.token.type == "name" and self.peek(1).text == "[":
            return self._family(start)
        if not self.accept("["):
            raise self.unexpected("a shape is `[axis, …]` or `Family[argument, …]`")
        axes: list[Expr | Splice] = []
        while not self.at("]"):
            axes.append(self._axis())
            if not self.accept(","):
                break
        self.expect("]")
        return ShapeList(tuple(axes), span=self.span(start))

    def _family(self, start: int) -> FamilyApplication:
        family = self._identifier("a type family")
        self.expect("[")
        arguments = [self.expression()]
        while self.accept(","):
            arguments.append(self.expression())
        self.expect("]")
        return FamilyApplication(family, tuple(arguments), span=self.span(start))

    def _axis(self) -> Expr | Splice:
        start = self.token.start
        if self.accept("*"):
            return Splice(self._postfix(), span=self.span(start))
        return self.expression()

    # Operators

    def expression(self) -> Expr:
        with self.nested():
            start = self.token.start
            then = self._either()
            if not self.accept("if"):
                return then
            test = self._either()
            self.expect("else")
            orelse = self.expression()
            return Conditional(test, then, orelse, span=self.span(start))

    def _either(self) -> Expr:
        start = self.token.start
        operands = [self._both()]
        while self.accept("or"):
            operands.append(self._both())
        return logical("or", operands, self.span(start))

    def _both(self) -> Expr:
        start = self.token.start
        operands = [self._negation()]
        while self.accept("and"):
            operands.append(self._negation())
        return logical("and", operands, self.span(start))

    def _negation(self) -> Expr:
        start = self.token.start
        if not self.accept("not"):
            return self._comparison()
        with self.nested():
            return Not(self._negation(), span=self.span(start))

    def _comparison(self) -> Expr:
        start = self.token.start
        chain = [self._sum()]
        ops: list[CompareOp] = []
        while (op := self._comparison_operator(chain[-1])) is not None:
            ops.append(op)
            chain.append(self._sum())
            self._reject_none(op, chain[-2], chain[-1])
        if not ops:
            return chain[0]
        return Compare(chain[0], tuple(ops), tuple(chain[1:]), span=self.span(start))

    def _comparison_operator(self, left: Expr) -> CompareOp | None:
        token = self.token
        if token.type == "name" and token.text == "is":
            negated = self.peek(1).text == "not"
            raise self.fault(rejected.compared_with_none(self._source(left), negated))
        if self.at("in", *_COMPARISONS):
            return cast("CompareOp", self.advance().text)
        if self.at("not") and self.peek(1).text == "in":
            self.advance()
            self.advance()
            return "not in"
        return None

    def _reject_none(self, op: CompareOp, left: Expr, right: Expr) -> None:
        if _NONE in (left, right):
            subject = right if left == _NONE else left
            raise self.fault(
                rejected.compared_with_none(self._source(subject), op == "!="), left.span[0]
            )

    def _sum(self) -> Expr:
        start = self.token.start
        left = self._term()
        while self.at("+", "-"):
            op = cast("ArithmeticOp", self.advance().text)
            left = Arithmetic(op, left, self._term(), span=self.span(start))
        return left

    def _term(self) -> Expr:
        start = self.token.start
        left = self._unary()
        while self.at("*", "//", "%"):
            op = cast("ArithmeticOp", self.advance().text)
            left = Arithmetic(op, left, self._unary(), span=self.span(start))
        return left

    def _unary(self) -> Expr:
        start = self.token.start
        if not self.accept("-"):
            return self._postfix()
        is_number = self.token.type in ("int", "float") or self.token.text == "inf"
        with self.nested():
            operand = self._unary()
        if is_number and isinstance(operand, Constant) and isinstance(operand.value, int | float):
            return Constant(-operand.value, span=self.span(start))
        return Negate(operand, span=self.span(start))

    # Postfixes and atoms

    def _postfix(self) -> Expr:
        start = self.token.start
        node = self._atom()
        while self.at(".", "[", "("):
            if self.at("("):
                raise self.fault("only a named primitive is called")
            if self.accept("["):
                node = self._index(node, start)
            else:
                self.advance()
                attribute = self.expect_name("an attribute").text
                node = Attribute(node, attribute, span=self.span(start))
        return node

    def _index(self, base: Expr, start: int) -> Expr:
        """What follows `base[`."""
        bounds: list[Expr | None] = [None if self.at(":", "]") else self.expression()]
        while len(bounds) < 3 and self.accept(":"):
            bounds.append(None if self.at(":", "]") else self.expression())
        self.expect("]")
        first, *rest = bounds
        if rest:
            return Slice(base, first, rest[0], (rest[1:] or [None])[0], span=self.span(start))
        if first is None:
            raise self.fault("a subscript needs an index", self.span(start)[1] - 1)
        return Subscript(base, first, span=self.span(start))

    def _atom(self) -> Expr:
        token = self.token
        if token.type == "int":
            self.advance()
            return Constant(int(token.text), span=self.span(token.start))
        if token.type == "float":
            return self._float()
        if token.type == "string":
            self.advance()
            return Constant(token.text[1:-1], span=self.span(token.start))
        if token.type == "keyword" and token.text in _LITERALS:
            self.advance()
            return Constant(_LITERALS[token.text], span=self.span(token.start))
        if token.type == "name":
            return self._named()
        if self.at("("):
            return self._parenthesis()
        return self._no_atom()

    def _no_atom(self) -> Expr:
        start = self.token.start
        if self.at("["):
            body = self.text[start + 1 :].partition("]")[0]
            raise self.fault(rejected.list_literal(body))
        if self.at("*"):
            raise self.fault(
                "`*` splices axes into a shape; a starred argument is not in the language"
            )
        raise self.unexpected("expected an expression")

    def _float(self) -> Expr:
        token = self.advance()
        value = float(token.text)
        if not math.isfinite(value):
            raise self.fault("a number beyond the range of floats", token.start)
        return Constant(value, span=self.span(token.start))

    def _parenthesis(self) -> Expr:
        """A grouped expression, or a tuple."""
        start = self.advance().start
        items: list[Expr] = []
        comma = False
        while not self.at(")"):
            items.append(self.expression())
            comma = self.accept(",")
            if not comma:
                break
        self.expect(")")
        if len(items) == 1 and not comma:
            return items[0]
        return Sequence(tuple(items), span=self.span(start))

    def _identifier(self, what: str) -> str:
        token = self.expect_name(what)
        if token.text in rejected.WORDS:
            raise self.fault(rejected.WORDS[token.text], token.start)
        if keyword.iskeyword(token.text):
            raise self.fault(f"`{token.text}` is a keyword of Python", token.start)
        return token.text

    def _named(self) -> Expr:
        """A name, `inf`, or a call."""
        start = self.token.start
        name = self._identifier("a name")
        if self.at("."):
            member, parenthesis = self.peek(1), self.peek(2)
            if member.type == "name" and parenthesis.text == "(":
                self.advance()
                self.advance()
                name = f"{name}.{member.text}"
        if self.at("("):
            return self._call(name, start)
        if name == "inf":
            return Constant(math.inf, span=self.span(start))
        return Name(name, span=self.span(start))

    def _call(self, callee: str, start: int) -> Expr:
        self.advance()
        if callee == "isinstance":
            raise self.fault(rejected.isinstance_test(self.token.text), start)
        args: list[Expr] = []
        keywords: dict[str, Expr] = {}
        while not self.at(")"):
            self._argument(callee, args, keywords)
            if not self.accept(","):
                break
        self.expect(")")
        if callee in ("present", "bytes"):
            return self._special(callee, args, keywords, start)
        if callee in ("max", "min") and len(args) > 2:
            sources = [self._source(argument) for argument in args]
            raise self.fault(rejected.several_scalars(callee, sources), start)
        return Call(callee, tuple(args), tuple(keywords.items()), span=self.span(start))

    def _argument(self, callee: str, args: list[Expr], keywords: dict[str, Expr]) -> None:
        token = self.token
        if token.type == "name" and self.peek(1).text == "=":
            self.advance()
            self.advance()
            if token.text in keywords:
                raise self.fault(f"argument {token.text} is given twice", token.start)
            keywords[token.text] = self.expression()
            return
        if keywords:
            raise self.fault("a positional argument after a keyword argument")
        argument = self.expression()
        if self.at("for"):
            if callee not in AGGREGATES or args:
                raise self.unexpected("")
            argument = self._each(argument)
        elif args and isinstance(args[0], Each):
            raise self.fault(rejected.WORDS["for"], token.start)
        args.append(argument)

    def _each(self, element: Expr) -> Each:
        """What follows the element of a `for` form."""
        self.advance()
        variable = self._identifier("a name")
        self.expect("in")
        with self.nested():
            source = self._either()
        if self.at("if"):
            raise self.fault("a `for` form takes no condition")
        return Each(element, variable, source, span=self.span(element.span[0]))

    def _special(
        self, callee: str, args: list[Expr], keywords: dict[str, Expr], start: int
    ) -> Present | Bytes:
        """`present(name)` or `bytes(name)`."""
        if len(args) != 1 or keywords or not isinstance(args[0], Name):
            raise self.fault(f"{callee} takes one name", start)
        form = Present if callee == "present" else Bytes
        return form(args[0].id, span=self.span(start))
