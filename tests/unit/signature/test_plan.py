"""Whole plans: phases, guards, what construction decides, effects and formulas."""

from __future__ import annotations

import time

import pytest

from tileops._core.lang.printer import to_text
from tileops._core.signature import PlanFault, build_plan
from tileops._core.signature.plan import (
    CheckAxis,
    CheckCombos,
    CheckDtype,
    CheckHeld,
    CheckLayout,
    CheckNonNegative,
    CheckOut,
    CheckParam,
    CheckPassed,
    CheckRule,
    ComputeLet,
    EffectBranch,
    PlaceHeld,
    SettleDevices,
    SolveAxis,
    SolveDtype,
)

RMS_NORM = """
forall: {B: Shape, T: "DType[float16 | float32]"}
params:
  normalized_shape: {type: "list[int] | tuple[int, ...]"}
  eps: {type: "float | None", default: null}
inputs:
  x: {dtype: T, shape: "[*B, *normalized_shape]"}
  weight: {dtype: T, shape: "[*normalized_shape]", optional: true}
outputs:
  y: {dtype: T, shape: "[*B, *normalized_shape]"}
shape_rules: ["len(normalized_shape) > 0"]
"""


def kinds(steps):
    return [type(step).__name__ for step in steps]


def of(steps, kind):
    return [step for step in steps if isinstance(step, kind)]


def admitted(guard):
    return [{n: sorted(map(str, vs)) for n, vs in clause.items()} for clause in guard.clauses]


def test_a_plain_spec_step_by_step(spec_of):
    flops = '{flops: "(4 if present(weight) else 3) * prod(B) * prod(normalized_shape)"}'
    plan = build_plan(spec_of(RMS_NORM, flops))
    assert kinds(plan.construction) == ["CheckParam", "CheckParam", "CheckNonNegative", "CheckRule"]
    assert kinds(plan.call) == [
        "CheckPassed", "CheckPassed", "SettleDevices", "SolveDtype", "CheckDtype", "CheckRank",
        "SolveSplice", "CheckRank", "CheckSplice", "CheckSplice",
    ]  # fmt: skip
    assert [d.name for d in plan.discriminants] == ["weight"]
    assert [admitted(s.guard) for s in plan.call if not s.guard.always] == [
        [{"weight": ["True"]}]
    ] * 3
    (form,) = plan.outputs
    assert [to_text(axis) for (axis,) in form.axes] == ["B", "normalized_shape"]
    assert [to_text(f.expr) for f in plan.flops] == [
        "(4 if present(weight) else 3) * prod(B) * prod(normalized_shape)"
    ]
    assert plan.bytes == ()


def test_nine_optional_inputs_make_a_linear_plan_quickly(spec_of):
    inputs = "".join(
        f"  x{i}: {{dtype: T, shape: '[N, K{i}]', optional: true}}\n" for i in range(9)
    )
    indices = ", ".join(f"K{i}: Dim" for i in range(9))
    text = (
        f"forall: {{N: Dim, T: 'DType[float16]', {indices}}}\n"
        f"inputs:\n  x: {{dtype: T, shape: '[N]'}}\n{inputs}"
        "outputs: {y: {dtype: T, shape: '[N]'}}"
    )
    flops = " + ".join(f"(N * K{i} if present(x{i}) else 0)" for i in range(9))
    started = time.process_time()
    plan = build_plan(spec_of(text, f'{{flops: "{flops}"}}'))
    assert time.process_time() - started < 2
    assert len(plan.call) == 5 + 9 * 5
    assert all(s.guard.always or len(s.guard.clauses) == 1 for s in plan.call)
    assert len(plan.flops) == len(plan.effects) == len(plan.outputs) == 1


FAMILY = """
forall: {M: Dim, K: Dim, T: "DType[float16]"}
params: {trans: {type: bool, default: false}}
inputs: {a: {dtype: T, shape: "Mat[trans, M, K]"}}
outputs: {d: {dtype: T, shape: "[M]"}}
types:
  Mat:
    params: {t: Bool, R: Dim, C: Dim}
    match: t
    cases: [{when: false, is: "[R, C]"}, {when: true, is: "[C, R]"}]
"""


