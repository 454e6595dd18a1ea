"""Which discriminants participate, and which branches are accepted."""

from __future__ import annotations

import pytest

from tileops._core.lang.printer import to_text
from tileops._core.signature.analysis import Analysis

PARAMS = """
params:
  flip: {type: bool, kw_only: true}
  mode: {type: "'slow' | 'exact'", kw_only: true}
  cap: {type: "int | None", default: null, kw_only: true}
  act: {type: "'silu' | 'gelu' | None", default: null, kw_only: true}
  layout: {type: RowStore, kw_only: true}
  pad: {type: "int | 'same'", kw_only: true}
  gain: {type: float, kw_only: true}
"""


def analysis_of(spec_of, rules, inputs="", outputs="  y: {dtype: T, shape: '[N]'}", **extra):
    spec = spec_of(
        f"forall: {{N: Dim, T: 'DType[float16]'}}\n{PARAMS}"
        f"inputs:\n  x: {{dtype: T, shape: '[N]'}}\n{inputs}\noutputs:\n{outputs}\n"
        f"shape_rules: {rules}",
        **extra,
    )
    assert spec.faults == ()
    return Analysis(spec)


def names(analysis):
    return [d.name for d in analysis.branches.participating]


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("N > 0", []),
        ("flip or N > 0", ["flip"]),
        ("mode == 'slow' or N > 0", ["mode"]),
        ("not present(cap) or cap.value > N", ["cap"]),
        ("layout.kind == 'dense' or N > 0", ["layout"]),
        ("pad == 'same' or gain > 0", []),
        ("both or N > 0", ["flip", "mode"]),
    ],
)
def test_what_something_reads_participates(spec_of, rule, found):
    lets = "let: {both: \"flip and mode == 'slow'\", unread: 'N + 1'}\n"
    spec = spec_of(
        f"forall: {{N: Dim, T: 'DType[float16]'}}\n{PARAMS}"
        f"inputs: {{x: {{dtype: T, shape: '[N]'}}}}\noutputs: {{y: {{dtype: T, shape: '[N]'}}}}\n"
        + (lets if "both" in rule else "")
        + f'shape_rules: ["{rule}"]'
    )
    assert names(Analysis(spec)) == found


def test_presence_of_optional_tensors_and_out_always_participates(spec_of):
    analysis = analysis_of(
        spec_of,
        "[]",
        inputs="  b: {dtype: T, shape: '[N]', optional: true}\n"
        "  c: {dtype: T, shape: '[N]', optional: 'present(b)'}",
        outputs="  y: {dtype: T, shape: '[N]', buffer: out}",
    )
    assert names(analysis) == ["b", "out"]
    assert analysis.branches.count == 4


def test_presence_of_a_conditional_tensor_follows_its_condition(spec_of):
    analysis = analysis_of(
        spec_of,
        "[]",
        inputs="  b: {dtype: T, shape: '[N]', optional: \"flip and mode == 'slow'\"}\n"
        "  c: {dtype: T, shape: '[N]', optional: 'present(b)'}",
    )
    assert names(analysis) == ["flip", "mode"]
    present = [p for p in analysis.branches.accepted.points if analysis.facts.present("c", p)]
    assert present == [{"flip": True, "mode": "slow"}]


def test_values_of_each_source(spec_of):
    facts = analysis_of(spec_of, "[]").facts
    values = {name: d.values for name, d in facts.discriminants.items()}
    assert values == {
        "flip": (False, True),
        "mode": ("exact", "slow"),
        "cap": (None, "given"),
        "act": (None, "gelu", "silu"),
        "layout": (
            ("dense", ()),
            ("tiled", (("order", "col"), ("padded", False))),
            ("tiled", (("order", "col"), ("padded", True))),
            ("tiled", (("order", "row"), ("padded", False))),
            ("tiled", (("order", "row"), ("padded", True))),
        ),
    }


def test_a_domain_restriction_excludes_branches(spec_of):
    analysis = analysis_of(spec_of, "[\"flip or mode == 'slow'\"]")
    assert analysis.branches.accepted.points == (
        {"flip": False, "mode": "slow"},
        {"flip": True, "mode": "exact"},
        {"flip": True, "mode": "slow"},
    )


def test_a_refinement_that_reads_more_excludes_nothing(spec_of):
    analysis = analysis_of(spec_of, '["flip and gain > 0", "present(cap) and cap.value > 0"]')
    assert len(analysis.branches.accepted.points) == 4
    assert analysis.branches.restrictions == ()


def test_a_restriction_is_found_through_lets(spec_of):
    spec = spec_of(
        f"forall: {{T: 'DType[float16]'}}\n{PARAMS}"
        "inputs: {x: {dtype: T, shape: '[]'}}\noutputs: {y: {dtype: T, shape: '[]'}}\n"
        "let: {fast: \"mode == 'exact'\"}\nshape_rules: ['not fast']"
    )
    branches = Analysis(spec).branches
    (restriction,) = branches.restrictions
    assert to_text(branches.runnable(restriction.expr)) == "not mode == 'exact'"
    assert restriction.at_construction


def test_an_invariant_excludes_values_it_decides(spec_of):
    analysis = analysis_of(spec_of, "[\"layout.kind == 'dense' or N > 0\"]")
    assert [p["layout"] for p in analysis.branches.accepted.points] == [
        ("dense", ()),
        ("tiled", (("order", "col"), ("padded", False))),
        ("tiled", (("order", "row"), ("padded", False))),
        ("tiled", (("order", "row"), ("padded", True))),
    ]


def test_a_construction_point_is_the_early_part_of_a_branch(spec_of):
    analysis = analysis_of(
        spec_of, '["flip or present(b) or N > 0"]', "  b: {dtype: T, shape: '[N]', optional: true}"
    )
    assert analysis.branches.constructions.points == ({"flip": False}, {"flip": True})
    assert analysis.branches.origins == (0, 0, 1, 1)


@pytest.mark.parametrize(
    ("text", "point", "folded"),
    [
        ("2 * N if flip else N", {"flip": True}, "2 * N"),
        ("N > 0 or flip", {"flip": True}, "True"),
        ("1 if present(act) else 2", {"act": None}, "2"),
        ("act.value == 'silu'", {"act": "silu"}, "True"),
        ("layout.tile", {"layout": ("tiled", (("order", "row"), ("padded", True)))}, "layout.tile"),
        ("layout.kind", {"layout": ("dense", ())}, "'dense'"),
        ("layout.padded", {"layout": ("tiled", (("order", "row"), ("padded", True)))}, "True"),
        ("flip", {}, "flip"),
        ("per_axis(cap, 0, N, 1)", {"cap": None}, "per_axis(cap, 0, N, 1)"),
        ("per_axis(cap, 0, 2, 1)", {"cap": None}, "1"),
        ("pool.out(ceil_div(5, 2) + 3, 2, 1, 0, 1, flip)", {"flip": True}, "5"),
    ],
)
def test_folding(spec_of, text, point, folded):
    from tileops._core.lang.parser import parse_expression

    facts = analysis_of(spec_of, "[]").facts
    assert to_text(facts.fold(parse_expression(text), point)) == folded


def test_one_and_true_are_not_shared(spec_of):
    from tileops._core.lang.nodes import Constant

    facts = analysis_of(spec_of, "[]").facts
    assert facts.share(Constant(True)).value is True
    assert facts.share(Constant(1)).value == 1
    assert facts.share(Constant(1)).value is not True
