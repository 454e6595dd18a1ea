"""Patterns, the choice of a case, and what an application expands to."""

from __future__ import annotations

import pytest

from tileops._core.lang.kinds import BOOL, DIM, AdtKind, EnumKind, MaybeKind
from tileops._core.lang.nodes import Splice
from tileops._core.lang.printer import to_text
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.patterns import matches, pattern_fault, shown
from tileops._core.spec.model import AbsentPattern, AdtPattern, Wildcard

TILED = ("tiled", (("order", "row"), ("padded", False)))


@pytest.mark.parametrize(
    ("pattern", "value", "result"),
    [
        (True, True, True),
        (True, False, False),
        (True, None, False),
        ("silu", "silu", True),
        ("silu", None, False),
        (Wildcard(), None, True),
        (Wildcard(), TILED, True),
        (AbsentPattern(), None, True),
        (AbsentPattern(), False, False),
        (AdtPattern("tiled"), TILED, True),
        (AdtPattern("dense"), TILED, False),
        (AdtPattern("tiled", (("padded", False),)), TILED, True),
        (AdtPattern("tiled", (("padded", True),)), TILED, False),
        (AdtPattern("tiled"), "tiled", False),
    ],
)
def test_patterns_match(pattern, value, result):
    assert matches(pattern, value) is result


MODE = EnumKind(frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("pattern", "kind", "fault"),
    [
        (True, BOOL, None),
        ("a", MODE, None),
        ("c", MODE, "c is not a value of the subject, which is 'a' | 'b'"),
        (True, MODE, "true is not a value of the subject, which is 'a' | 'b'"),
        ("a", BOOL, "a is not a value of the subject, which is Bool"),
        ("", BOOL, "'' is not a value of the subject, which is Bool"),
        (" a", BOOL, "' a' is not a value of the subject, which is Bool"),
        (AbsentPattern(), MaybeKind(BOOL), None),
        (AbsentPattern(), BOOL, "null, but the subject is Bool"),
        (Wildcard(), DIM, None),
        (AdtPattern("tiled"), AdtKind("RowStore"), None),
        (
            AdtPattern("ring"),
            AdtKind("RowStore"),
            "RowStore has no constructor 'ring', it has dense, tiled",
        ),
        (
            AdtPattern("tiled", (("edge", True),)),
            AdtKind("RowStore"),
            "constructor 'tiled' has no field 'edge'",
        ),
        (
            AdtPattern("tiled", (("tile", "x"),)),
            AdtKind("RowStore"),
            "field 'tile' is Dim, which is not finite",
        ),
        (
            AdtPattern("tiled", (("order", "z"),)),
            MaybeKind(AdtKind("RowStore")),
            "field 'order' is never z",
        ),
        (AdtPattern("tiled"), BOOL, "{tiled: _} is not a value of the subject, which is Bool"),
    ],
)
def test_patterns_have_the_kind_of_their_subject(spec_of, pattern, kind, fault):
    spec = spec_of("outputs: {y: {dtype: float16, shape: '[]'}}")
    assert pattern_fault(pattern, kind, spec.adts) == fault


def test_values_are_shown_as_yaml_writes_them():
    assert shown(TILED) == "{tiled: {order: row, padded: false}}"
    assert shown(("dense", ())) == "{dense: _}"
    assert shown(AdtPattern("tiled", (("padded", True),))) == "{tiled: {padded: true}}"
    assert [shown(v) for v in (None, True, "row", Wildcard())] == ["null", "true", "row", "_"]