def test_what_belongs_to_one_case_stays_together(spec_of):
    steps = of(build_plan(spec_of(FAMILY)).call, SolveAxis)
    assert [(s.position.fixed, s.index, admitted(s.guard)) for s in steps] == [
        (0, "M", [{"trans": ["False"]}]),
        (1, "K", [{"trans": ["False"]}]),
        (0, "K", [{"trans": ["True"]}]),
        (1, "M", [{"trans": ["True"]}]),
    ]


HELD = """
forall: {N: Dim, M: Dim, T: "DType[float16 | float32]", G: "DType[float16 | float32]"}
params:
  half: {type: int}
  scale: {dtype: G, shape: "[N]"}
  table: {dtype: "promote_int_to_float(T)", shape: "[M, N]", optional: true, kw_only: true}
  steps: {dtype: int32, shape: "[M + 1]", device: cpu, optional: "present(table)", kw_only: true}
inputs:
  x: {dtype: T, shape: "[M, N]"}
outputs:
  y: {dtype: T, shape: "[M, h]"}
let: {h: "N - half"}
shape_rules: ["h % 2 == 0", "M > h"]
"""


def test_construction_solves_what_it_can(spec_of, run_plan):
    plan = build_plan(spec_of(HELD))
    assert kinds(plan.construction) == [
        "CheckParam", "CheckHeld", "CheckHeld", "CheckHeld", "SolveDtype", "CheckDtype",
        "CheckRank", "SolveAxis", "CheckRank", "SolveAxis", "CheckRank", "CheckAxis", "CheckAxis",
        "ComputeLet", "CheckNonNegative", "CheckRule", "CheckRule",
    ]  # fmt: skip
    assert plan.solved_at_construction == {"G", "N", "M", "h"}
    assert [to_text(s.condition) for s in of(plan.construction, CheckHeld)[2:]] == [
        "present(table)"
    ]
    assert [(s.tensor.name, to_text(s.dtype)) for s in of(plan.call, PlaceHeld)] == [
        ("scale", "G"),
        ("table", "promote_int_to_float(T)"),
    ]


def test_a_call_solves_what_construction_could_not(spec_of):
    plan = build_plan(spec_of(HELD))
    (solve,) = of(plan.call, SolveAxis)
    assert solve.index == "M"
    assert admitted(solve.guard) == [{"table": ["False"]}]
    early = [(to_text(s.expr), admitted(s.guard)) for s in of(plan.construction, CheckRule)]
    assert early == [("h % 2 == 0", [{}]), ("M > h", [{"table": ["True"]}])]
    (late,) = of(plan.call, CheckRule)
    assert (to_text(late.expr), admitted(late.guard)) == ("M > h", [{"table": ["False"]}])
    assert of(plan.call, ComputeLet) == []


def test_held_axes_that_wait_for_the_call_are_compared_there(spec_of):
    plan = build_plan(
        spec_of("""
forall: {K: Dim, T: "DType[float16]"}
params: {packed: {dtype: uint8, shape: "[K // 2]"}}
inputs: {x: {dtype: T, shape: "[K]"}}
outputs: {y: {dtype: T, shape: "[K]"}}
""")
    )
    assert [s.tensor.name for s in of(plan.construction, CheckAxis)] == []
    assert [(s.tensor.name, to_text(s.axis)) for s in of(plan.call, CheckAxis)] == [
        ("packed", "K // 2")
    ]


def test_a_let_is_computed_where_its_branch_uses_it(spec_of, run_plan):
    plan = build_plan(
        spec_of("""
forall: {N: Dim, M: Dim, T: "DType[float16]"}
params: {flip: {type: bool, kw_only: true}}
inputs:
  x: {dtype: T, shape: "[N]"}
  w: {dtype: T, shape: "[q, M]", optional: true}
outputs: {y: {dtype: T, shape: "[p]"}}
let: {p: "2 * N if flip else N", q: "p // 2", unused: "N + 1"}
""")
    )
    lets = [(s.name, to_text(s.expr), admitted(s.guard)) for s in of(plan.call, ComputeLet)]
    assert lets == [
        ("p", "N", [{"flip": ["False"]}]),
        ("p", "2 * N", [{"flip": ["True"]}]),
        ("q", "p // 2", [{"w": ["True"]}]),
    ]
    assert {name: admitted(g) for name, g in plan.lets_used.items()} == {
        "p": [{}],
        "q": [{"w": ["True"]}],
    }
    assert run_plan(plan, {"x": (4,), "w": (4, 3)}, flip=True)["q"] == 4


