"""Checks of metadata tensors, symbolic sizes, effects, and of specs as a whole."""

from __future__ import annotations

import pytest

from tileops._core.signature import build_plan
from tileops._core.signature.check import check_spec

METADATA = {
    "an absent argument": (
        'c: {dtype: int32, shape: "[B]"}\n'
        '  a: {dtype: int32, shape: "[B]", values: "as_tensor(L)", optional: true}\n'
        '  b: {dtype: int32, shape: "[B]", values: "as_tensor(L)", optional: true, '
        'requires: ["exclusive_prefix_of(a)"]}',
        ("inputs.b.requires[0]", "argument a is absent when present(a)=false, present(b)=true"),
    ),
    "an argument of rank 2": (
        'a: {dtype: int32, shape: "[B, 2]", values: "token_indices(L)"}\n'
        '  b: {dtype: int32, shape: "[B]", values: "as_tensor(L)", '
        'requires: ["exclusive_prefix_of(a)"]}',
        ("inputs.b.requires[0]", "argument a has rank 2, not 1"),
    ),
    "a predicate of another rank": (
        'a: {dtype: int32, shape: "[B, 2]", values: "token_indices(L)", '
        'requires: ["prefix_offsets(B)"]}',
        ("inputs.a.requires[0]", "prefix_offsets reads rank 1, but a has rank 2"),
    ),
    "no fixed rank": (
        'a: {dtype: int32, shape: "[*S]", values: "as_tensor(L)", requires: ["sums_to(3)"]}\n'
        '  b: {dtype: int32, shape: "[B]"}',
        ("inputs.a.requires[0]", "sums_to reads rank 1, but that of a is not fixed"),
    ),
    "a generator of another rank": (
        'a: {dtype: int32, shape: "[B, 2]", values: "as_tensor(L)"}',
        ("inputs.a.values", "as_tensor makes rank 1, but a has rank 2"),
    ),
    "a full tensor of another rank": (
        'a: {dtype: int32, shape: "[B]", values: "full((2, B), 1)"}',
        ("inputs.a.values", "full makes rank 2, but a has rank 1"),
    ),
    "a run of known length": (
        'a: {dtype: int32, shape: "[B, *pair]", values: "full((2, B, 1), 1)", '
        'requires: ["in_range(0, 9)", "sums_to(3)"]}',
        ("inputs.a.requires[1]", "sums_to reads rank 1, but a has rank 3"),
    ),
    "valid": (
        'a: {dtype: int32, shape: "[B + 1]", values: "prefix_sum(L)", '
        'requires: ["prefix_offsets(B)", "max_segment(7)"]}\n'
        '  b: {dtype: int32, shape: "[B]", values: "as_tensor(L)", optional: true, '
        'requires: ["attn.paged_fits(a, 9)"]}',
        None,
    ),
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata(spec_of, name):
    inputs, expected = METADATA[name]
    spec = spec_of(
        "forall: {B: Dim, S: Shape, L: 'Seq[Int]'}\n"
        "params: {pair: {type: 'tuple[int, int]'}}\n"
        f"inputs:\n  {inputs}\noutputs: {{y: {{dtype: int32, shape: '[B]'}}}}"
    )
    assert spec.faults == ()
    found = [f for f in check_spec(spec) if f.level == "error"]
    assert [(f.field, f.message) for f in found] == (
        [] if expected is None else [(f"signature.{expected[0]}", f"[V32] {expected[1]}")]
    )


SYMINT = {
    "S[R] == 1": "S[R] subscripts by R",
    "len(S[:R]) == 1": "S[:R] slices by R",
    "len(S[1:q]) == 1": "S[1:q] slices by q",
    "S < S": "S < S orders S",
    "len(S if R > 1 else U) > 0": "S if R > 1 else U chooses by R > 1",
    "valid_axes(R, 2)": "valid_axes(R, 2) needs dim = R at construction",
    "sum(S[k] for k in S) > 0": "S[k] subscripts by k",
    # what can be evaluated
    "S[0] == 1": None,
    "S[n] == 1": None,
    "S[len(S) - 1] == 1": None,
    "S == U": None,
    "(R if R > 1 else 2) > 1": None,
    "(R > 1 if C > 1 else C > 0)": None,
    "valid_axes(n, len(S))": None,
    "per_axis(n, 0, 2) > R": None,
    "all(k > 0 for k in S)": None,
    "mhc.expansion(R) > 1": None,
    "max(S, default=0) < R": None,
    "H[0] > 1": None,
    "S[K] > 1": None,
    "S[n] in (R, 2)": None,
}


def symint_spec(spec_of, text, extra=""):
    return spec_of(
        "forall: {R: Dim, C: Dim, S: Shape, U: Shape, H: Shape, K: Dim}\n"
        "params:\n  n: {type: int}\n  h: {dtype: float16, shape: '[K, *H]'}\n"
        "inputs:\n  x: {dtype: float16, shape: '[R, C, *S]'}\n"
        "  w: {dtype: float16, shape: '[*U]'}\n"
        "outputs: {y: {dtype: float16, shape: '[R]'}}\n"
        'let: {q: "R + 1"}\n'
        f'shape_rules: ["{text}"]',
        extra=extra,
    )


@pytest.mark.parametrize("text", SYMINT)
def test_symbolic_sizes_do_not_select(spec_of, text):
    spec = symint_spec(spec_of, text)
    found = [f.message for f in check_spec(spec) if f.level == "error"]
    wanted = SYMINT[text]
    assert found == ([] if wanted is None else [f"[V34] not evaluable on SymInt: {wanted}"])


def test_a_composite_has_no_boundary_to_keep(spec_of):
    composite = "composition: {kind: composite, stages: [{name: a, op: OtherFwdOp}]}"
    assert not [
        f for f in check_spec(symint_spec(spec_of, "S[R] == 1", composite)) if "V34" in f.message
    ]


def test_symbolic_sizes_in_shapes_and_lets(spec_of):
    spec = spec_of(
        "forall: {R: Dim, S: Shape}\ninputs: {x: {dtype: float16, shape: '[R, *S]'}}\n"
        "outputs: {y: {dtype: float16, shape: '[*S[:R]]'}, z: {dtype: float16, shape: '[q]'}}\n"
        'let: {q: "S[R]"}'
    )
    assert [(f.field, f.message) for f in check_spec(spec)] == [
        ("signature.outputs.y.shape", "[V34] not evaluable on SymInt: S[:R] slices by R"),
        ("signature.let.q", "[V34] not evaluable on SymInt: S[R] subscripts by R"),
    ]


def test_without_outputs_every_branch_writes(spec_of):
    spec = spec_of(
        "params: {flip: {type: bool, kw_only: true}}\n"
        "inputs: {x: {dtype: float16, shape: '[]', mutated: flip}}\noutputs: {}"
    )
    assert [(f.field, f.message) for f in check_spec(spec)] == [
        ("signature", "[V22] nothing is returned or written when flip=false")
    ]


def test_findings_follow_the_document(spec_of):
    spec = spec_of(
        "inputs: {x: {dtype: float16, shape: '[A]'}, w: {dtype: float16, shape: '[B]'}}\n"
        "outputs: {y: {dtype: float16, shape: '[C]'}}\nshape_rules: ['D > 0']"
    )
    assert [f.field for f in check_spec(spec)] == [
        "signature.inputs.x.shape",
        "signature.inputs.w.shape",
        "signature.outputs.y.shape",
        "signature.shape_rules[0]",
    ]


UNREADABLE = {
    "a shape": ("forall: {R: Dim, C: Dim}\ninputs: {x: {dtype: float16, shape: '[R, C'}}\n"
                "outputs: {y: {dtype: float16, shape: '[R, C]'}}"),
    "an index": ("forall: {R: Dimension}\ninputs: {x: {dtype: float16, shape: '[R]'}}\n"
                 "outputs: {y: {dtype: float16, shape: '[R, R + 1]'}}\nshape_rules: ['R > 0']"),
    "a let": ("forall: {R: Dim}\ninputs: {x: {dtype: float16, shape: '[R + q]'}}\n"
              "outputs: {y: {dtype: float16, shape: '[R, q]'}}\nlet: {q: '1 +'}"),
    "a parameter": ("forall: {R: Dim}\nparams: {p: {type: 'list[float]'}}\n"
                    "inputs: {x: {dtype: float16, shape: '[R + p]'}}\n"
                    "outputs: {y: {dtype: float16, shape: '[R, p]'}}\nshape_rules: ['p > 0']"),
    "a section": ("forall: [R]\ninputs: {x: {dtype: float16, shape: '[R, *S]'}}\n"
                  "outputs: {y: {dtype: float16, shape: '[R, Z]'}}"),
    "a dtype": ("forall: {T: 'DType[float17]'}\ninputs: {x: {dtype: T, shape: '[]'}}\n"
                "outputs: {y: {dtype: T, shape: '[]'}}"),
    "a pattern": ("params: {f: {type: bool}}\ninputs: {x: {dtype: float16, shape: 'F[f]'}}\n"
                  "outputs: {y: {dtype: float16, shape: '[]'}}\n"
                  "types: {F: {params: {a: Bool}, match: a, cases: [{when: 3, is: '[]'}]}}"),
    "a condition": ("inputs: {x: {dtype: float16, shape: '[]', optional: '1 +'}}\n"
                    "outputs: {y: {dtype: float16, shape: '[]'}}"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_could_not_be_read_is_reported_once(spec_of, name):
    spec = spec_of(UNREADABLE[name])
    assert len(spec.faults) == 1
    assert check_spec(spec) == ()


def test_chains_of_lets_and_presences_may_be_long(spec_of):
    count = 200
    lets = ", ".join(
        f'l{i}: "{f"l{i + 1} + l{i + 1}" if i < count else "R"}"' for i in range(count + 1)
    )
    flags = ", ".join(
        f'f{i}: "{f"f{i + 1} and f{i + 1}" if i < count else "present(x0)"}"'
        for i in range(count + 1)
    )
    inputs = "".join(
        f"  x{i}: {{dtype: float16, shape: '[R]', optional: "
        f"{f'present(x{i - 1})' if i else 'true'}}}\n"
        for i in range(80)
    )
    spec = spec_of(
        f"forall: {{R: Dim}}\ninputs:\n  a: {{dtype: float16, shape: '[R]'}}\n{inputs}"
        f"outputs: {{y: {{dtype: float16, shape: '[R]'}}}}\nlet: {{{lets}, {flags}}}\n"
        "shape_rules: ['l0 > 0', 'f0']"
    )
    assert spec.faults == ()
    assert check_spec(spec) == ()
    assert len(build_plan(spec).discriminants) == 1


def test_families_do_not_expand_without_bounds(spec_of):
    count = 30
    cases = "".join(
        f'  F{i}: {{params: {{a: Bool, n: Dim}}, match: a, cases: [{{when: _, is: "'
        f'{f"F{i + 1}[a, n + n]" if i < count else "[n]"}"}}]}}\n'
        for i in range(count + 1)
    )
    spec = spec_of(
        "forall: {R: Dim}\nparams: {f: {type: bool}}\n"
        "inputs: {x: {dtype: float16, shape: '[R]'}}\n"
        f"outputs: {{y: {{dtype: float16, shape: 'F0[f, R]'}}}}\ntypes:\n{cases}"
    )
    assert [f.message for f in check_spec(spec)] == ["[V19] its cases expand beyond all bounds"]
