"""One fault in an otherwise valid spec: the field, the check and the gist of its finding."""

from __future__ import annotations

import pytest

from tileops._core.signature import build_plan, check_spec

BASE = """
forall: {R: Dim, C: Dim, T: "DType[float16 | float32]"FORALL}
params:
  gain: {type: float, default: 1.0, kw_only: true}
  flip: {type: bool, default: false, kw_only: true}
  n: {type: int, default: 1, kw_only: true}
  mode: {type: "'slow' | 'exact'", default: slow, kw_only: true}
  cap: {type: "int | None", default: null, kw_only: true}
  out_dtype: {type: "float16 | None", default: null, kw_only: true}
  layout: {type: RowStore, kw_only: true}
PARAMS
inputs:
  x: {dtype: T, shape: "X"XKEYS}
  scale: {dtype: float32, shape: "[R]", optional: true}
INPUTS
outputs:
  y: {dtype: YT, shape: "Y"YKEYS}
OUTPUTS
MORE
"""

DEFAULTS = {
    "FORALL": "", "PARAMS": "", "XKEYS": "", "X": "[R, 2 * C]", "INPUTS": "", "YT": "T",
    "YKEYS": "", "Y": "[R, C]", "OUTPUTS": "", "MORE": "",
}  # fmt: skip


def findings(spec_of, roofline="{flops: 'R * C'}", extra="", **parts):
    text = BASE
    for key in sorted(DEFAULTS, key=len, reverse=True):
        text = text.replace(key, parts.get(key, DEFAULTS[key]))
    spec = spec_of(text, roofline, extra)
    assert spec.faults == ()
    return [(f.field, f.level, f.message) for f in check_spec(spec)]


def rule(text):
    return {"MORE": f'shape_rules: ["{text}"]'}


def let(text):
    return {"MORE": f'let: {{q: "{text}"}}\nshape_rules: ["q == q"]'}


def family(params, match, cases, use, **more):
    body = f"types:\n  F: {{params: {params}, match: {match}, cases: {cases}}}"
    return {"MORE": body, "Y": use, **more}


TWO = "{a: Bool, b: Bool, r: Dim}"
ONE = "{a: Bool, r: Dim}"
STORE = "{l: RowStore, r: Dim}"