def test_a_constant_let_counts_as_a_constant(spec_of):
    plan = build_plan(
        spec_of("""
forall: {N: Dim, T: "DType[float16]"}
inputs: {x: {dtype: T, shape: "[g * N]"}}
outputs: {y: {dtype: T, shape: "[N]"}}
let: {g: 4}
""")
    )
    (solve,) = of(plan.call, SolveAxis)
    assert (solve.index, solve.scale) == ("N", 4)
    assert [(s.name, to_text(s.expr)) for s in of(plan.construction, ComputeLet)] == [("g", "4")]


RESTRICTED = """
forall: {S: Shape, L: Shape, U: Shape, T: "DType[float16]"}
params:
  flip: {type: bool, kw_only: true}
  mode: {type: "'a' | 'b' | None", default: null, kw_only: true}
inputs:
  x: {dtype: T, shape: "[*S]"}
  lo: {dtype: T, shape: "[*L]", optional: true}
  hi: {dtype: T, shape: "[*U]", optional: true}
outputs: {y: {dtype: T, shape: "Out[S, L, U, present(lo), present(hi)]"}}
types:
  Out:
    params: {s: Shape, l: Shape, u: Shape, pl: Bool, pu: Bool}
    match: [pl, pu]
    cases:
    - {when: [true, true], is: "[*broadcast(s, l, u)]"}
    - {when: [true, false], is: "[*broadcast(s, l)]"}
    - {when: [false, true], is: "[*broadcast(s, u)]"}
shape_rules: ["present(lo) or present(hi)", "not flip or mode.value == 'a' and present(mode)"]
"""


def test_restrictions_run_where_their_discriminants_are_known(spec_of):
    plan = build_plan(spec_of(RESTRICTED))
    (early,) = of(plan.construction, CheckRule)
    (late,) = of(plan.call, CheckRule)
    assert early.domain
    assert late.domain
    assert early.guard.always
    assert to_text(late.expr) == "present(lo) or present(hi)"


def test_a_restriction_that_reads_too_early_is_rebuilt(spec_of):
    """As written, `mode.value` would be read where mode is absent."""
    (early,) = of(build_plan(spec_of(RESTRICTED)).construction, CheckRule)
    assert to_text(early.expr) == "not flip or present(mode) and mode.value == 'a'"


def test_outputs_have_a_form_per_case(spec_of):
    plan = build_plan(spec_of(RESTRICTED))
    forms = [(to_text(form.axes[0][0]), admitted(form.guard)) for form in plan.outputs]
    assert forms == [
        ("broadcast(S, U)", [{"lo": ["False"]}]),
        ("broadcast(S, L)", [{"hi": ["False"]}]),
        ("broadcast(S, L, U)", [{"lo": ["True"], "hi": ["True"]}]),
    ]


EFFECTS = """
forall: {S: Shape, N: Dim, T: "DType[float16]"}
params: {in_place: {type: bool, default: false, kw_only: true}}
inputs:
  acc: {dtype: T, shape: "[*S]", mutated: in_place, contiguous: true}
  upd: {dtype: T, shape: "[*S]"}
  buf: {dtype: T, shape: "[N]", mutated: true, write_only: true, optional: true}
outputs:
  acc_out: {dtype: T, shape: "[*S]", alias: acc}
  extra: {dtype: T, shape: "[*S]", nullable: "not in_place", buffer: out}
"""


def test_effect_branches(spec_of):
    plan = build_plan(spec_of(EFFECTS))
    branches = {case.branch: admitted(case.guard) for case in plan.effects}
    assert branches[EffectBranch(("acc", "buf"), False, ("acc_out",))] == [
        {"in_place": ["True"], "buf": ["True"], "out": ["False"]}
    ]
    assert branches[EffectBranch((), True, ("acc_out", "extra"))] == [
        {"in_place": ["False"], "buf": ["False"], "out": ["True"]}
    ]
    assert len(branches) == 8


