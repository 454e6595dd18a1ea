"""The wording of errors, to the letter: one model message per situation."""

from __future__ import annotations

import pickle

import pytest
import torch

from signature.drawing.case import Tiled
from tileops._core.runtime.plan import _SignaturePlan, plan_of
from tileops._core.spec.content import file_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.source import Source
from tileops.errors import SignatureError, SignatureTypeError

PAD_ROWS = """
PadRowsFwdOp:
  signature:
    forall: {R: Dim, T: "DType[float16]"}
    params: {mode: {type: "'zero' | 'edge'"}}
    inputs: {x: {dtype: T, shape: "[R]"}}
    outputs: {y: {dtype: T, shape: "[R + 2]"}}
    shape_rules: ["mode == 'zero' or R > 0"]
"""
GATE = """
GateFwdOp:
  signature:
    forall: {N: Dim, T: "DType[float32]"}
    inputs:
      x: {dtype: T, shape: "[N]"}
      scale: {dtype: T, shape: "[N]", optional: true}
      bias: {dtype: T, shape: "[N]", optional: "present(scale)"}
    outputs: {y: {dtype: T, shape: "[N]"}}
"""
CLIP_ROWS = """
ClipRowsFwdOp:
  signature:
    forall: {N: Dim, T: "DType[float32]"}
    inputs:
      x: {dtype: T, shape: "[N]"}
      lo: {dtype: T, shape: "[N]", optional: true}
      hi: {dtype: T, shape: "[N]", optional: true}
    outputs: {y: {dtype: T, shape: "[N]"}}
    shape_rules: ["present(lo) or present(hi)"]
"""
POOL_ROWS = """
PoolRowsFwdOp:
  signature:
    forall: {H: Dim, T: "DType[float32]"}
    params: {k: {type: int}, s: {type: int}}
    inputs: {x: {dtype: T, shape: "[H]"}}
    outputs: {y: {dtype: T, shape: "[H_out]"}}
    let: {H_out: "pool.out(H, k, s, 0, 1, False)"}
"""
DOT = """
DotFwdOp:
  signature:
    forall: {M: Dim, N: Dim, K: Dim, T: "DType[float16]"}
    inputs:
      a: {dtype: T, shape: "[M, K]"}
      b: {dtype: T, shape: "[K, N]"}
    outputs: {d: {dtype: T, shape: "[M, N]", buffer: out}}
"""
ACC = """
AccFwdOp:
  signature:
    forall: {S: Shape, T: "DType[float32]"}
    inputs:
      acc: {dtype: T, shape: "[*S]", mutated: true}
      upd: {dtype: T, shape: "[*S]"}
    outputs: {acc_out: {dtype: T, shape: "[*S]", alias: acc}}
"""


def half(*shape):
    return torch.empty(shape, dtype=torch.float16)


def test_parameter_of_the_wrong_type(row_scale_plan, construct, first_line):
    assert first_line(lambda: construct(row_scale_plan, gain="high")) == (
        "RowScaleFwdOp (construction): "
        "params.gain.type \"float\": expected a number, got 'high' (str)"
    )


def test_parameter_outside_its_enum(op_for, first_line):
    assert first_line(lambda: op_for(PAD_ROWS, mode="wrap")) == (
        "PadRowsFwdOp (construction): "
        "params.mode.type \"'zero' | 'edge'\": expected one of 'edge', 'zero', got 'wrap'"
    )


def test_refinement_at_construction(row_scale_plan, construct, first_line):
    assert first_line(lambda: construct(row_scale_plan, gain=-2.0)) == (
        'RowScaleFwdOp (construction): shape_rules[1] "gain > 0" does not hold: gain=-2.0'
    )


def test_missing_input(row_scale, first_line):
    assert first_line(row_scale.check) == "RowScaleFwdOp (call): inputs.x: required, got None"


def test_presence_condition(op_for, first_line):
    op = op_for(GATE)
    given = {"x": torch.empty(64), "bias": torch.empty(64)}
    assert first_line(lambda: op.check(**given)) == (
        'GateFwdOp (call): inputs.bias.optional "present(scale)": '
        "bias was passed (shape (64,)) but scale was not"
    )


def test_domain_restriction(op_for, first_line):
    op = op_for(CLIP_ROWS)
    assert first_line(lambda: op.check(x=torch.empty(4))) == (
        'ClipRowsFwdOp (call): shape_rules[0] "present(lo) or present(hi)" '
        "does not hold: lo and hi are both absent"
    )


