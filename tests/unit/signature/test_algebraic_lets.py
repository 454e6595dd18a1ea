"""Lets of an algebraic kind: which definitions they may have, and what may be read through them."""

from __future__ import annotations

import pytest

from tileops._core.signature.check import check_spec

BASE = """
forall: {R: Dim}
params:
  flip: {type: bool}
  n: {type: int}
  layout: {type: RowStore}
  other: {type: RowStore}
  maybe: {type: "RowStore | None", default: null}
inputs: {x: {dtype: float32, shape: "[R]"}, w: {dtype: float32, shape: "[R]", optional: WHERE}}
outputs: {y: {dtype: float32, shape: "SHAPE"}}
let: {LET}
shape_rules: ["RULE"]
"""

FAMILY = """
types:
  F:
    params: {l: RowStore, r: Dim}
    match: l
    cases: [{when: {dense: _}, is: "[r, l.cols]"}, {when: {tiled: _}, is: "[r, l.tile]"}]
"""

NUMBER = 'q: "layout if n > 1 else other"'
"""A let that no branch decides."""


def findings(spec_of, let, rule="R > 0", where="true", shape="[R]"):
    text = BASE + (FAMILY if "F[" in shape else "")
    for key, part in {"LET": let, "RULE": rule, "WHERE": where, "SHAPE": shape}.items():
        text = text.replace(key, part)
    spec = spec_of(text)
    assert spec.faults == ()
    return [(f.field.removeprefix("signature."), f.message) for f in check_spec(spec)]


@pytest.mark.parametrize(
    ("let", "parts"),
    [
        ("q: layout", {"rule": "q.kind == 'dense' or q.tile > 0"}),
        ('q: "p if flip else other", p: layout', {"rule": "q.kind == 'tiled' or q.cols > 0"}),
        (
            'q: "maybe.value if present(maybe) else None"',
            {"rule": "not present(q) or q.value.kind == 'dense' or q.value.tile > 0"},
        ),
        (
            'q: "maybe.value if present(maybe) else layout"',
            {"shape": "F[q, R]", "where": "\"q.kind == 'tiled' and q.padded\""},
        ),
        (NUMBER, {"rule": "q.kind == 'dense' or R > 0"}),
        ("q: layout", {"rule": "q == other"}),
    ],
)
def test_admitted(spec_of, let, parts):
    assert findings(spec_of, let, **parts) == []


@pytest.mark.parametrize(
    ("let", "parts", "found"),
    [
        (
            'q: "(layout, other)[0]"',
            {"rule": "q.kind == 'dense'"},
            [
                "let.q: [V15] (layout, other)[0] is RowStore; a let of it names one or chooses "
                "between them"
            ],
        ),
        (
            "q: maybe",
            {"rule": "q.kind == 'dense'"},
            ["let.q: [V15] maybe may be absent; read maybe.value"],
        ),
        (
            "q: layout",
            {"rule": "q.cols > 0"},
            [
                "shape_rules[0]: [V28] q.cols is a field of another constructor when "
                "layout.kind=tiled"
            ],
        ),
        (
            NUMBER,
            {"rule": "other.kind == 'dense' or q.tile > 0"},
            [
                "shape_rules[0]: [V28] q.tile is a field of another constructor when "
                "layout.kind=dense, other.kind=tiled"
            ],
        ),
        (
            'q: "maybe.value"',
            {"rule": "q.kind == 'dense'"},
            ["let.q: [V28] maybe.value is read when present(maybe)=false"],
        ),
        (
            'q: "layout if flip else None"',
            {"rule": "q.value.kind == 'dense'"},
            [
                "shape_rules[0]: [V28] q.value.kind is read when flip=false",
                "shape_rules[0]: [V28] q.value is read when flip=false",
            ],
        ),
        (
            'q: "layout if present(q) else None"',
            {"rule": "R > 0"},
            ["let.q: [V20] cycle q, q"],
        ),
        (
            'q: "layout if present(p) else other", p: q',
            {"rule": "q.kind == 'dense'"},
            ["let.q: [V20] cycle q, p, q"],
        ),
        (
            'q: "layout if present(p) else other", p: "q if flip else None"',
            {"rule": "q.kind == 'dense'"},
            ["let.q: [V20] cycle q, p, q"],
        ),
        (
            'q: "layout if present(w) else None"',
            {"where": '"present(q)"'},
            ["inputs.w.optional: [V31] depends on itself: q, w, q"],
        ),
        (
            'q: "layout if present(w) else other", p: q',
            {"where": "\"p.kind == 'dense'\""},
            ["inputs.w.optional: [V31] depends on itself: w, w"],
        ),
        (
            'q: "layout if n > 1 else None"',
            {"rule": "not present(q) or q.value.kind == 'dense'"},
            [
                "shape_rules[0]: [V28] q.value.kind is read",
                "shape_rules[0]: [V28] q.value is read",
            ],
        ),
        (
            NUMBER,
            {"where": "\"q.kind == 'dense'\""},
            [
                "inputs.w.optional: [V31] does not reduce to a constant: q.kind == 'dense' is left",
            ],
        ),
        (
            NUMBER,
            {"shape": "F[q, R]"},
            ["outputs.y.shape: [V26] discriminants do not decide which case of F applies"],
        ),
        (
            'q: "layout if R > 1 else other"',
            {"rule": "q.kind == 'dense'"},
            ["let.q: [V34] not evaluable on SymInt: layout if R > 1 else other chooses by R > 1"],
        ),
    ],
)
def test_refused(spec_of, let, parts, found):
    assert [": ".join(each) for each in findings(spec_of, let, **parts)] == found