def test_layouts_of_written_inputs(spec_of):
    plan = build_plan(spec_of(EFFECTS))
    layouts = [
        (s.tensor.name, s.contiguous, s.written, admitted(s.guard))
        for s in of(plan.call, CheckLayout)
    ]
    assert layouts == [
        ("acc", True, False, [{"in_place": ["False"]}]),
        ("acc", True, True, [{"in_place": ["True"]}]),
        ("buf", False, True, [{"buf": ["True"]}]),
    ]


def test_a_buffer_for_an_absent_output_is_a_fault(spec_of):
    checks = [
        (s.output, s.absent, admitted(s.guard))
        for s in of(build_plan(spec_of(EFFECTS)).call, CheckOut)
    ]
    assert checks == [
        ("extra", False, [{"in_place": ["False"], "out": ["True"]}]),
        ("extra", True, [{"in_place": ["True"], "out": ["True"]}]),
    ]


def test_phases_come_in_the_order_of_a_call(spec_of):
    plan = build_plan(
        spec_of("""
forall: {M: Dim, N: Dim, T: "DType[float16 | float32]", V: "DType[float16 | float32]"}
params:
  k: {type: int}
  cos: {dtype: "promote_int_to_float(T)", shape: "[M, 2]"}
inputs:
  w: {dtype: V, shape: "[q]", contiguous: true}
  x: {dtype: T, shape: "[M, N]", optional: "k_on"}
  b: {dtype: T, shape: "[N - k]", optional: true}
outputs: {y: {dtype: T, shape: "[N - k - 1]", buffer: out}}
let: {q: "M + 1", k_on: "1 < 2"}
dtype_combos: [{T: float16, V: float32}, {T: float32, V: float32}]
shape_rules: ["present(b) or 1 < 2", "N > 0"]
""")
    )
    order = [
        CheckPassed, SettleDevices, CheckLayout, SolveDtype, CheckDtype, CheckCombos, PlaceHeld,
        SolveAxis, CheckAxis, CheckNonNegative, CheckRule, CheckOut,
    ]  # fmt: skip
    places = [order.index(type(step)) for step in plan.call if type(step) in order]
    dtypes = {order.index(SolveDtype), order.index(CheckDtype)}
    places = [min(dtypes) if place in dtypes else place for place in places]
    assert places == sorted(places)
    assert {order[place] for place in places} == set(order) - {CheckDtype}


def test_signs_are_checked_once_and_as_early_as_possible(spec_of):
    plan = build_plan(
        spec_of("""
forall: {N: Dim, T: "DType[float16]"}
params: {k: {type: int}, sizes: {type: "tuple[int, ...]"}}
inputs:
  x: {dtype: T, shape: "[N, k]"}
  w: {dtype: T, shape: "[N - k]"}
outputs:
  y: {dtype: T, shape: "[k, *sizes]"}
  z: {dtype: T, shape: "[N - k, N - 1, *sizes]"}
  u: {dtype: T, shape: "[N - 1]"}
""")
    )
    early = [(s.path, to_text(s.expr), s.many) for s in of(plan.construction, CheckNonNegative)]
    late = [(s.path, to_text(s.expr), s.many) for s in of(plan.call, CheckNonNegative)]
    assert early == [
        ("signature.inputs.x.shape", "k", False),
        ("signature.outputs.y.shape", "sizes", True),
    ]
    assert late == [("signature.outputs.z.shape", "N - 1", False)]


def test_arguments_of_families_that_stand_for_sizes_have_signs_too(spec_of):
    text = FAMILY.replace('"Mat[trans, M, K]"', '"Mat[trans, M, K]"').replace(
        'shape: "[M]"', 'shape: "Wide[trans, M - K]"'
    )
    text += """
  Wide:
    params: {t: Bool, n: Dim}
    match: t
    cases: [{when: _, is: "[n + 3]"}]
"""
    plan = build_plan(spec_of(text))
    assert [to_text(s.expr) for s in of(plan.call, CheckNonNegative)] == ["M - K + 3", "M - K"]