SPEC = """
forall: {R: Dim, C: Dim, S: Shape, T: "DType[float16]"}
params:
  flip: {type: bool, kw_only: true}
  act: {type: "'silu' | 'gelu' | None", default: null, kw_only: true}
  pad: {type: "int | None", default: null, kw_only: true}
  layout: {type: RowStore, kw_only: true}
  store: {type: "RowStore | None", default: null, kw_only: true}
inputs:
  x: {dtype: T, shape: "SHAPE"}
outputs:
  y: {dtype: T, shape: "[R]"}
let: {given: "(pad.value if present(pad) else None) if flip else None"}
types:
  Mat:
    params: {t: Bool, r: Dim, c: Dim}
    match: t
    cases: [{when: false, is: "[r, c]"}, {when: true, is: "[c, r]"}]
  Wide:
    params: {a: "Maybe['silu' | 'gelu']", n: Dim}
    match: a
    cases: [{when: null, is: "[n]"}, {when: _, is: "[2 * n]"}]
  Padded:
    params: {p: "Maybe[Int]", n: Dim}
    match: "present(p)"
    cases: [{when: true, is: "[n + p.value]"}, {when: false, is: "[n]"}]
  Rows:
    params: {l: RowStore, r: Dim}
    match: l
    cases:
    - {when: {dense: _}, is: "[r, l.cols]"}
    - {when: {tiled: _}, is: "Mat[l.padded, l.tile, r]"}
  Some:
    params: {l: "Maybe[RowStore]", r: Dim}
    match: l
    cases: [{when: null, is: "[r]"}, {when: _, is: "[r, 1]"}]
  Either:
    params: {l: RowStore, r: Dim}
    match: [l.kind, "l.kind == 'tiled' and l.padded"]
    cases:
    - {when: [dense, _], is: "[r, l.cols]"}
    - {when: [tiled, true], is: "[l.tile, r]"}
    - {when: [tiled, false], is: "[r]"}
  Run:
    params: {s: Shape, t: Bool}
    match: [t, "not t"]
    cases: [{when: [true, false], is: "[*s[:1], *s]"}, {when: [false, _], is: "[*s]"}]
"""


def expand(spec_of, shape, point):
    spec = spec_of(SPEC.replace("SHAPE", shape))
    assert spec.faults == ()
    parts = Analysis(spec).families.parts(spec.signature.inputs["x"].shape, point)
    if parts is None:
        return None
    return ["*" + to_text(p.value) if isinstance(p, Splice) else to_text(p) for p in parts]


DENSE = ("dense", ())
PADDED = ("tiled", (("order", "row"), ("padded", True)))


@pytest.mark.parametrize(
    ("shape", "point", "parts"),
    [
        ("[R, *S]", {}, ["R", "*S"]),
        ("Mat[flip, R, C]", {"flip": False}, ["R", "C"]),
        ("Mat[flip, R, 2 * C + 1]", {"flip": True}, ["2 * C + 1", "R"]),
        ("Mat[not flip, R, C]", {"flip": True}, ["R", "C"]),
        ("Mat[flip, R, C]", {}, None),
        ("Wide[act, R]", {"act": None}, ["R"]),
        ("Wide[act, R + C]", {"act": "gelu"}, ["2 * (R + C)"]),
        ("Padded[pad, R]", {"pad": None}, ["R"]),
        ("Padded[pad, R]", {"pad": "given"}, ["R + pad.value"]),
        ("Padded[C, R]", {}, ["R + C"]),
        ("Padded[None, R]", {}, ["R"]),
        ("Rows[layout, R]", {"layout": DENSE}, ["R", "layout.cols"]),
        ("Rows[layout, R]", {"layout": TILED}, ["layout.tile", "R"]),
        ("Rows[layout, R]", {"layout": PADDED}, ["R", "layout.tile"]),
        ("Some[store, R]", {"store": None}, ["R"]),
        ("Some[store, R]", {"store": TILED}, ["R", "1"]),
        ("Padded[pad.value if flip else None, R]", {"flip": False}, ["R"]),
        ("Padded[pad.value if flip else None, R]", {"flip": True}, ["R + pad.value"]),
        ("Padded[given, R]", {"flip": True, "pad": None}, ["R"]),
        ("Padded[given, R]", {"flip": True, "pad": "given"}, ["R + given.value"]),
        ("Either[layout, R]", {"layout": DENSE}, ["R", "layout.cols"]),
        (
            "Either[store.value if present(store) else layout, R]",
            {"layout": DENSE, "store": PADDED},
            ["store.value.tile", "R"],
        ),
        (
            "Either[store.value if present(store) else layout, R]",
            {"layout": DENSE, "store": None},
            ["R", "layout.cols"],
        ),
        ("Run[S, flip]", {"flip": True}, ["*S[:1]", "*S"]),
        ("[*(1, 1)]", {}, ["1", "1"]),
        ("[*((R, C) if flip else S)]", {"flip": True}, ["R", "C"]),
        ("[*((R, C) if flip else S)]", {"flip": False}, ["*S"]),
    ],
)
def test_expansion(spec_of, shape, point, parts):
    assert expand(spec_of, shape, point) == parts


def test_arguments_that_stand_for_sizes(spec_of):
    spec = spec_of(SPEC.replace("SHAPE", "Mat[flip, R - 1, C]"))
    families = Analysis(spec).families
    found = families.sized_arguments(spec.signature.inputs["x"].shape, {"flip": True})
    assert [to_text(expr) for expr in found] == ["R - 1", "C"]
