"""Properties of whole trees: printing round-trips, folding keeps values, kinds tell the truth."""

from __future__ import annotations

import math
from contextlib import suppress

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.faults import EvaluationFault, KindFault
from tileops._core.lang.fold import fold
from tileops._core.lang.infer import infer
from tileops._core.lang.kinds import (
    BOOL,
    DIM,
    INT,
    SHAPE,
    BoolKind,
    DimKind,
    EnumKind,
    IntKind,
    Kind,
    MaybeKind,
    SeqKind,
    UnionKind,
)
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
    Name,
    Negate,
    Not,
    Present,
    Sequence,
    ShapeList,
    Slice,
    Splice,
    Subscript,
)
from tileops._core.lang.parser import parse_expression, parse_shape
from tileops._core.lang.positions import Position
from tileops._core.lang.printer import to_text
from tileops._core.lang.walk import deepest, logical

# Any tree that the parser can make

names = st.sampled_from(["a", "B", "x1", "S", "of", "kind", "max_", "A_b"])
texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_characters="\\'"))
numbers = st.one_of(st.integers(-(10**30), 10**30), st.floats(allow_nan=False), st.just(math.inf))
constants = st.builds(Constant, st.one_of(numbers, st.booleans(), texts))
leaves = st.one_of(
    constants,
    st.builds(Name, names),
    st.builds(Present, names),
    st.builds(Bytes, names),
    st.just(Constant("it's")),
)
CALLEES = ("f", "pool.out", "len", "reduced", "prefix_sum", "in_range", "category")
ARITHMETIC = st.sampled_from(["+", "-", "*", "//", "%"])
COMPARISON = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])


def compares(inner):
    rests = st.lists(st.tuples(COMPARISON, inner), min_size=1, max_size=3)
    return st.builds(
        lambda first, rest: Compare(first, tuple(op for op, _ in rest), tuple(e for _, e in rest)),
        inner,
        rests,
    )


def calls(inner):
    arguments = st.lists(inner, max_size=3).map(tuple)
    keywords = st.dictionaries(names, inner, max_size=2).map(lambda d: tuple(d.items()))
    forms = st.builds(Each, inner, names, inner)
    return st.one_of(
        st.builds(
            Call,
            st.sampled_from(["f", "pool.out", "len", "reduced", "prefix_sum", "in_range"]),
            arguments,
            keywords,
        ),
        st.builds(lambda f, k: Call("max", (f,), k), st.one_of(inner, forms), keywords),
        st.builds(lambda f: Call("all", (f,)), forms),
        st.just(Call("f", (Constant(None),))),
    )


def bigger(inner):
    optional = st.none() | inner
    return st.one_of(
        st.builds(Attribute, inner, names),
        st.builds(Subscript, inner, inner),
        st.builds(Slice, inner, optional, optional, optional),
        st.builds(Negate, inner),
        st.builds(Arithmetic, ARITHMETIC, inner, inner),
        compares(inner),
        st.builds(Not, inner),
        st.builds(
            lambda op, operands: logical(op, operands, (0, 0)),
            st.sampled_from(["and", "or"]),
            st.lists(inner, min_size=2, max_size=3),
        ),
        st.builds(Conditional, inner, st.one_of(inner, st.just(Constant(None))), inner),
        st.lists(inner, max_size=3).map(lambda items: Sequence(tuple(items))),
        calls(inner),
    )


trees = st.recursive(leaves, bigger, max_leaves=12)
axes = st.one_of(trees, st.builds(Splice, trees))
shapes = st.one_of(
    st.lists(axes, max_size=4).map(lambda a: ShapeList(tuple(a))),
    st.builds(FamilyApplication, names, st.lists(trees, min_size=1, max_size=3).map(tuple)),
)


@settings(max_examples=250, deadline=None)
@given(trees)
def test_printed_expression_parses_to_an_equal_tree(tree):
    assert parse_expression(to_text(tree)) == tree


@settings(max_examples=150, deadline=None)
@given(shapes)
def test_printed_shape_parses_to_an_equal_tree(shape):
    assert parse_shape(to_text(shape)) == shape


@settings(max_examples=200, deadline=None)
@given(trees)
def test_any_tree_is_judged_folded_and_evaluated_without_a_crash(tree):
    scope = Values(dict.fromkeys(["a", "B", "S"], (1, 2)))
    known: dict[str, Kind] = {"a": INT, "S": SHAPE, "B": MaybeKind(BOOL)}
    position = Position(known.get, tensors=("x1", "of"), sizes=True)
    fold(tree, {"a": 3, "S": (1, 2), "x1.value": 2}, {"x1": True})
    with suppress(EvaluationFault):
        evaluate(tree, scope)
    with suppress(KindFault):
        infer(tree, position)


# Well-kinded expressions over a fixed set of names

KINDS: dict[str, Kind] = {
    "N": DIM,
    "i": INT,
    "flip": BOOL,
    "S": SHAPE,
    "mode": EnumKind(frozenset({"row", "col"})),
    "cap": MaybeKind(INT),
    "pad": UnionKind((INT, EnumKind(frozenset({"same"})))),
}
POSITION = Position(KINDS.get)