def test_a_refinement_waits_for_what_a_call_decides(spec_of):
    plan = build_plan(
        spec_of("""
forall: {N: Dim, T: "DType[float16]"}
params: {gain: {type: float}, flip: {type: bool}}
inputs:
  x: {dtype: T, shape: "[N]"}
  b: {dtype: T, shape: "[N]", optional: true}
outputs: {y: {dtype: T, shape: "[N]"}}
shape_rules: ["gain > 0", "present(b) or gain > 1", "flip or N > 2", "flip and gain > 3"]
""")
    )
    early = [(to_text(s.expr), admitted(s.guard)) for s in of(plan.construction, CheckRule)]
    late = [(to_text(s.expr), admitted(s.guard)) for s in of(plan.call, CheckRule)]
    assert early == [
        ("gain > 0", [{}]),
        ("False", [{"flip": ["False"]}]),
        ("gain > 3", [{"flip": ["True"]}]),
    ]
    assert late == [
        ("gain > 1", [{"b": ["False"]}]),
        ("N > 2", [{"flip": ["False"]}]),
    ]


def test_a_formula_that_would_read_too_much_is_folded(spec_of):
    text = """
forall: {N: Dim, K: Dim, T: "DType[float16]"}
inputs:
  x: {dtype: T, shape: "[N]"}
  b: {dtype: T, shape: "[K]", optional: true}
outputs: {y: {dtype: T, shape: "[N]"}}
"""
    plain = build_plan(spec_of(text, '{flops: "K if present(b) else N", bytes: "bytes(x)"}'))
    assert [to_text(f.expr) for f in plain.flops] == ["K if present(b) else N"]
    assert [to_text(f.expr) for f in plain.bytes] == ["bytes(x)"]
    late = build_plan(spec_of(text, '{flops: "1 if K > 2 and present(b) else N"}'))
    assert [(to_text(f.expr), admitted(f.guard)) for f in late.flops] == [
        ("N", [{"b": ["False"]}]),
        ("1 if K > 2 else N", [{"b": ["True"]}]),
    ]


def test_parameters_are_checked_in_order(spec_of):
    plan = build_plan(spec_of(HELD))
    assert [s.name for s in of(plan.construction, CheckParam)] == ["half"]
    assert [s.tensor.name for s in of(plan.construction, CheckHeld)] == ["scale", "table", "steps"]


def test_a_faulty_spec_has_no_plan(spec_of):
    spec = spec_of("forall: {K: Dim}\noutputs: {y: {dtype: float16, shape: '[K]'}}")
    with pytest.raises(PlanFault, match=r"y.shape: \[V27\] index K cannot be solved") as caught:
        build_plan(spec)
    assert [f.field for f in caught.value.findings] == ["signature.outputs.y.shape"]


def test_faults_of_the_reader_come_first(spec_of):
    spec = spec_of("forall: {K: Dimension}\noutputs: {y: {dtype: float16, shape: '[Z]'}}")
    with pytest.raises(PlanFault) as caught:
        build_plan(spec)
    assert caught.value.findings[0].field == "signature.forall.K"


def test_remarks_do_not_prevent_a_plan(spec_of):
    spec = spec_of("forall: {Q: Dim}\noutputs: {y: {dtype: float16, shape: '[]'}}")
    assert build_plan(spec).outputs[0].axes == ()


def test_a_rank_that_construction_checked_is_not_checked_again(spec_of):
    plan = build_plan(
        spec_of("""
forall: {D: Dim, T: "DType[float16]"}
params: {factors: {dtype: float32, shape: "[D // 2]", optional: true}}
inputs: {x: {dtype: T, shape: "[D]"}}
outputs: {y: {dtype: T, shape: "[D]"}}
""")
    )
    ranks = [(s.tensor.name, s.open) for s in (*plan.construction, *plan.call) if is_rank(s)]
    assert ranks == [("factors", False), ("x", False)]
    assert [s.tensor.name for s in of(plan.call, CheckAxis)] == ["factors"]


def is_rank(step):
    return type(step).__name__ == "CheckRank"


def test_a_spec_that_accepts_no_branch_has_no_plan(spec_of):
    spec = spec_of("""
forall: {N: Dim}
params: {flip: {type: bool}}
inputs:
  x: {dtype: float16, shape: "[N]"}
  b: {dtype: float16, shape: "[N]", optional: true}
outputs: {y: {dtype: float16, shape: "[N]"}}
shape_rules: ["present(b)", "flip or N > 1", "flip != present(b)", "flip", "N > 2"]
""")
    gist = r"shape_rules\[3\]: \[V29\] .* together with shape_rules\[0\], shape_rules\[2\]"
    with pytest.raises(PlanFault, match=gist) as caught:
        build_plan(spec)
    assert len(caught.value.findings) == 1
