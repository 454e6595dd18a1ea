"""One fault in an otherwise valid spec: the field, the check and the gist of its finding."""

from __future__ import annotations

import pytest

from tileops._core.signature.check import check_spec

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
    "undeclared, but near a name": (
        rule("layouts > 3"),
        [("shape_rules[0]", 14, "layouts is not declared; did you mean 'layout'?")],
    ),
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
        [("shape_rules[0]", 14, "out is not declared; did you mean 'layout'?")],
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
    "a let of the constructor": (
        {"MORE": 'let: {q: "layout.kind"}\nshape_rules: ["q == \'dense\' or R > 0"]'},
        [],
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
    "literals that fail together": (
        let("per_axis((1, 2), 2, 2)"),
        [("let.q", 16, "per_axis needs 0 <= i < n, got i=2, n=2")],
    ),
    "literals that fail inside": (
        {"Y": "[R, 2 * C + mhc.expansion(7)]"},
        [("outputs.y.shape", 16, "mhc.expansion needs q = n * n + 2 * n for some n > 0, got q=7")],
    ),
    "literals of a run": (
        {"Y": "[*broadcast((2, 3), (4, 3))]"},
        [("outputs.y.shape", 16, "broadcast: sizes 2 and 4 do not agree")],
    ),
    "literals in a formula": (
        {"roofline": "{flops: 'R * max(())'}"},
        [("roofline.flops", 16, "max of no items needs a default")],
    ),
    "an item of a tuple parameter": (
        {
            "PARAMS": "  k: {type: 'tuple[int, int] | tuple[int, int, int]', kw_only: true}",
            "MORE": 'let: {q: "k[2]", p: "k[3]"}\nshape_rules: ["q == p"]',
        },
        [("let.p", 29, "k[3] is out of range: k is Seq[Int] of 2 | Seq[Int] of 3")],
    ),
    "literals that are computed": (
        rule("R > 7 // (2 - 2)"),
        [("shape_rules[0]", 29, "7 // 0 divides by 0")],
    ),
    "a computed index": (
        let("(R, C)[:1][3 - 1]"),
        [],
    ),
    "an index of literals": (
        let("(1, 2)[:1][3 - 1]"),
        [("let.q", 29, "(1,)[2]: no item 2 of (1,)")],
    ),
    "a generator of literals": (
        {
            "INPUTS": '  ids: {dtype: int32, shape: "[B]", values: "sample_indices(5, 4)", '
            "optional: true}",
            "FORALL": ", B: Dim",
        },
        [("inputs.ids.values", 16, "sample_indices needs n <= hi, got n=5, hi=4")],
    ),
    "a list of literals in a generator": (
        {
            "INPUTS": '  ids: {dtype: int32, shape: "[B]", optional: true, values: '
            '"exclusive_prefix_sum(repeat(2 - 3, 4))"}',
            "FORALL": ", B: Dim",
        },
        [
            (
                "inputs.ids.values",
                16,
                "exclusive_prefix_sum needs lengths of at least 0, got -1 at position 0",
            )
        ],
    ),
    "an argument of literals in a predicate": (
        {
            "INPUTS": '  ids: {dtype: int32, shape: "[B]", optional: true, values: '
            '"as_tensor((1, 2))", requires: ["in_range(0, max(()))"]}',
            "FORALL": ", B: Dim",
        },
        [("inputs.ids.requires[0]", 16, "max of no items needs a default")],
    ),
    "a generator of many items": (
        {
            "INPUTS": '  ids: {dtype: int32, shape: "[B, 9000]", optional: true, values: '
            '"topk_ids(9000, 9000, 8000)"}',
            "FORALL": ", B: Dim",
        },
        [],
    ),
    "literals on one branch": (
        let("per_axis((1, 2), 2 if flip else 1, 2) + (1, 2)[1 if flip else 3]"),
        [
            ("let.q", 29, "(1, 2)[3] is out of range: (1, 2) is Seq[Dim] of 2 when flip=false"),
            ("let.q", 29, "per_axis needs 0 <= i < n, got i=2, n=2 when flip=true"),
        ],
    ),
    "literals on no way": (let("min(()) if 1 > 2 else R"), []),
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
        [
            (
                "inputs.x.shape",
                27,
                "index K cannot be solved from the inputs; an axis K // 2 "
                "solves none of its names: make the axis an index of its own, and compute the "
                "others from it",
            )
        ],
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
    "the payload of a let that may be None": (
        {"MORE": 'let: {q: "cap.value if present(cap) else None"}\nshape_rules: ["q.value > 0"]'},
        [("shape_rules[0]", 28, "q.value is read when present(cap)=false")],
    ),
    "the payload of a let that no branch decides": (
        {
            "MORE": 'let: {q: "n if n > 3 else None"}\nshape_rules: '
            '["not present(q) or q.value > 4"]'
        },
        [("shape_rules[0]", 28, "q.value is read")],
    ),
    "a let that no branch decides": (
        {"MORE": 'let: {q: "n if n > 3 else None"}\nshape_rules: ["per_axis(q, 0, 2, R) > 4"]'},
        [],
    ),
    "the payload of a let that is guarded": (
        {
            "MORE": 'let: {q: "cap.value if present(cap) and flip else None"}\nshape_rules: '
            '["not present(q) or q.value > 0", "q.value > 1 or not (present(cap) and flip)"]'
        },
        [],
    ),
    "a payload that only an excluded branch lacks": (
        {"MORE": 'shape_rules: ["present(cap)", "cap.value > 0"]'},
        [("shape_rules[1]", 28, "cap.value is read when present(cap)=false")],
    ),
    "an index that only an excluded branch lacks": (
        {
            "FORALL": ", Q: Dim",
            "INPUTS": '  w: {dtype: T, shape: "[Q]", optional: true}',
            "Y": "[R, C, Q]",
            "MORE": 'shape_rules: ["present(w)"]',
        },
        [],
    ),
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
