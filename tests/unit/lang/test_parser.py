"""The parser: forms it reads, forms it rejects with their rewrite, and hostile input."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops._core.lang.cursor import MAX_NESTING
from tileops._core.lang.faults import LanguageFault
from tileops._core.lang.nodes import (
    Arithmetic,
    Attribute,
    Call,
    Compare,
    Conditional,
    Constant,
    Each,
    FamilyApplication,
    Logical,
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
from tileops._core.lang.parser import MAX_DEPTH, parse_expression, parse_shape
from tileops._core.lang.printer import to_text
from tileops._core.lang.tokens import MAX_DIGITS, MAX_TEXT

A, B, C, S = Name("a"), Name("b"), Name("c"), Name("S")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        ("017", Constant(17)),
        ("1.5", Constant(1.5)),
        ("1e-6", Constant(1e-6)),
        (".5", Constant(0.5)),
        ("-3", Constant(-3)),
        ("-a", Negate(A)),
        ("inf", Constant(math.inf)),
        ("-inf", Constant(-math.inf)),
        ("'row'", Constant("row")),
        ('"it\'s"', Constant("it's")),
        ("True", Constant(True)),
        ("a + b * c", Arithmetic("+", A, Arithmetic("*", B, C))),
        ("a - b - c", Arithmetic("-", Arithmetic("-", A, B), C)),
        ("a // b % c", Arithmetic("%", Arithmetic("//", A, B), C)),
        ("-a * b", Arithmetic("*", Negate(A), B)),
        ("a < b <= c", Compare(A, ("<", "<="), (B, C))),
        ("a not in S", Compare(A, ("not in",), (S,))),
        ("not a in S", Not(Compare(A, ("in",), (S,)))),
        ("a and b or c", Logical("or", (Logical("and", (A, B)), C))),
        ("a and (b and c)", Logical("and", (A, B, C))),
        ("a if b else c", Conditional(B, A, C)),
        ("a if b else b if c else a", Conditional(B, A, Conditional(C, B, A))),
        ("(a)", A),
        ("(a,)", Sequence((A,))),
        ("()", Sequence(())),
        ("(a, b,)", Sequence((A, B))),
        ("S[0]", Subscript(S, Constant(0))),
        ("S[:-1]", Slice(S, None, Constant(-1), None)),
        ("S[a:b:c]", Slice(S, A, B, C)),
        ("S[::]", Slice(S, None, None, None)),
        ("a.value.kind", Attribute(Attribute(A, "value"), "kind")),
        ("present(a)", Present("a")),
        ("pool.out(a, b=c)", Call("pool.out", (A,), (("b", C),))),
        ("all(a for b in S)", Call("all", (Each(A, "b", S),))),
        ("max(a for b in S, default=c)", Call("max", (Each(A, "b", S),), (("default", C),))),
        ("a\n  +\tb", Arithmetic("+", A, B)),
    ],
)
def test_parse_reads(text, tree):
    assert parse_expression(text) == tree


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("[]", ShapeList(())),
        ("[a, 2 * b,]", ShapeList((A, Arithmetic("*", Constant(2), B)))),
        ("[*S, a]", ShapeList((Splice(S), A))),
        ("[*S[1:]]", ShapeList((Splice(Slice(S, Constant(1), None, None)),))),
        ("[*(S if a else b)]", ShapeList((Splice(Conditional(A, S, B)),))),
        ("Store[a, b]", FamilyApplication("Store", (A, B))),
    ],
)
def test_parse_shape_reads(text, shape):
    assert parse_shape(text) == shape


def test_equality_tells_constants_of_different_types_apart():
    assert Constant(1) != Constant(True)
    assert Constant(1) != Constant(1.0)
    assert len({Constant(1), Constant(True), Constant(1.0)}) == 3


def test_spans_point_at_the_text():
    text = "aa + (bb * cc)"
    tree = parse_expression(text)
    assert tree.span == (0, len(text))
    assert text[slice(*tree.right.span)] == "bb * cc"


REJECTED = {
    "bias is None or C > 0": ("write `not present(bias)`", "is"),
    "bias is not None": ("write `present(bias)`", "is"),
    "cap == None": ("write `not present(cap)`", "cap"),
    "None != cap": ("write `present(cap)`", "None"),
    "k[1] if isinstance(k, tuple) else k": ("per_axis(k, i, n)", "isinstance"),
    "len({a % r for a in dim}) == len(dim)": ("write `unique_axes(dim, r)`", "{"),
    "len({a for a in dim})": ("`unique_axes(dim, rank)`", "{"),
    "{1, 2} == S": ("a set or dict is not in the language", "{"),
    "N / 2": ("use `//`", "/"),
    "R ** 2 > 4": ("`**` is not in the language; repeat `*`", "**"),
    "a @ b": ("`@` is not in the language", "@"),
    "a & b": ("bit operators are not in the language; use `and`", "&"),
    "a | b": ("bit operators are not in the language; use `or`", "|"),
    "a ^ b": ("bit operators are not in the language", "^"),
    "~a": ("bit operators are not in the language; use `not`", "~"),
    "a << 2": ("bit operators are not in the language; use `*`", "<<"),
    "a >> 2": ("bit operators are not in the language; use `//`", ">>"),
    "!a": ("use `not`", "!"),
    "a = b": ("assignment is not in the language", "="),
    "(a := b)": ("assignment is not in the language", ":="),
    "a -> b": ("`->` is not in the language", "->"),
    "[1, 1] == SA": ("use a tuple, `(1, 1)`", "["),
    "[1] == SA": ("use a tuple, `(1,)`", "["),
    "min(A, 2 * B, 3)": ("min takes one sequence; write `min((A, 2 * B, 3))`", "min"),
    "lambda x: x": ("lambda is not in the language", "lambda"),
    "f'a'": ("f-strings are not in the language", "f'"),
    "f(*a)": ("a starred argument is not in the language", "*a"),
    "sum(a for a in S if a)": ("a `for` form takes no condition", "if"),
    "prod(a for a in S)": ("only positional argument of all, sum, max or min", "for"),
    "(a for a in S)": ("only positional argument of all, sum, max or min", "for"),
    "sum(a for a in S, b)": ("only positional argument of all, sum, max or min", "b)"),
    "sum(b, a for a in S)": ("only positional argument of all, sum, max or min", "for"),
}


@pytest.mark.parametrize("text", REJECTED)
def test_rejected_form_names_its_rewrite(text):
    message, place = REJECTED[text]
    with pytest.raises(LanguageFault) as caught:
        parse_expression(text)
    assert message in caught.value.message
    assert text.startswith(place, caught.value.offset)


MALFORMED = {
    "": "expected an expression, but the text ends",
    "a +": "expected an expression, but the text ends",
    "(a": "expected `)`, but the text ends",
    "a b": "expected the end, found `b`",
    "a)": "expected the end, found `)`",
    "a if b": "expected `else`, but the text ends",
    "S[]": "a subscript needs an index",
    "S[1, 2]": "expected `]`, found `,`",
    "S[1:2:3:4]": "expected `]`, found `:`",
    "a.": "expected an attribute, but the text ends",
    "a.b.c(d)": "only a named primitive is called",
    "f(a)(b)": "only a named primitive is called",
    "f(a=b, c)": "a positional argument after a keyword argument",
    "f(a=b, a=c)": "argument a is given twice",
    "present(a, b)": "present takes one name",
    "bytes(2 * a)": "bytes takes one name",
    "class": "`class` is a keyword of Python",
    "0x10": "malformed number",
    "1_000": "malformed number",
    "1.2.3": "malformed number",
    "2x": "malformed number",
    "1e999": "a number beyond the range of floats",
    "9" * (MAX_DIGITS + 1): f"a number of more than {MAX_DIGITS} digits",
    "'a": "a string without its closing quote",
    r"'a\n'": "a string has no escapes",
    "é": "is not in the language",
    "a ? b": "'?' is not in the language",
    "all(a for 1 in S)": "expected a name, found `1`",
    "all(a for b of S)": "expected `in`, found `of`",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_says_what_is_expected(text):
    with pytest.raises(LanguageFault) as caught:
        parse_expression(text)
    assert MALFORMED[text] in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "expected `]`, but the text ends"),
        ("a", "a shape is `[axis, …]` or `Family[argument, …]`, found `a`"),
        ("[,]", "expected an expression, found `,`"),
        ("Store[]", "expected an expression, found `]`"),
        ("Store[a,]", "expected an expression, found `]`"),
        ("[a] [b]", "expected the end, found `[`"),
        ("[[a]]", "a list is not in the language"),
    ],
)
def test_malformed_shape_says_what_is_expected(text, message):
    with pytest.raises(LanguageFault) as caught:
        parse_shape(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4000 + "a" + ")" * 4000,
        "S[" * 3000 + "0" + "]" * 3000,
        "f(" * 3000 + ")" * 3000,
        "not " * 2000 + "a",
        "-" * 9000 + "a",
        "a if b else " * 800 + "c",
        "(a,(" * 2000,
        "all(a for a in " * 600,
    ],
)
def test_deep_nesting_is_a_fault(text):
    with pytest.raises(LanguageFault, match=f"nested more than {MAX_NESTING} levels deep"):
        parse_expression(text)


@pytest.mark.parametrize(
    "text",
    ["+".join("a" * 4000), "*".join("a" * 4000), "a" + "[0]" * 3000, "a" + ".b" * 3000],
)
def test_long_chains_are_a_fault(text):
    with pytest.raises(LanguageFault, match=f"a tree of more than {MAX_DEPTH} levels"):
        parse_expression(text)


def test_deep_chain_of_chains_is_a_fault():
    text = "a"
    for _ in range(MAX_NESTING - 1):
        text = f"({text})" + "[0]" * 20
    with pytest.raises(LanguageFault, match="levels"):
        parse_expression(text)


def test_deep_shapes_are_a_fault():
    with pytest.raises(LanguageFault, match="levels"):
        parse_shape("[" + "+".join("a" * 4000) + "]")


def test_long_flat_text_is_read():
    assert len(parse_expression("(" + "a, " * 3000 + ")").items) == 3000


def test_long_text_is_a_fault():
    with pytest.raises(LanguageFault, match=f"longer than {MAX_TEXT} characters"):
        parse_expression(" " * (MAX_TEXT + 1))


@pytest.mark.parametrize("item", ["a<b", "1e15", "1[0]", ".5", "a[b:]", "-a*b"])
def test_text_that_printing_makes_too_long_is_a_fault(item):
    def dense(count):
        return f"({','.join([item] * count)},)"

    printed = to_text(parse_expression(dense(100)))
    most = MAX_TEXT // (len(printed) // 100)
    tree = parse_expression(dense(most))
    assert parse_expression(to_text(tree)) == tree
    assert len(dense(most + 1)) < MAX_TEXT
    with pytest.raises(LanguageFault, match=f"longer than {MAX_TEXT} characters with a blank"):
        parse_expression(dense(most + 1))


def test_caret_stands_below_the_fault():
    with pytest.raises(LanguageFault) as caught:
        parse_expression("R + ** C")
    _, line, caret = str(caught.value).split("\n")
    assert line[caret.index("^") :].startswith("**")


def test_caret_allows_for_wide_characters():
    with pytest.raises(LanguageFault) as caught:
        parse_expression("'漢字' ** a")
    _, line, caret = str(caught.value).split("\n")
    assert caret.index("^") == line.index("**") + 2


def test_caret_shows_part_of_a_long_text():
    with pytest.raises(LanguageFault) as caught:
        parse_expression("a + " * 60 + "** b" + " + a" * 60)
    _, line, caret = str(caught.value).split("\n")
    assert line[caret.index("^") :].startswith("**")
    assert line.strip().startswith("…")
    assert line.endswith("…")
    assert len(line) < 100


@pytest.mark.parametrize("text", [f"([{'x, ' * 2000}x])", f"{'x' * 5000} is None"])
def test_messages_quote_part_of_a_long_text(text):
    with pytest.raises(LanguageFault) as caught:
        parse_expression(text)
    assert len(caught.value.message) == 400
    assert caught.value.message.endswith("…")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("character", ["\ud800", "\u202e", "\x00", "\u0301", "\N{GRINNING FACE}"])
def test_odd_characters_are_faults_that_can_be_printed(character):
    for text in (f"a {character} b", f"'{character}' ** 2"):
        with pytest.raises(LanguageFault) as caught:
            parse_expression(text)
        str(caught.value).encode()


SYMBOLS = r""" a S 1 2.5 'x' 0x é \ " ( ) [ ] { } + - * // % < == ** = , : . """
WORDS = ("not", "and", "or", "if", "else", "for", "in", "is", "max", "present", "None", "inf")
FRAGMENTS = st.sampled_from([*SYMBOLS.split(), "\n", "\u202e", *(f" {word} " for word in WORDS)])


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=80), st.lists(FRAGMENTS, max_size=60).map("".join)))
def test_any_text_is_read_or_faulted(text):
    for parse in (parse_expression, parse_shape):
        try:
            parse(text)
        except LanguageFault as fault:
            assert 0 <= fault.offset <= len(text)
            str(fault).encode()
