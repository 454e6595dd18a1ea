"""Parameter types: their kinds, the values each takes, from Python and from YAML."""

from __future__ import annotations

import collections
import enum
import fractions

import pytest

from tileops._core.lang.faults import LanguageFault
from tileops._core.lang.kinds import BOOL, DIM, EnumKind
from tileops._core.lang.members import Accepted, ImportedClasses, Refused
from tileops._core.lang.param_types import parse_param_type
from tileops._core.lang.values import AdtView, read_field, shown, shown_with_type


class Mode(enum.Enum):
    SLOW = "slow"
    FAST = "fast"
    ONE = 1


class dtype:  # noqa: N801
    """Looks like `torch.dtype` to code that must not import torch."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


dtype.__module__ = "torch"


class Dense:
    kind = "dense"


class Liar:
    kind = "dense"


class Tiled:
    kind = "tiled"


class Classes(ImportedClasses):
    """Knows the classes of one algebraic type."""

    def constructor_classes(self, adt):
        return {"dense": Dense, "tiled": Tiled} if adt == "Store" else {}


ADTS = {
    "Store": {
        "dense": {"cols": DIM, "full": BOOL, "order": EnumKind(frozenset({"row"}))},
        "none": {},
    }
}


def accept(text, value):
    return parse_param_type(text, {"Store"}).accept(value, Classes())


def from_yaml(text, value):
    return parse_param_type(text, {"Store"}).from_yaml(value, ADTS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int", "Int"),
        ("bool", "Bool"),
        ("'slow'", "'slow'"),
        ("'slow' | 'exact'", "'exact' | 'slow'"),
        ("float16 | bfloat16", "DType[bfloat16 | float16]"),
        ("torch.dtype", "DType"),
        ("float16 | torch.dtype", "DType"),
        ("Store", "Store"),
        ("list[int]", "Seq[Int]"),
        ("tuple[int, ...]", "Seq[Int]"),
        ("tuple[int, int]", "Seq[Int] of 2"),
        ("tuple[int | None, int]", "Seq[Maybe[Int]] of 2"),
        ("list[int|None]", "Seq[Maybe[Int]]"),
        ("float", "Value"),
        ("Number", "Value"),
        ("str", "Str"),
        ("dict", "Value"),
        ("torch.Tensor", "Value"),
        ("int | 'same' | None", "Maybe[Int | 'same']"),
        ("int | tuple[int, int]", "Int | Seq[Int] of 2"),
        ("'a' | int | 'b'", "'a' | 'b' | Int"),
        ("None", "None"),
    ],
)
def test_kind(text, kind):
    assert str(parse_param_type(text, {"Store"}).kind) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a type, but the text ends"),
        ("int |", "expected a type, but the text ends"),
        ("int int", "expected the end, found `int`"),
        ("Stor", "unknown type Stor"),
        ("flaot", "unknown type flaot; did you mean 'float'?"),
        ("'_'", "'_' is the pattern for anything, not a literal"),
        ("list[float]", "the items of a list or tuple are `int` or `int | None`"),
        ("list[int", "expected `]`, but the text ends"),
        ("list[int, int]", "expected `]`, found `,`"),
        ("tuple[int, int, ...]", "`...` follows one element type"),
        ("tuple[int | str]", "expected `None`, found `str`"),
        ("torch.", "expected a name, but the text ends"),
        ("list", "expected `[`, but the text ends"),
        ("int & bool", "bit operators"),
    ],
)
def test_malformed_type(text, message):
    with pytest.raises(LanguageFault) as caught:
        parse_param_type(text, {"Store"})
    assert message in caught.value.message


ACCEPTED = [
    ("int", 3, 3),
    ("bool", True, True),
    ("float", 3, 3),
    ("float", 2.5, 2.5),
    ("float | int", True, True),
    ("Number", True, True),
    ("Number", 1j, 1j),
    ("str", "x", "x"),
    ("'slow' | 'fast'", "fast", "fast"),
    ("'slow' | 'fast'", Mode.SLOW, "slow"),
    ("float16 | bfloat16", dtype("bfloat16"), "bfloat16"),
    ("torch.dtype", dtype("int8"), "int8"),
    ("list[int]", (1, 2), [1, 2]),
    ("tuple[int, ...]", [1, 2], (1, 2)),
    ("list[int] | tuple[int, ...]", (1,), [1]),
    ("tuple[int, int]", [1, 2], (1, 2)),
    ("tuple[int | None, int]", (None, 2), (None, 2)),
    ("int | None", None, None),
    ("fractions.Fraction", fractions.Fraction(1), fractions.Fraction(1)),
    ("dict", {"a": 1}, {"a": 1}),
]


@pytest.mark.parametrize(("text", "value", "seen"), ACCEPTED)
def test_accepts(text, value, seen):
    verdict = accept(text, value)
    assert verdict == Accepted(seen)
    assert type(verdict.value) is type(seen)


@pytest.mark.parametrize(
    ("text", "value", "type_fits", "reason"),
    [
        ("float", "high", False, "expected a number, got 'high' (str)"),
        ("float", True, False, "expected a number, got True (bool)"),
        ("int", True, False, "expected an int, got True (bool)"),
        ("int", 1.0, False, "expected an int, got 1.0 (float)"),
        ("int", None, False, "expected an int, got None"),
        ("bool", 1, False, "expected a bool, got 1 (int)"),
        ("Number", "x", False, "expected a number, got 'x' (str)"),
        ("str", 1, False, "expected a str, got 1 (int)"),
        ("'zero' | 'edge'", "wrap", True, "expected one of 'edge', 'zero', got 'wrap'"),
        ("'zero' | 'edge'", 3, False, "expected one of 'edge', 'zero', got 3 (int)"),
        ("'zero'", Mode.SLOW, True, "expected 'zero', got <Mode.SLOW: 'slow'>"),
        ("'zero'", Mode.ONE, False, "expected 'zero', got <Mode.ONE: 1> (Mode)"),
        ("float16 | int8", dtype("int4"), True, "expected one of float16, int8, got int4"),
        ("float16", "float16", False, "expected float16, got 'float16' (str)"),
        ("torch.dtype", dtype("int4"), True, "expected a torch.dtype, got int4"),
        ("tuple[int, int]", (1, 2, 3), True, "expected a list or tuple of 2 int, got (1, 2, 3)"),
        ("list[int]", [1, "a"], False, "expected a list or tuple of int, got [1, 'a'] (list)"),
        ("list[int]", [True], False, "expected a list or tuple of int, got [True] (list)"),
        (
            "list[int | None]",
            [1.0],
            False,
            "expected a list or tuple of int or None, got [1.0] (list)",
        ),
        ("list[int]", {1, 2}, False, "expected a list or tuple of int, got {1, 2} (set)"),
        (
            "int | 'same' | None",
            "full",
            True,
            "expected an int or 'same' or None, got 'full'",
        ),
        ("fractions.Fraction", 1, False, "expected an instance of fractions.Fraction, got 1 (int)"),
        ("dict", [1], False, "expected an instance of dict, got [1] (list)"),
        ("None", 1, False, "expected None, got 1 (int)"),
    ],
)
def test_refuses(text, value, type_fits, reason):
    assert accept(text, value) == Refused(type_fits, reason)


def test_adt_values():
    dense = Dense()
    assert accept("Store", dense) == Accepted(dense)
    liar = Dense()
    liar.kind = "tiled"
    assert accept("Store", liar).type_fits
    refused = accept("Store", Liar())
    assert not refused.type_fits
    assert refused.reason.startswith("expected a Store, got <")


def test_unresolved_class_is_matched_by_its_bare_name():
    Widget = type("Widget", (), {})
    part = type("Part", (Widget,), {})()
    assert accept("no.such.module.Widget", part) == Accepted(part)
    assert not accept("no.such.module.Widget", 1).type_fits


def test_classes_are_found_without_imports():
    find = ImportedClasses().object_class
    assert find("collections.OrderedDict") is collections.OrderedDict
    assert find("dict") is dict
    assert find("collections.abc.no") is None
    assert find("tileops_is_not_this.X") is None
    assert find("fractions.Fraction.numerator") is None
    assert ImportedClasses().constructor_classes("Store") == {}


@pytest.mark.parametrize(
    ("text", "value", "seen"),
    [
        ("int", 3, 3),
        ("float16 | int8", "int8", "int8"),
        ("list[int] | tuple[int, ...]", [1, 2], [1, 2]),
        ("tuple[int, int]", [1, 2], (1, 2)),
        ("torch.device | str | None", "cpu", "cpu"),
        ("torch.device | str | None", None, None),
        ("acme.Config", {"a": 1}, {"a": 1}),
        ("'row' | 'col'", "row", "row"),
        (
            "Store",
            {"dense": {"cols": 3, "full": True, "order": "row"}},
            AdtView("dense", {"cols": 3, "full": True, "order": "row"}),
        ),
        ("Store | None", {"none": {}}, AdtView("none", {})),
    ],
)
def test_reads_yaml(text, value, seen):
    assert from_yaml(text, value) == Accepted(seen)


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("int", 1.5, "expected an int, got 1.5 (float)"),
        ("float16", "int8", "expected float16, got 'int8'"),
        ("float16", 3, "expected float16, got 3 (int)"),
        ("acme.Config", [1], "expected an instance of acme.Config, got [1] (list)"),
        ("Store", "dense", "expected a Store, got 'dense' (str)"),
        ("Store", {"sparse": {}}, "Store has no constructor 'sparse'"),
        ("Store", {"dense": {"cols": 3}}, "expected dense with cols, full, order, got {'cols': 3}"),
        ("Store", {"none": {"a": 1}}, "expected none with no fields, got {'a': 1}"),
        (
            "Store",
            {"dense": {"cols": -1, "full": True, "order": "row"}},
            "expected Dim for dense.cols, got -1",
        ),
        (
            "Store",
            {"dense": {"cols": 1, "full": 1, "order": "row"}},
            "expected Bool for dense.full, got 1",
        ),
        (
            "Store",
            {"dense": {"cols": True, "full": True, "order": "row"}},
            "expected Dim for dense.cols, got True",
        ),
        (
            "Store",
            {"dense": {"cols": 1, "full": True, "order": "col"}},
            "expected 'row' for dense.order, got 'col'",
        ),
    ],
)
def test_refuses_yaml(text, value, reason):
    verdict = from_yaml(text, value)
    assert isinstance(verdict, Refused)
    assert verdict.reason == reason


def test_adt_view():
    view = AdtView("dense", {"cols": 3})
    assert (view.kind, view.cols, repr(view)) == ("dense", 3, "dense(cols=3)")
    with pytest.raises(AttributeError, match="dense has no field rows"):
        view.rows  # noqa: B018
    holder = type("Holder", (), {"mode": Mode.FAST, "size": 2})()
    assert (read_field(holder, "mode"), read_field(holder, "size")) == ("fast", 2)


class Lines:
    def __repr__(self) -> str:
        return "one\ntwo"


class Unshown:
    def __repr__(self) -> str:
        return str(1 // 0)


def test_shown_values():
    assert shown(tuple(range(20))) == "(0, 1, 2, 3, 4, 5, 6, 7, …)"
    assert shown([1, (2,)]) == "[1, (2,)]"
    cycle = []
    cycle.append(cycle)
    assert shown(cycle) == "[[[[[…]]]]]"
    assert shown(dtype("float16")) == "float16"
    assert shown("x" * 500).endswith("…")
    assert shown(1 << 600) == "an integer of 601 bits"
    assert shown({"a": [1], "b": dtype("int8")}) == "{'a': [1], 'b': int8}"
    assert shown(dict.fromkeys(range(9))).endswith("7: None, …}")
    assert shown(Lines()) == "one two"
    assert shown([Unshown()]) == "[a value whose text fails with ZeroDivisionError]"
    assert shown_with_type(None) == "None"