def test_affine_axis(row_scale, first_line):
    assert first_line(lambda: row_scale.check(x=half(64, 7))) == (
        'RowScaleFwdOp (call): inputs.x.shape "[R, 2 * C]": '
        "axis 1 has length 7, which no integer C >= 0 satisfies"
    )


def test_axis_equality(row_scale, first_line):
    given = {"x": half(64, 8), "scale": torch.empty(32)}
    assert first_line(lambda: row_scale.check(**given)) == (
        'RowScaleFwdOp (call): inputs.scale.shape "[R]": '
        "axis 0 has length 32, expected 64, where R=64 comes from inputs.x axis 0"
    )


def test_dtype_set(row_scale, first_line):
    given = torch.empty(64, 8, dtype=torch.bfloat16)
    assert first_line(lambda: row_scale.check(x=given)) == (
        'RowScaleFwdOp (call): inputs.x.dtype "T": bfloat16 is not in T = float16 | float32'
    )


def test_domain_of_a_primitive(op_for, first_line):
    assert first_line(lambda: op_for(POOL_ROWS, k=3, s=0).check(x=torch.empty(9))) == (
        'PoolRowsFwdOp (call): let.H_out "pool.out(H, k, s, 0, 1, False)": '
        "pool.out needs stride > 0, got stride=0 (H=9, k=3)"
    )


def test_several_devices(row_scale, first_line):
    given = {"x": half(64, 8), "scale": torch.empty(64, device="meta")}
    assert first_line(lambda: row_scale.check(**given)) == (
        "RowScaleFwdOp (call): inputs: expected one device, got cpu (x), meta (scale)"
    )


def test_out_buffer(op_for, first_line):
    op = op_for(DOT)
    given = {"a": half(64, 8), "b": half(8, 32), "out": half(64, 33)}
    assert first_line(lambda: op.check(**given)) == (
        'DotFwdOp (call): outputs.d.buffer "out": '
        "expected shape (64, 32) float16, got (64, 33) float16"
    )


def test_result(row_scale, first_line):
    assert first_line(lambda: row_scale.check_result(half(64, 512), x=half(64, 512))) == (
        'RowScaleFwdOp (call): outputs.y.shape "[R, C]": '
        "the implementation returned (64, 512), expected (64, 256)"
    )


def test_result_that_is_no_alias(op_for, first_line):
    op, acc = op_for(ACC), torch.zeros(3)
    assert first_line(lambda: op.check_result(acc.clone(), acc=acc, upd=torch.zeros(3))) == (
        'AccFwdOp (call): outputs.acc_out.alias "acc": '
        "expected the passed tensor acc itself, got another tensor"
    )


def test_three_lines_with_every_binding_and_its_origin(row_scale):
    with pytest.raises(SignatureError) as caught:
        row_scale.check(x=half(64, 8), scale=torch.empty(32))
    assert str(caught.value).split("\n")[1:] == [
        "  bound so far: T=float16 from inputs.x dtype; R=64 from inputs.x axis 0; "
        "C=4 from inputs.x axis 1",
        "  declared in elementwise/spec.yaml",
    ]


PLACED = """\
PlacedFwdOp:
  family: acme
  status: spec-only
  signature:
    forall: {N: Dim}
    params:
      store: {type: RowStore}
      k: {type: int}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[q]"}}
    let: {q: "N // k"}
    shape_rules:
    - "N > 1"
    - "k < 3"
  workloads: [{label: unused}]
  roofline: {flops: "N - 9"}
adts:
  RowStore:
    sum:
      tiled:
        python: signature.drawing.case.Tiled
        fields: {tile: Dim, padded: Bool}
        invariant: "tile > 0"
"""


@pytest.mark.parametrize(
    ("values", "x", "line"),
    [
        ({"k": "a"}, None, 8),
        ({"store": Tiled(0, False)}, None, 23),
        ({"k": 5}, None, 14),
        ({}, torch.ones(2, 2), 9),
        ({}, torch.ones(1), 13),
        ({"k": 0}, torch.ones(2), 11),
    ],
)
def test_the_third_line_is_the_line_of_the_declaration(construct, tmp_path, values, x, line):
    path = tmp_path / "spec.yaml"
    path.write_text(PLACED, encoding="utf-8")
    source = Source(str(path), package="signature")
    spec = Manifest().adding([file_content(path, source)]).lookup("PlacedFwdOp")
    with pytest.raises(SignatureError) as caught:
        plan = _SignaturePlan.of(plan_of(spec))
        construct(plan, **{"store": Tiled(1, False), "k": 1, **values}).check(x=x)
    assert str(caught.value).splitlines()[-1] == f"  declared in {path}:{line}"


