"""Lines, blocks and comments of generated source."""

from __future__ import annotations

import ast
import tokenize
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileops._core.codegen.writer import SourceWriter, identifier
from tileops._core.spec.model import Location

PLACE = Location("norm/spec.yaml", 14)


def test_blocks_nest():
    writer = SourceWriter()
    with writer.block("if a"):
        writer.line("b = 1")
        with writer.block("if c"):
            writer.line("d = 2")
    writer.line("e = 3")
    assert writer.text() == "if a:\n    b = 1\n    if c:\n        d = 2\ne = 3\n"


def test_a_declaration_is_quoted_with_its_place():
    writer = SourceWriter()
    writer.declare('inputs.weight.shape "[N]"', PLACE)
    assert writer.text() == '# norm/spec.yaml:14  inputs.weight.shape "[N]"\n'


def test_statements_of_one_declaration_share_its_comment():
    writer = SourceWriter()
    for name in ("a", "b"):
        writer.declare("inputs.x", PLACE)
        writer.line(f"{name} = 1")
    with writer.block("if c"):
        writer.declare("inputs.x", PLACE)
        writer.line("d = 1")
        writer.declare("inputs.y", PLACE)
        writer.line("e = 1")
    writer.declare("inputs.x", PLACE)
    writer.line("f = 1")
    comments = [line.strip() for line in writer.text().split("\n") if "#" in line]
    assert comments == [
        "# norm/spec.yaml:14  inputs.x",
        "# norm/spec.yaml:14  inputs.y",
        "# norm/spec.yaml:14  inputs.x",
    ]


def test_functions_wrap_their_arguments_where_the_line_is_too_long():
    writer = SourceWriter()
    with writer.function("f", ["a: int"], "int", "Doc."):
        writer.line("return a")
    names = [f"argument_{i}: Mapping[str, Any]" for i in range(4)]
    with writer.function("g", names, "None", "Doc."):
        writer.line("return None")
    text = writer.text()
    assert 'def f(a: int) -> int:\n    """Doc."""\n    return a\n' in text
    assert "def g(\n    argument_0: Mapping[str, Any],\n" in text
    assert all(len(line) <= 100 for line in text.split("\n"))


def test_long_lists_take_one_line_per_item():
    writer = SourceWriter()
    writer.items("x = {", [], "}")
    writer.items("x = {", ["'a': 1", "'b': 2"], "}")
    writer.items("x = {", [f"'{'k' * 30}{i}': {i}" for i in range(4)], "}")
    lines = writer.text().split("\n")
    assert lines[:3] == ["x = {}", "x = {'a': 1, 'b': 2}", "x = {"]
    assert lines[3] == f"    '{'k' * 30}0': 0,"


def test_lines_are_put_back_where_a_mark_was_taken():
    writer = SourceWriter()
    writer.line("a")
    mark = writer.mark()
    writer.line("c")
    assert writer.lines(mark) == ["c"]
    writer.insert(mark, ["b"])
    assert writer.text() == "a\nb\nc\n"


@given(st.text())
def test_no_text_leaves_its_comment(text):
    writer = SourceWriter()
    writer.declare(text, Location(text, 3))
    writer.line("x = 1")
    source = writer.text()
    [statement] = ast.parse(source).body
    assert ast.unparse(statement) == "x = 1"
    source.encode()
    kinds = [t.type for t in tokenize.generate_tokens(StringIO(source).readline)]
    assert kinds.count(tokenize.COMMENT) == 1


@pytest.mark.parametrize("name", ["", "a b", "1a", "a.b", "def", "é", "a\n", "None", "x)"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError, match="not a name"):
        identifier(name)


def test_a_name_stays_as_it_is():
    assert identifier("cu_seqlens_q") == "cu_seqlens_q"
