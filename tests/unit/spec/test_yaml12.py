"""YAML 1.2 core rules, places, and bounds on what a file may ask for."""

from __future__ import annotations

import json
import math
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tileops._core.spec import yaml12
from tileops._core.spec.yaml12 import Node, YamlFault, plain, read_yaml, wrap


@pytest.fixture(params=["C", "Python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs with either parser of PyYAML."""
    chosen = yaml.CSafeLoader if request.param == "C" else yaml.SafeLoader
    monkeypatch.setattr(yaml12, "_PARSER", chosen)


def read(text: str) -> object:
    return plain(read_yaml(text.encode()).root)


def fault_of(data: bytes) -> YamlFault:
    with pytest.raises(YamlFault) as caught:
        read_yaml(data)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, word) for word in ("on", "off", "yes", "no", "y", "tRUE", "0b1", "1_000", "1:30")],
        *[(word, None) for word in ("null", "Null", "NULL", "~", "")],
        ("017", 17),
        ("0o17", 15),
        ("0xfF", 255),
        ("-12", -12),
        ("+3", 3),
        ("1e-6", 1e-6),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5E3", -1500.0),
        (".inf", math.inf),
        ("+.Inf", math.inf),
        ("-.INF", -math.inf),
        ("2024-01-01", "2024-01-01"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 1", "1"),
        ("!!int '7'", 7),
        ("!!float 1", 1.0),
        ("!!bool 'true'", True),
        ("!!null ''", None),
        ("!!map {a: 1}", {"a": 1}),
        ("!!seq [1]", [1]),
        ("! 1", "1"),
        ("[a, {b: ~}]", ["a", {"b": None}]),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x k\n*x : 1", {"a": "k", "k": 1}),
        ("# nothing", None),
    ],
)
def test_values(text: str, value: object) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number(text: str) -> None:
    found = read(text)
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("a: !!set {x}", "tag !!set is not allowed here", 1, 4),
        ("a: !python/object x", "tag !python/object is not allowed", 1, 4),
        ("a: !!binary aa==", "tag !!binary is not allowed", 1, 4),
        ("a: !!int x", "'x' is not a !!int", 1, 4),
        ("a: !!str [x]", "tag !!str is not allowed here", 1, 4),
        ("a: &b {c: 1}\nd:\n  <<: *b", "merge keys (<<) are not allowed", 3, 3),
        ("[a]: 1", "a key must be a scalar", 1, 1),
        ("a: &b [1]\n*b : 2", "a key must be a scalar", 2, 1),
        ("a: *b", "alias *b has no anchor before it; text with a * at its head is quoted", 1, 4),
        ("a: &b [*b]", "alias *b stands inside its own anchor", 1, 8),
        ("a: 1\n--- \nb: 2", "a file holds one document", 2, 1),
        (f"a: {'9' * 401}", "an integer of more than 400 digits", 1, 4),
        ("a: 1e999", "a number beyond the range of floats", 1, 4),
        ("a: [1, 2\nb: 3", "expected ',' or ']'", 2, 2),
        ("a:\n\t- 1", "YAML is indented by spaces, and a tab stands here", 2, 1),
        ("a:\n  b: 1\n\tc: 2", "YAML is indented by spaces, and a tab stands here", 3, 1),
        ("a: b\n  c: d", "not allowed", 2, 4),
    ],
)
def test_faults_have_a_place(text: str, message: str, line: int, column: int) -> None:
    fault = fault_of(text.encode())
    assert message in fault.message
    assert (fault.line, fault.column) == (line, column)
    assert str(fault) == f"line {line}, column {column}: {fault.message}"


def test_half_a_character_is_refused() -> None:
    assert fault_of(b'a: "\\ud800"').line == 1


def test_a_file_is_utf8() -> None:
    fault = fault_of(b"a: 1\nb: caf\xe9\n")
    assert (fault.message, fault.line, fault.column) == ("not UTF-8", 2, 7)


def test_a_byte_order_mark_is_no_text() -> None:
    assert plain(read_yaml(b"\xef\xbb\xbfa: 1").root) == {"a": 1}


def test_control_characters_are_refused() -> None:
    fault = fault_of(b"a: 1\nb: x\x07y\n")
    assert fault.message == "a character that YAML does not allow"
    assert (fault.line, fault.column) == (2, 5)


def test_an_entry_stands_where_its_key_stands() -> None:
    root = read_yaml(b"a:\n  b:\n  - x\n  -  y: 1\n").root
    inner = root.value["a"].value["b"]
    assert (root.value["a"].line, root.value["a"].column) == (1, 1)
    assert (inner.line, inner.column) == (2, 3)
    assert [(item.line, item.column) for item in inner.value] == [(3, 5), (4, 6)]


def test_a_repeated_key_keeps_the_first_and_is_told() -> None:
    document = read_yaml(b"Op:\n  list:\n  - {k: 1, j: 2, k: 3}\n  list: 4\n")
    assert plain(document.root) == {"Op": {"list": [{"k": 1, "j": 2}]}}
    assert [(key.path, key.line, key.first_line) for key in document.repeated] == [
        (("Op", "list", 0, "k"), 3, 3),
        (("Op", "list"), 4, 2),
    ]


def test_deep_nesting_is_refused_at_its_place() -> None:
    fault = fault_of(b"a: " + b"[" * 500 + b"]" * 500)
    assert fault.message == "nested more than 64 deep"
    assert (fault.line, fault.column) == (1, 4 + 63)
    assert "nest" in fault_of(b"a: " + b"[" * 100_000).message
    fault = fault_of("".join(f"{' ' * i}a:\n" for i in range(200)).encode())
    assert fault.message == "nested more than 64 deep"
    assert fault.line == 65