class Values:
    """A scope over drawn values."""

    def __init__(self, values):
        self.values = values

    def value(self, name):
        return self.values[name]

    def present(self, name):
        return self.values.get(name) is not None

    def bytes(self, name):
        return 8


scopes = st.fixed_dictionaries(
    {
        "N": st.integers(0, 6),
        "i": st.integers(-6, 6),
        "flip": st.booleans(),
        "S": st.lists(st.integers(0, 4), max_size=3).map(tuple),
        "mode": st.sampled_from(["row", "col"]),
        "cap": st.none() | st.integers(-3, 3),
        "pad": st.integers(-2, 2) | st.just("same"),
    }
)

integers = st.deferred(
    lambda: st.one_of(
        st.builds(Constant, st.integers(-9, 9)),
        st.sampled_from([Name("N"), Name("i"), Attribute(Name("cap"), "value")]),
        st.builds(Arithmetic, ARITHMETIC, integers, integers),
        st.builds(Negate, integers),
        st.builds(Conditional, truths, integers, integers),
        st.builds(Subscript, sequences, integers),
        st.builds(lambda s: Call("len", (s,)), sequences),
        st.builds(lambda s: Call("sum", (s,)), sequences),
        st.builds(lambda s, d: Call("max", (s,), (("default", d),)), sequences, integers),
        st.builds(lambda a, b: Call("ceil_div", (a, b)), integers, integers),
        st.just(parse_expression("0 if pad == 'same' else pad * 2")),
        st.just(parse_expression("cap.value if present(cap) else N")),
    )
)
truths = st.deferred(
    lambda: st.one_of(
        st.builds(Constant, st.booleans()),
        st.sampled_from([Name("flip"), Present("cap")]),
        st.builds(
            lambda op, a, b: Compare(a, (op,), (b,)),
            st.sampled_from(["==", "!=", "<", ">="]),
            integers,
            integers,
        ),
        st.builds(lambda a, s: Compare(a, ("in",), (s,)), integers, sequences),
        st.builds(Not, truths),
        st.builds(
            lambda op, operands: logical(op, operands, (0, 0)),
            st.sampled_from(["and", "or"]),
            st.lists(truths, min_size=2, max_size=3),
        ),
        st.builds(lambda s: Call("all", (Each(parse_expression("v > 0"), "v", s),)), sequences),
        st.just(parse_expression("mode == 'row'")),
    )
)
sequences = st.deferred(
    lambda: st.one_of(
        st.just(Name("S")),
        st.lists(integers, min_size=1, max_size=3).map(lambda items: Sequence(tuple(items))),
        st.builds(Slice, sequences, st.none() | integers, st.none() | integers, st.none()),
    )
)
expressions = st.one_of(integers, truths, sequences)


def outcome(expr: Expr, scope: Values) -> object:
    try:
        value = evaluate(expr, scope)
    except EvaluationFault:
        return EvaluationFault
    return tuple(value) if isinstance(value, list) else value


@settings(max_examples=200, deadline=None)
@given(expressions, scopes, st.sets(st.sampled_from(sorted(KINDS))))
def test_folding_keeps_the_value(expr, values, fixed):
    scope = Values(values)
    known = {name: values[name] for name in fixed if values[name] is not None}
    if "cap" in known:
        known["cap.value"] = known.pop("cap")
    presence = {"cap": values["cap"] is not None} if "cap" in fixed else {}
    folded = fold(expr, known, presence)
    before, after = outcome(expr, scope), outcome(folded, scope)
    # Folding discards operands that would have failed, and never the other way round.
    assert before is EvaluationFault or after == before


@settings(max_examples=200, deadline=None)
@given(expressions, scopes)
def test_value_has_the_inferred_kind(expr, values):
    try:
        kind = infer(expr, POSITION)
    except KindFault:
        return
    value = outcome(expr, Values(values))
    assert value is EvaluationFault or has_kind(value, kind)


def has_kind(value: object, kind: Kind) -> bool:
    if isinstance(kind, UnionKind):
        return any(has_kind(value, member) for member in kind.alternatives)
    if isinstance(kind, BoolKind):
        return isinstance(value, bool)
    if isinstance(kind, DimKind):
        return type(value) is int and value >= 0
    if isinstance(kind, IntKind):
        return type(value) is int
    if isinstance(kind, SeqKind):
        items = value if isinstance(value, tuple) else ()
        fits_length = kind.length in (None, len(items))
        return fits_length and all(has_kind(item, kind.element) for item in items)
    raise AssertionError(kind)


@settings(max_examples=50, deadline=None)
@given(expressions)
def test_printing_a_folded_tree_keeps_its_value(expr):
    assume(deepest(expr, 12) is None)
    folded = fold(expr, {"N": 3, "S": (2, 3), "flip": True}, {})
    again = fold(parse_expression(to_text(folded)), {}, {})
    scope = Values({"i": 2, "cap": 1, "pad": 1, "mode": "row", "N": 3, "S": (2, 3), "flip": True})
    assert outcome(again, scope) == outcome(folded, scope)
