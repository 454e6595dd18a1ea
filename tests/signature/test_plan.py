"""The plan of a class: generated once, visible to debuggers, shared, traceable where it must be."""

from __future__ import annotations

import copy
import inspect
import linecache
import threading
import traceback

import pytest
import torch

from tileops import manifest
from tileops._core.codegen import unit
from tileops._core.lang.printer import to_text
from tileops._core.runtime.plan import _SignaturePlan, plan_of, signature_plan_for
from tileops._core.signature.plan import CheckAxis, ComputeLet, SolveAxis
from tileops.errors import ManifestError, SignatureError


def test_the_surface(row_scale_plan):
    assert row_scale_plan.input_names == ("x", "scale")
    assert row_scale_plan.output_names == ("y",)
    assert row_scale_plan.parameter_names == ("gain",)
    assert row_scale_plan.has_buffer is False


def test_effects_are_complete_before_anything_is_generated(row_scale_plan):
    assert {branch.emits for branch in row_scale_plan.effects} == {("y",)}
    assert row_scale_plan._functions is None
    assert "def check(" in row_scale_plan.source()


def test_generated_functions_can_be_inspected_and_show_in_tracebacks(row_scale):
    linecache.checkcache()
    check = row_scale.plan._functions.check
    assert inspect.getsource(check).startswith("def check(")
    assert check.__code__.co_filename == "<tileops RowScaleFwdOp>"
    try:
        row_scale.check(x=torch.empty(64, 7))
    except SignatureError as error:
        lines = traceback.format_tb(error.__traceback__)
    assert any("faults.hold(ok, 7, locals())" in line for line in lines)


def test_units_are_dumped_where_the_environment_says(plan_for, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_DUMP", str(tmp_path / "units"))
    plan = plan_for("""
DumpedFwdOp:
  signature:
    inputs: {x: {dtype: float32, shape: "[4]"}}
    outputs: {y: {dtype: float32, shape: "[4]"}}
""")
    text = plan.source()
    assert (tmp_path / "units" / "DumpedFwdOp.py").read_text(encoding="utf-8") == text


def test_many_threads_generate_once(plan_for, monkeypatch):
    counted, made = [], unit.compile_unit

    def compile_unit(plan):
        counted.append(plan)
        return made(plan)

    monkeypatch.setattr(unit, "compile_unit", compile_unit)
    plan = plan_for("""
ThreadedFwdOp:
  signature:
    inputs: {x: {dtype: float32, shape: "[4]"}}
    outputs: {y: {dtype: float32, shape: "[4]"}}
""")
    start, texts = threading.Barrier(8), []

    def ask():
        start.wait()
        texts.append(plan.source())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counted) == 1
    assert len(set(texts)) == 1


def test_a_plan_is_shared_by_copies(row_scale_plan):
    assert copy.deepcopy(row_scale_plan) is row_scale_plan


def test_plans_of_the_manifest():
    assert signature_plan_for("NoSuchFwdOp") is None
    first = signature_plan_for("RMSNormFwdOp")
    assert isinstance(first, _SignaturePlan)
    assert signature_plan_for("RMSNormFwdOp") is first


KNOWN = {
    ("SiluAndMulFwdOp", "x"): ["M := [0]", "2 * N := [1]"],
    ("GroupedQueryAttentionVarlenFwdOp", "cu_seqlens_q"): ["B + 1 := [0]"],
    ("GemmW4A16FwdOp", "activation"): ["M := [0]", "K := [1]"],
    ("GemmW4A16FwdOp", "packed_weight"): ["N := [0]", "K // 2 == [1]"],
    ("MHCPreFwdOp", "phi"): ["C := [0]", "Q := [1]"],
    ("MHCPreFwdOp", "b"): ["Q == [0]"],
}


@pytest.mark.parametrize(("name", "tensor"), KNOWN)
def test_indices_of_known_ops(name, tensor):
    """Which axes of ops in the tree give an index, and which are compared only."""
    plan = signature_plan_for(name)
    axes = [step for step in plan._plan.call if isinstance(step, SolveAxis | CheckAxis)]
    found = [
        f"{to_text(step.axis)} {':=' if isinstance(step, SolveAxis) else '=='} "
        f"[{step.position.fixed}]"
        for step in axes
        if step.tensor.name == tensor and step.position.side == "left"
    ]
    assert found == KNOWN[name, tensor]
    lets = {step.name for step in plan._plan.call if isinstance(step, ComputeLet)}
    assert name != "MHCPreFwdOp" or {"n", "c_x"} <= lets


def test_every_spec_of_the_manifest_yields_a_unit_that_compiles():
    for name in manifest.specs():
        plan = signature_plan_for(name)
        assert plan is not None
        assert compile(plan.source(), name, "exec")


def test_a_spec_without_a_plan_names_its_first_finding(plan_for):
    with pytest.raises(ManifestError) as caught:
        plan_for("""
BrokenFwdOp:
  signature:
    forall: {N: Dim}
    inputs: {x: {dtype: float32, shape: "[4]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
""")
    assert str(caught.value).startswith("BrokenFwdOp signature.outputs.y.shape: [V27] ")


BRANCHY = """
BranchyFwdOp:
  signature:
    forall: {N: Dim, T: "DType[float32]"}
    params:
      mode: {type: "'copy' | 'write'", default: copy}
      cap: {type: "bool | None", default: null}
    inputs:
      x: {dtype: T, shape: "[N]", mutated: "mode == 'write'"}
      w: {dtype: T, shape: "[N]", optional: true}
    outputs:
      y: {dtype: T, shape: "[N]", alias: x}
      m: {dtype: T, shape: "[N]", nullable: "present(w) or present(cap)", buffer: out}
"""


def test_the_effect_branch_is_found_while_tracing(op_for):
    op = op_for(BRANCHY, mode="write", cap=None)

    def branch(w, out):
        found = op.plan.effect_branch(op, {"w": w, "out": out})
        return len(found.writes), found.has_out, len(found.emits)

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w, out: (x + 1, branch(w, out)), fullgraph=True,
                             backend="eager")  # fmt: skip
    for w in (False, True):
        for out in (False, True):
            assert compiled(torch.zeros(2), w, out)[1] == branch(w, out)
    assert branch(True, True) == (1, True, 2)
    assert branch(False, False) == (1, False, 1)


def test_a_branch_that_no_call_may_take_still_has_an_effect(op_for):
    restricted = BRANCHY.replace(
        "    outputs:", "    shape_rules: [\"present(w) or mode == 'copy'\"]\n    outputs:"
    )
    op = op_for(restricted, mode="write", cap=None)
    assert op.plan.effect_branch(op, {"w": False, "out": False}) in op.plan.effects
    with pytest.raises(SignatureError, match="does not hold: mode='write', w is absent"):
        op.check(x=torch.zeros(2))


def test_plan_of_takes_any_spec(row_scale_plan):
    again = _SignaturePlan.of(plan_of(row_scale_plan._plan.spec))
    assert again.source() == row_scale_plan.source()