CASES = {
    "valid": ({}, []),
    # names
    "undeclared": ({"Y": "[R, Z]"}, [("outputs.y.shape", 14, "Z is not declared")]),
    "opaque": (let("gain * 2"), [("let.q", 14, "gain is float, which takes no part in types")]),
    "sequence": (
        {"FORALL": ", lens: 'Seq[Int]'", **rule("len(lens) > 0")},
        [("shape_rules[0]", 14, "lens is a Seq[Int] index, which is readable in `values` only")],
    ),
    "tensor as a value": (
        rule("scale == 1"),
        [("shape_rules[0]", 14, "scale is a tensor; its contents are no value")],
    ),
    "presence of a parameter that is never absent": (
        rule("present(n)"),
        [
            (
                "shape_rules[0]",
                14,
                "n is never absent; present tests tensors, outputs and parameters that may be None",
            )
        ],
    ),
    "presence of out without a buffer": (
        rule("present(out)"),
        [("shape_rules[0]", 14, "out is not declared")],
    ),
    "a condition on an index": (
        {"XKEYS": ', mutated: "R > 4"'},
        [("inputs.x.mutated", 14, "reads more than discriminants: R is an index")],
    ),
    "a condition on a number": (
        {"INPUTS": '  b: {dtype: T, shape: "[R]", optional: "n > 4"}'},
        [("inputs.b.optional", 14, "reads more than discriminants: n is Int")],
    ),
    "a condition on an infinite field": (
        {"INPUTS": '  b: {dtype: T, shape: "[R]", optional: "layout.tile > 4"}'},
        [
            ("inputs.b.optional", 14, "reads more than discriminants: layout.tile > 4"),
        ],
    ),
    "no such family": ({"Y": "Mat[R]"}, [("outputs.y.shape", 14, "Mat is no type family")]),
    "a family as a value": (
        family(ONE, "a", '[{when: _, is: "[r]"}]', "F[flip, F]"),
        [("outputs.y.shape", 14, "F is a type family, which only a shape applies")],
    ),
    "declared names inside a family": (
        family(ONE, "a", '[{when: _, is: "[r, R]"}]', "F[flip, R]"),
        [
            (
                "types.F.cases[0].is",
                14,
                "R is not a formal of the family, which reads its formals only",
            )
        ],
    ),
    # rejected forms
    "a tensor's shape": (
        rule("x.shape == (R, C)"),
        [
            (
                "shape_rules[0]",
                13,
                'the shape of a tensor is not read; declare `shape: "[R, C]"` on x',
            )
        ],
    ),
    "a definition": (
        rule("half == C // 2"),
        [
            (
                "shape_rules[0]",
                13,
                'half is not declared; a definition is written `let: {half: "C // 2"}`',
            )
        ],
    ),
    # kinds
    "a truth value as an axis": (
        {"X": "[R, C, flip]"},
        [("inputs.x.shape", 15, "flip is Bool where Int is needed")],
    ),
    "a number as a refinement": (
        rule("R + C"),
        [("shape_rules[0]", 15, "R + C is Dim where Bool is needed")],
    ),
    "no member": (
        rule("mode == 'fast'"),
        [("shape_rules[0]", 15, "'fast' is not one of 'exact' | 'slow'")],
    ),
    "a run of truth values": (
        {"Y": "[*(flip, flip)]"},
        [("outputs.y.shape", 15, "(flip, flip) is Seq[Bool] of 2 where Seq[Int] is needed")],
    ),
    "a formula that is no number": (
        {"roofline": "{flops: 'R > 1'}"},
        [("roofline.flops", 15, "R > 1 is Bool where a number is needed")],
    ),
    "a let of no kind in types": (
        let("0.5"),
        [("let.q", 15, "0.5 is Value, which takes no part in types")],
    ),
    "an argument of another kind": (
        family(ONE, "a", '[{when: _, is: "[r]"}]', "F[R, R]"),
        [("outputs.y.shape", 15, "R is Dim where Bool is needed")],
    ),
    "a subject that no discriminant decides": (
        family(ONE, "a", '[{when: _, is: "[r]"}]', "F[R > 1, R]"),
        [("outputs.y.shape", 26, "discriminants do not decide which case of F applies")],
    ),
    "a condition on an infinite payload": (
        {"INPUTS": '  b: {dtype: T, shape: "[R]", optional: "present(cap) and cap.value > 1"}'},
        [("inputs.b.optional", 14, "reads more than discriminants: cap is Maybe[Int]")],
    ),
    "presence of a parameter that takes no part in types": (
        {
            "PARAMS": "  bound: {type: 'float | None', default: null, kw_only: true}",
            "INPUTS": '  b: {dtype: T, shape: "[2 if present(bound) else R]", optional: '
            '"present(bound)"}',
            "MORE": 'let: {q: "R if present(bound) else C"}\nshape_rules: ["q > 0"]',
        },
        [],
    ),
    "the payload of a parameter that takes no part in types": (
        {
            "PARAMS": "  bound: {type: 'float | None', default: null, kw_only: true}",
            "MORE": 'let: {q: "bound.value if present(bound) else 0"}\nshape_rules: ["q == q"]',
        },
        [("let.q", 14, "bound is float | None, which takes no part in types")],
    ),
    "a faulty input is not asked to solve an index": (
        {"X": "[R, flip * C]"},
        [("inputs.x.shape", 15, "flip is Bool where a number is needed")],
    ),
    # calls
    "arity": (let("ceil_div(R)"), [("let.q", 16, "ceil_div takes (a, b), got 1 argument")]),
    "no built-in": (let("log2(R)"), [("let.q", 16, "log2 is not a built-in primitive")]),
    "not a generator": (
        {"INPUTS": '  ids: {dtype: int32, shape: "[4]", values: "repeat(1, 4)", optional: true}'},
        [("inputs.ids.values", 16, "repeat is not a generator")],
    ),
    # dtypes
    "no dtype expression": (
        {"YT": '"T if flip else float32"'},
        [("outputs.y.dtype", 17, "T if flip else float32 is not a dtype expression")],
    ),
    "a dtype from a let": (
        {"YT": "q", "MORE": 'let: {q: "coalesce_dtype(out_dtype, T)"}'},
        [("outputs.y.dtype", 17, "q is a let, and a dtype expression reads no lets")],
    ),
    "a dtype that may be absent": (
        {"YT": "out_dtype"},
        [("outputs.y.dtype", 17, "out_dtype may be absent; use coalesce_dtype(out_dtype, …)")],
    ),
    # families
    "an infinite subject": (
        family("{n: Dim}", "n", '[{when: true, is: "[n]"}]', "F[R]"),
        [("types.F.match", 18, "n is Dim, which is not finite")],
    ),
    "no such constructor": (
        family(STORE, "l", '[{when: {ring: _}, is: "[r]"}]', "F[layout, R]"),
        [
            (
                "types.F.cases[0].when",
                18,
                "RowStore has no constructor 'ring', it has dense, tiled",
            )
        ],
    ),
    "arguments of a family": (
        family(ONE, "a", '[{when: _, is: "[r]"}]', "F[flip]"),
        [("outputs.y.shape", 18, "F takes 2 arguments, got 1")],
    ),
    "unused family": (
        family(ONE, "a", '[{when: _, is: "[r]"}]', "[R, C]"),
        [("types.F", 19, "unused: no shape applies it")],
    ),
    "families in a cycle": (
        family(ONE, "a", '[{when: _, is: "F[a, r]"}]', "F[flip, R]"),
        [("types.F", 19, "cycle F, F")],
    ),
    "lets in a cycle": (
        {"MORE": 'let: {a: "b", b: "a"}'},
        [("let.a", 20, "cycle a, b, a")],
    ),
    # effects
    "an alias of another shape": (
        {"XKEYS": ", mutated: flip", "YKEYS": ", alias: x"},
        [
            (
                "outputs.y.alias",
                22,
                "its shape [R, C] differs from [R, 2 * C] of x when flip=true",
            )
        ],
    ),
    "an alias of another dtype": (
        {"XKEYS": ", mutated: true", "YKEYS": ", alias: x", "Y": "[R, 2 * C]", "YT": "float32"},
        [("outputs.y.alias", 22, "its dtype float32 differs from T of x")],
    ),
    # cases
    "a missing case": (
        family(
            TWO,
            "[a, b]",
            '[{when: [true, true], is: "[r]"}, {when: [true, false], is: "[r]"}]',
            "F[flip, present(scale), R]",
        ),
        [("types.F.cases", 26, "no case for [false, _] when flip=false")],
    ),
    "a missing constructor": (
        family(STORE, "l", '[{when: {dense: _}, is: "[r]"}]', "F[layout, R]"),
        [("types.F.cases", 26, "no case for {tiled: _} when layout.kind=tiled")],
    ),
    "cases that overlap": (
        family(ONE, "a", '[{when: true, is: "[r]"}, {when: _, is: "[r]"}]', "F[flip, R]"),
        [("types.F.cases", 26, "cases 0 and 1 overlap, both match true when flip=true")],
    ),
    "an excluded case may be missing": (
        family(ONE, "a", '[{when: true, is: "[r]"}]', "F[flip, R]", XKEYS="")
        | {
            "MORE": "types:\n  F: {params: {a: Bool, r: Dim}, match: a, cases: [{when: true, "
            'is: "[r]"}]}\nshape_rules: ["flip"]'
        },
        [],
    ),
    # indices
    "only in an output": (
        {"FORALL": ", K: Dim", "Y": "[R, K]"},
        [("outputs.y.shape", 27, "index K cannot be solved from the inputs")],
    ),
    "two runs": (
        {"FORALL": ", A: Shape, B: Shape", "X": "[R, 2 * C, *A, *B]"},
        [("inputs.x.shape", 27, "indices A, B cannot be solved from the inputs")],
    ),
    "a quotient": (
        {"FORALL": ", K: Dim", "X": "[R, 2 * C, K // 2]"},
        [("inputs.x.shape", 27, "index K cannot be solved from the inputs")],
    ),
    "on one branch": (
        {
            "FORALL": ", Q: Dim",
            "INPUTS": '  w: {dtype: T, shape: "[Q]", optional: true}',
            "Y": "[R, C, Q]",
        },
        [("outputs.y.shape", 27, "index Q cannot be solved from the inputs when present(w)=false")],
    ),
    "through a let": (
        {"FORALL": ", Q: Dim", "MORE": 'let: {q: "2 * Q"}', "roofline": "{flops: q}"},
        [("roofline.flops", 27, "index Q cannot be solved from the inputs")],
    ),
    "read by generators only": (
        {
            "FORALL": ", lens: 'Seq[Int]', B: Dim, H: Dim",
            "INPUTS": '  cu: {dtype: int32, shape: "[B + 1]", optional: true, values: '
            '"prefix_sum(lens)", requires: ["in_range(0, H)"]}',
        },
        [],
    ),
    # payloads
    "an absent payload": (
        rule("cap.value > 0"),
        [("shape_rules[0]", 28, "cap.value is read when present(cap)=false")],
    ),
    "a guarded payload": (rule("not present(cap) or cap.value > 0"), []),
    "guarded by a discarded operand": (rule("cap.value > 0 or not present(cap)"), []),
    "another constructor's field": (
        family(
            STORE,
            "l",
            '[{when: {tiled: _}, is: "[r]"}, {when: {dense: _}, is: "[l.tile]"}]',
            "F[layout, R]",
        ),
        [
            (
                "types.F.cases[1].is",
                28,
                "layout.tile is a field of another constructor when layout.kind=dense",
            )
        ],
    ),
    "the size of an absent tensor": (
        {"roofline": "{flops: 0, bytes: 'bytes(x) + bytes(scale)'}"},
        [("roofline.bytes", 28, "bytes(scale) is read when present(scale)=false")],
    ),
    "the size of a tensor that is there": (
        {"roofline": "{flops: 0, bytes: 'bytes(x) + (bytes(scale) if present(scale) else 0)'}"},
        [],
    ),
    "a payload in the shape of a tensor that is absent too": (
        {"INPUTS": '  w: {dtype: T, shape: "[cap.value]", optional: "present(cap)"}'},
        [],
    ),
    "a let that only its branch uses": (
        {
            "MORE": 'let: {q: "cap.value + 1"}',
            "INPUTS": '  w: {dtype: T, shape: "[q]", optional: "present(cap)"}',
        },
        [],
    ),
    "a let used where it cannot be computed": (
        let("cap.value + 1"),
        [("let.q", 28, "cap.value is read when present(cap)=false")],
    ),
    # branches
    "a divisor that folds to 0": (
        {"Y": "[R // (1 if flip else 0)]"},
        [("outputs.y.shape", 29, "R // 0 divides by 0 when flip=false")],
    ),
    "a divisor of 0": (rule("R % 0 == 1"), [("shape_rules[0]", 29, "R % 0 divides by 0")]),
    "a negative axis": (
        {"Y": "[R, 2 if flip else -2]"},
        [("outputs.y.shape", 29, "the axis is -2, which is negative when flip=false")],
    ),
    "a literal outside its domain on one branch": (
        {"Y": "[ceil_div(R, 1 if flip else 0)]"},
        [("outputs.y.shape", 29, "ceil_div needs b > 0, got b=0 when flip=false")],
    ),
    "constants that folding makes unequal": (
        {
            "PARAMS": "  pad: {type: \"int | 'slow'\", kw_only: true}",
            "MORE": 'let: {q: "cap.value if present(cap) else None"}\n'
            'shape_rules: ["pad == mode or per_axis(cap, 0, 2, R) > 0", '
            '"per_axis(q, 0, 2, 1) > 0"]',
        },
        [],
    ),
    "an unused column": (
        {
            "FORALL": ", V: 'DType[float16]'",
            "INPUTS": '  w: {dtype: V, shape: "[R]", optional: true}',
            "MORE": "dtype_combos: [{T: float16, V: float16}]",
        },
        [("dtype_combos", 30, "column V is not used when present(w)=false")],
    ),
    "presence that depends on itself": (
        {
            "INPUTS": '  a: {dtype: T, shape: "[R]", optional: "present(b)"}\n'
            '  b: {dtype: T, shape: "[R]", optional: "present(a)"}'
        },
        [("inputs.a.optional", 31, "depends on itself: a, b, a")],
    ),
    "a condition that no branch decides": (
        {"INPUTS": '  a: {dtype: T, shape: "[R]", optional: big}', "MORE": 'let: {big: "R > 4"}'},
        [("inputs.a.optional", 31, "does not reduce to a constant: big is left")],
    ),
    "a construction-time condition that waits for the call": (
        {"PARAMS": '  h: {dtype: T, shape: "[R]", optional: "present(scale)", kw_only: true}'},
        [
            (
                "params.h.optional",
                31,
                "construction needs it, but it reads present(scale)=true",
            )
        ],
    ),
    # unused
    "an index that nothing reads": (
        {"FORALL": ", Q: Dim"},
        [("forall.Q", 43, "unused: nothing reads it")],
    ),
    "a formal that nothing reads": (
        family("{a: Bool, r: Dim, s: Dim}", "a", '[{when: _, is: "[r]"}]', "F[flip, R, C]"),
        [("types.F.params.s", 43, "unused: nothing reads it")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_findings(spec_of, name):
    parts, expected = CASES[name]
    found = findings(spec_of, **parts)
    fields = [(field.removeprefix("signature."), message) for field, _, message in found]
    assert fields == [(field, f"[V{check}] {text}") for field, check, text in expected]
    levels = {level for _, level, message in found if "[V43]" not in message}
    assert levels <= {"error"}
    assert all(level == "advisory" for _, level, message in found if "[V43]" in message)


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