def test_a_declaration_of_several_lines_is_shown_in_one(op_for):
    op = op_for("""
LongFwdOp:
  signature:
    forall: {N: Dim}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
    shape_rules:
    - |
      N > 2
        and N < 9
""")
    with pytest.raises(SignatureError) as caught:
        op.check(x=torch.empty(1))
    assert str(caught.value).split("\n")[0] == (
        'LongFwdOp (call): shape_rules[0] "N > 2 and N < 9 " does not hold: N=1'
    )
    assert caught.value.declaration == 'shape_rules[0] "N > 2\n  and N < 9\n"'


def test_error_as_data(row_scale):
    with pytest.raises(SignatureError) as caught:
        row_scale.check(x=half(64, 7))
    error = caught.value
    assert (error.op, error.phase) == ("RowScaleFwdOp", "call")
    assert error.declaration == 'inputs.x.shape "[R, 2 * C]"'
    assert not isinstance(error, SignatureTypeError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_type_error_is_both(row_scale):
    with pytest.raises(TypeError):
        row_scale.check()
    with pytest.raises(ValueError, match="required"):
        row_scale.check()


def test_no_message_mentions_generated_code(row_scale):
    with pytest.raises(SignatureError) as caught:
        row_scale.check(x=half(64, 7))
    text = str(caught.value)
    assert not any(word in text for word in ("size_x", "dim_C", "<tileops", "faults"))


@pytest.mark.parametrize(
    ("condition", "given", "fault"),
    [
        ("present(scale)", ["scale"], "bias was not passed but scale was"),
        ("present(scale)", ["bias"], "bias was passed (shape (64,)) but scale was not"),
        (
            "not present(scale)",
            ["scale", "bias"],
            "bias was passed (shape (64,)) but scale was too",
        ),
        ("not present(scale)", [], "bias was not passed but scale was not either"),
        ("mode == 'on'", ["bias"], "bias was passed (shape (64,)) but mode='off'"),
        ("mode == 'off'", [], "bias was not passed but mode='off'"),
        (
            "present(scale) and mode == 'on'",
            ["scale", "bias"],
            "bias was passed (shape (64,)) but scale was too, mode='off'",
        ),
    ],
)
def test_presence_conditions_of_every_form(op_for, condition, given, fault):
    params = "    params: {mode: {type: \"'on' | 'off'\"}}\n    inputs:"
    text = GATE.replace("present(scale)", condition).replace("    inputs:", params)
    op = op_for(text, mode="off")
    tensors = {name: torch.empty(64) for name in ("x", *given)}
    with pytest.raises(SignatureError) as caught:
        op.check(**tensors)
    assert type(caught.value) is SignatureError
    found = str(caught.value).split("\n")[0]
    assert found == f'GateFwdOp (call): inputs.bias.optional "{condition}": {fault}'


@pytest.mark.parametrize(
    ("rule", "given", "facts"),
    [
        ("present(lo)", ["hi"], "lo is absent"),
        ("not present(lo)", ["lo"], "lo is present"),
        ("present(lo) or not present(hi)", ["hi"], "lo is absent, hi is present"),
        ("not present(lo) or not present(hi)", ["lo", "hi"], "lo and hi are both present"),
        ("present(lo) or present(hi) or present(mid)", [], "lo, hi and mid are all absent"),
    ],
)
def test_restrictions_of_every_form(op_for, first_line, rule, given, facts):
    middle = 'mid: {dtype: T, shape: "[N]", optional: true}\n    outputs'
    text = CLIP_ROWS.replace("present(lo) or present(hi)", rule).replace("outputs", middle)
    op = op_for(text.replace("    mid", "      mid"))
    tensors = {name: torch.empty(4) for name in ("x", *given)}
    found = first_line(lambda: op.check(**tensors))
    assert found == f'ClipRowsFwdOp (call): shape_rules[0] "{rule}" does not hold: {facts}'
