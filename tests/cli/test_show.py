"""`tileops show`: signature, parameters, kernels, generated code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import pytest

from tileops._core.dispatch.table import install
from tileops._core.targets import registry
from tileops.cli.contracts import _facts
from tileops.cli.kernel_facts import kernel_facts
from tileops.kernels import CallSpec, Kernel, KernelInterface

Run = Callable[..., Any]

VARLEN = "GroupedQueryAttentionVarlenFwdOp"


class Plain(KernelInterface):
    request = CallSpec

    def forward(self, x): ...


def test_signature_is_shown_in_mathematical_form(tileops: Run) -> None:
    outcome = tileops("show", "RMSNormFwdOp")
    assert outcome.code == 0
    assert outcome.out.startswith(
        "RMSNormFwdOp: norm, implemented, mirrors torch.nn.functional.rms_norm\n"
        "declared in norm/spec.yaml:3\n"
        "\n"
        "Root-mean-square norm over the trailing axes: `x / sqrt(mean(x²) + eps) * weight`.\n"
    )
    assert (
        "Source: `torch.nn.functional.rms_norm`.\n"
        "\n"
        "∀ B : Shape, T ∈ {float16, bfloat16, float32}\n"
        "  x       : T[*B, *normalized_shape]\n"
        "  weight? : T[*normalized_shape]\n"
        "⊢ output  : T[*B, *normalized_shape]\n"
        "where len(normalized_shape) > 0\n"
    ) in outcome.out


def test_type_families_effects_and_conditions_are_shown(tileops: Run) -> None:
    gemm = tileops("show", "GemmFwdOp").out
    assert "∀ M, N, K : Dim, T ∈ {float16, bfloat16, float32}\n" in gemm
    assert "  a : T Mat[trans_a, M, K]\n" in gemm
    assert (
        "type Mat[t: Bool, R: Dim, C: Dim] = match t\n  false ⇒ [R, C]\n  true ⇒ [C, R]\n" in gemm
    )
    attention = tileops("show", VARLEN).out
    assert "k_scale?      : float32[B, H_kv]    given exactly when present(q_scale)\n" in attention
    assert "let R = rotary_dim.value if present(rotary_dim) else D\n" in attention
    assert "\n  and window_size_left >= -1" in attention
    silu = tileops("show", "SiluFwdOp").out
    assert "  input! : T[*S]    written when inplace\n" in silu
    assert "⊢ output : T[*S]    is input itself where that is written\n" in silu


def test_parameters_and_cost_are_shown(tileops: Run) -> None:
    out = tileops("show", "RMSNormFwdOp").out
    assert "normalized_shape  list[int] | tuple[int, ...]  required\n" in out
    assert "eps               float | None                 None\n" in out
    assert "flops = (4 if present(weight) else 3) * prod(B) * prod(normalized_shape)\n" in out
    assert "\ngradients of x, weight: by RMSNormBwdOp\n" in out


def test_kernels_are_shown_with_their_facts(tileops: Run) -> None:
    data = tileops("show", "RMSNormFwdOp", "--json").data
    kernels = {kernel["key"]: kernel for kernel in data["kernels"]}
    general = [kernel for kernel in kernels.values() if kernel["general"]]
    assert len(general) == 1
    assert general[0]["devices"] == ["cpu", "cuda"]
    assert all(kernel["interface"] and kernel["summary"] for kernel in kernels.values())
    out = tileops("show", "RMSNormFwdOp").out
    assert all(key in out for key in kernels)
    assert "after all others" in out


def test_source_is_the_generated_code(tileops: Run) -> None:
    outcome = tileops("show", "RMSNormFwdOp", "--source")
    assert outcome.code == 0
    ast.parse(outcome.out)
    assert "norm/spec.yaml" in outcome.out
    assert tileops("show", "RMSNormFwdOp", "--source", "--json").data["source"] == outcome.out


def test_every_op_can_be_shown(tileops: Run) -> None:
    for row in tileops("list", "--json").data:
        outcome = tileops("show", row["op"])
        assert outcome.code == 0, outcome.err
        assert "⊢" in outcome.out


def test_contracts_are_what_extensions_are_written_from(tileops: Run) -> None:
    data = tileops("show", "RMSNormFwdOp", "--interfaces", "--json").data
    assert data["builder"] == (
        "build_kernel(x: TensorSpec, weight: TensorSpec | None, *, normalized_shape, eps) -> kernel"
    )
    assert data["kernel"] == "kernel(x, weight) -> output"
    (interface,) = data["interfaces"]
    assert interface["class"] == "tileops.norm.kernels.RMSNormFwdInterface"
    assert interface["call_spec"].startswith("tileops.norm.kernels.RMSNormCall(n: int, eps: float,")
    assert interface["signature"] == "(x: Tensor, weight: Tensor | None) -> Tensor"
    assert "`[M, n]` in `call.dtype`" in interface["contract"]
    assert interface["facts"] == "RMSNorm of rows of `n` elements, with or without a weight."
    text = tileops("show", "RMSNormFwdOp", "--interfaces").out
    assert f"\n{indent(interface['facts'], '    ')}\n  forward(x: Tensor" in text
    assert f"  {data['builder']}\n  {data['kernel']}\n\nkernel interface rms_norm: " in text
    assert "  forward(x: Tensor, weight: Tensor | None) -> Tensor\n    Normalise every" in text
    assert [*data["device_facts"]] == ["arch", "sm_count", "calibration", "smem_budget"]
    assert text.endswith(
        "\nevery call spec also has facts of its device, read from it unless they are stated\n"
        "  arch: ten times the major plus the minor compute capability; -1 off CUDA\n"
        "  sm_count: number of multiprocessors; 0 off CUDA\n"
        "  calibration: key of the calibrated board; None off CUDA\n"
        "  smem_budget: bytes of shared memory that a block may have after opting in; 0 off CUDA\n"
    )


def test_a_call_spec_that_says_nothing_of_itself_is_listed_alone() -> None:
    @dataclass(frozen=True)
    class Bare(CallSpec):
        n: int

    assert _facts(Bare) == ""


def test_contracts_of_a_composite_name_no_interface(tileops: Run) -> None:
    data = tileops("show", "SharedExpertMLPFwdOp", "--interfaces", "--json").data
    assert data["builder"].startswith("build_kernel(hidden_states: TensorSpec, ")
    assert "*" not in data["builder"]
    assert data["interfaces"] == []


def test_contracts_tell_the_buffer_and_several_results(tileops: Run) -> None:
    kernels = [
        tileops("show", name, "--interfaces", "--json").data["kernel"]
        for name in ("MoEExpertMLPFwdOp", "FusedAddRMSNormFwdOp")
    ]
    assert kernels == [
        "kernel(expert_input, w_gate_up, w_down, layout_metadata, out=…) -> output",
        "kernel(x, residual, weight) -> (output, residual_out)",
    ]


def test_a_kernel_without_a_docstring_has_no_summary() -> None:
    class Bare(Kernel, Plain):
        def forward(self, x): ...

    table = install("Op", {"plain": Plain}, {"bare": Bare}, {})
    assert [facts.summary for facts in kernel_facts(table)] == [""]


def test_what_has_no_gradient_says_so(tileops: Run) -> None:
    assert "\ngradients: none\n" in tileops("show", "AddFwdOp").out


def test_targets_of_an_op_are_shown(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.current, "builders", {("AddFwdOp", "acme"): print})
    assert "\ntargets with a builder for the op: acme\n" in tileops("show", "AddFwdOp").out
    assert tileops("show", "AddFwdOp", "--json").data["targets"] == ["acme"]