def test_nesting_through_aliases_is_refused() -> None:
    levels = "\n".join(f"a{i}: &a{i} {'[' * 30}*a{i - 1}{']' * 30}" for i in range(1, 4))
    assert (
        "nested more than 64 deep once aliases" in fault_of(f"a0: &a0 x\n{levels}".encode()).message
    )


def test_alias_bombs_are_refused_fast() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    start = time.process_time()
    fault = fault_of("\n".join(lines).encode())
    assert time.process_time() - start < 1
    assert fault.message == "more than 100000 nodes once aliases are expanded"
    assert fault.line == 5


def test_many_nodes_without_aliases_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml12, "MAX_NODES", 100)
    assert len(read("[" + "1, " * 200 + "]")) == 200  # type: ignore[arg-type]
    assert "more than 100 nodes" in fault_of(b"[" + b"1, " * 99 + b"&a 2, *a]").message


def test_huge_scalars_and_files_are_refused() -> None:
    fault = fault_of(b"a: '" + b"x" * 200_000 + b"'")
    assert "a scalar of 200000 characters" in fault.message
    assert "the file has" in fault_of(b" " * (yaml12.MAX_BYTES + 1)).message


@given(st.text(max_size=60))
def test_any_text_gives_a_document_or_a_fault(text: str) -> None:
    try:
        read_yaml(text.encode("utf-8", "surrogatepass"))
    except YamlFault as fault:
        assert fault.message


@given(st.text(alphabet="ab:-[]{}&*!<>|'\"#%@?, \n\t0123456789.~", max_size=40))
def test_any_yaml_like_text_gives_a_document_or_a_fault(text: str) -> None:
    try:
        plain(read_yaml(text.encode()).root)
    except YamlFault as fault:
        assert fault.message


_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cn"], include_characters="\x85"),
    max_size=20,
)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(_DATA)
def test_json_is_read_as_json(data: object) -> None:
    text = json.dumps(data, ensure_ascii=False)
    if "Infinity" not in text:
        assert read(text) == json.loads(text)


SEPARATORS = ["\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("char", SEPARATORS)
def test_separators_of_unicode_are_text_like_any_other(char: str) -> None:
    """YAML 1.1 takes them for line breaks: it folds them, and ends comments by them."""
    assert read(f'{{"a {char} b": " {char} "}}') == {f"a {char} b": f" {char} "}
    assert read(f"a{char}b: c {char} d  # e {char}f: 1\nf: 2") == {
        f"a{char}b": f"c {char} d",
        "f": 2,
    }
    assert read(f"a: |\n  b{char}  c\n") == {"a": f"b{char}  c\n"}
    assert read_yaml(f'x: "{char}"\ny: 1'.encode()).root.value["y"].line == 2
    for private in ("\ue000", "\\ue000", "\\uE000", "\\U0000e000"):
        assert read(f'["{private}", "\\ue001", "{char}"]') == ["\ue000", "\ue001", char]
    assert "unknown escape character" in fault_of(f'"\\{char}"'.encode()).message
    assert "ue000" not in fault_of(f'"\\{char}"'.encode()).message


def test_separators_beside_every_private_character_are_refused() -> None:
    every = "".join(map(chr, range(0xE000, 0xF8FE)))
    assert read(f"'{every}\u2028\u2029'") == f"{every}\u2028\u2029"
    fault = fault_of(f"'{every}\x85\u2028\u2029'".encode())
    assert fault.message == "a line separator of Unicode beside all characters for private use"


@given(_DATA)
def test_data_is_wrapped_and_unwrapped(data: object) -> None:
    assert plain(wrap(data)) == data


def test_wrapping_bounds_what_it_follows() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(YamlFault, match="contains itself"):
        wrap(loop)
    wide: list[object] = []
    wide.extend([wide] * 10)
    with pytest.raises(YamlFault, match="contains itself"):
        wrap(wide)


HALVES = [{"\ud800": 1}, {"a": ["b\udfff"]}, "\udc80", {"a": {"\udbffc": 0}}]


@pytest.mark.parametrize("data", HALVES)
def test_half_a_character_is_not_wrapped(data: object) -> None:
    with pytest.raises(YamlFault, match=r"half a character in '\w?\\ud") as caught:
        wrap(data)
    assert str(caught.value).isascii()


def test_wrapping_counts_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml12, "MAX_DATA", 5)
    assert plain(wrap([1, 2, {"a": 3}])) == [1, 2, {"a": 3}]
    with pytest.raises(YamlFault, match="more than 5 values"):
        wrap([1, 2, {"a": 3, "b": 4}])


def test_wrapped_entries_are_counted_in_order() -> None:
    root = wrap({"a": [1, 2], "b": 3})
    places = [root, root.value["a"], *root.value["a"].value, root.value["b"]]
    assert all(isinstance(node, Node) and node.line == 0 for node in places)
    assert [node.column for node in places] == sorted(node.column for node in places)


@pytest.mark.parametrize("text", ["{T: DType[a | b]}", "[a, B[", "{a: [b}"])
def test_a_flow_that_does_not_end_says_what_is_quoted(text: str) -> None:
    with pytest.raises(YamlFault, match="; text with brackets, braces or a comma is quoted$"):
        read_yaml(text.encode())
