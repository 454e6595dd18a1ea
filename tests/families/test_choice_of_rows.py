"""Workload rows on an H200 that need not be here: each TileLang kernel has a row that chooses it.

A kernel that no row chooses is never timed by the bench. Choices are followed without data, as
`explain` does, and nothing is built.
"""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops._core.dispatch.facts import USUAL
from tileops._core.op.explain import explain_elsewhere
from tileops._core.spec.model import OpSpec
from tileops._core.workload.cases import Case
from tileops.bench.calls import form_of
from tileops.bench.sweep import chosen_cases
from tileops.cli.specs import all_specs
from tileops.testing.calling import class_of, parameters

H200 = USUAL["sm_90"]._replace(calibration="h200")


def tilelang_keys(name: str) -> set[str]:
    """The implementations of an op that run a TileLang program."""
    return {key for key, each in class_of(name).kernel_types.items() if each.needs_tilelang}


OPS = {
    spec.name: spec
    for spec in all_specs()
    if spec.status == "implemented"
    and str(spec.home).startswith("tileops.")
    and tilelang_keys(spec.name)
}


def chosen(spec: OpSpec, case: Case) -> set[str]:
    """The implementations that a case of a row would be served by."""
    with FakeTensorMode():
        inputs = spec.signature.inputs
        given = {
            name: torch.empty(
                form.shape,
                dtype=getattr(torch, form.dtype),
                device="cpu" if inputs[name].on_cpu else "cuda:0",
            )
            for name, form in case.tensors.items()
            if name in inputs
        }
        op = class_of(spec.name)(**parameters(form_of(spec, case), "cuda:0"))
        report = explain_elsewhere(op, H200, given)
    assert report.error is None, f"{spec.name} {case.id}"
    return {str(step.key) for step in report.interfaces}


@pytest.mark.parametrize("name", OPS)
def test_every_tilelang_kernel_has_a_row(name: str) -> None:
    left = tilelang_keys(name)
    for case in chosen_cases(OPS[name]):
        if not left:
            break
        left -= chosen(OPS[name], case)
    assert left == set(), "the bench times them by no row"


def test_the_smallest_row_of_paged_prefill_decodes_in_tilelang() -> None:
    """It once was one of coded pages, which the portable kernel serves."""
    spec = OPS["GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp"]
    keys = {case.setting.row.label: chosen(spec, case) for case in chosen_cases(spec)}
    assert keys["llama-3-8b-decode-first"] == {"decode"}
    assert keys["qwen3.5-9b-mixed"] == {"pipelined"}
    assert keys["qwen3.5-9b-fp8-cache"] == {"portable"}
