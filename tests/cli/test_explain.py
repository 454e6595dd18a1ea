"""`tileops explain`: a call described by shapes, and what would serve it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tileops.cli.described import Wishes, described
from tileops.cli.specs import spec_named

Run = Callable[..., Any]

NORM = ("explain", "RMSNormFwdOp", "--param", "normalized_shape=[64]")


def test_a_served_call_names_its_kernel(tileops: Run) -> None:
    outcome = tileops(*NORM, "--shape", "x=2x3x64", "--shape", "weight=64")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("RMSNormFwdOp on cpu: served by ")
    assert "rms_norm: " in outcome.out
    assert "chosen: portable" in outcome.out


def test_the_answer_is_data(tileops: Run) -> None:
    data = tileops("explain", "GemmFwdOp", "--shape", "a=8x16", "--shape", "b=4x16", "--json").data
    assert data["op"] == "GemmFwdOp"
    assert data["device"] == "cpu"
    assert data["error"] is None
    (step,) = data["steps"]
    assert step["chosen"] == "portable"
    verdicts = {row["key"]: row["verdict"] for row in step["candidates"]}
    assert verdicts["portable"] == "accepted"
    assert all(reason for reason in verdicts.values())


def test_dtypes_are_chosen_by_index_or_input(tileops: Run) -> None:
    by_index = tileops(*NORM, "--shape", "x=2x64", "--dtype", "T=float32")
    by_input = tileops(*NORM, "--shape", "x=2x64", "--dtype", "x=float32")
    assert "float32" in by_index.out
    assert by_index.out == by_input.out


def test_no_data_is_made(tileops: Run) -> None:
    outcome = tileops(
        "explain", "AddFwdOp", "--shape", "input=1048576x1048576", "--shape", "other=1"
    )
    assert outcome.code == 0, outcome.out + outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*NORM, "--shape", "x=2x63"), "refused: RMSNormFwdOp (call): inputs.x.shape"),
        ((*NORM, "--shape", "weight=64"), "inputs.x: required"),
        ((*NORM, "--shape", "x=2x64", "--dtype", "T=int8"), "int8 is not in T"),
        (("explain", "GemmFwdOp", "--shape", "a=2x3", "--shape", "b=4x5"), "refused: GemmFwdOp"),
    ],
)
def test_a_refused_call_ends_with_its_error(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops(*arguments)
    assert outcome.code == 1
    assert outcome.out.startswith(f"{arguments[1]}: served by nothing\n"), "no device is settled"
    assert message in outcome.out
    assert outcome.out.count("refused") == 1, "an error of several lines is one refusal"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "RMSNormFwdOp", "--shape", "x=2x64"), "normalized_shape"),
        ((*NORM, "--row", "a"), "--row describes a whole call: leave out --shape and --param"),
        ((*NORM[:2], "--row", "a"), "no row of RMSNormFwdOp is of these labels and dtypes; rows: "),
        ((*NORM[:2], "--dtype", "T=int8"), "no row of RMSNormFwdOp is of these labels and dtypes"),
        (
            (*NORM[:2], "--dtype", "int8"),
            "--dtype int8: nothing here has it; T is float16, bfloat16, float32",
        ),
        (("explain", "RMSNormFwdOp", "--dtype", "T=float17"), "not a registered"),
        ((*NORM[:2], "--param", "normalized_shape=[]", "--shape", "x=2"), "does not hold"),
        ((*NORM[:2], "--param", "normalized_shape=[4"), "--param normalized_shape=[4: "),
        ((*NORM, "--shape", "x=2xq"), "--shape x=2xq: expected extents such as 8x4096"),
        ((*NORM, "--shape", "x=2xx3"), "--shape x=2xx3: expected extents such as 8x4096"),
        ((*NORM, "--shape", "x=²x64"), "--shape x=²x64: expected extents such as 8x4096"),
        ((*NORM, "--shape", f"x={2**64}x64"), f"--shape x={2**64}x64: ({2**64}, 64)"),
        ((*NORM, "--shape", f"x=0x{2**63}"), f"--shape x=0x{2**63}: (0, {2**63})"),
        ((*NORM, "--shape", f"x={2**56}x64"), f"--shape x={2**56}x64: ({2**56}, 64)"),
        ((*NORM, "--shape", "x"), "--shape x: expected NAME=VALUE"),
        ((*NORM, "--shape", "y=2"), "--shape y=2: no y here; known: x, weight"),
        ((*NORM, "--shape", "x=2", "--shape", "x=3"), "x is given twice"),
        (
            (*NORM, "--dtype", "T=float17"),
            "--dtype T=float17: not a registered dtype; did you mean 'float1",
        ),
        ((*NORM, "--shape", "x=2x64", "--device", "cuda:99"), "device cuda:99 cannot be used"),
        ((*NORM, "--shape", "x=2x64", "--target", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_used_is_one_error(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops(*arguments)
    assert outcome.code == 2
    assert message in outcome.out + outcome.err
    assert "Traceback" not in outcome.err


def test_without_a_description_the_smallest_row_is_explained(tileops: Run) -> None:
    outcome = tileops("explain", "RMSNormFwdOp")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("row qwen3-8b-qk-decode-float16\nRMSNormFwdOp on cpu: served")


def test_a_row_and_a_dtype_are_chosen(tileops: Run) -> None:
    asked = ("--row", "llama-3.1-70b-decode", "--dtype", "bfloat16")
    data = tileops("explain", "RMSNormFwdOp", *asked, "--json").data
    assert data["row"] == "llama-3.1-70b-decode-bfloat16"
    assert data["error"] is None
    by_name = tileops("explain", "RMSNormFwdOp", *asked[:2], "--dtype", "x=bfloat16", "--json").data
    assert by_name == data


def test_a_row_of_every_family_is_explained(tileops: Run) -> None:
    """Parameters of any type, dtypes that follow from them, metadata: all come from the row."""
    for op in ("MoEGroupedGemmFwdOp", "GemmFp8FwdOp", "AlibiFwdOp", "GatedDeltaNetFwdOp"):
        outcome = tileops("explain", op)
        assert outcome.code == 0, outcome.out + outcome.err


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        ((), "float32"),
        (("--dtype", "bfloat16"), "bfloat16"),
        (("--dtype", "x=bfloat16", "--shape", "weight=64"), "bfloat16"),
        (("--arch", "sm_90"), "float16"),
    ],
)
def test_shapes_are_float32_on_a_cpu_else_of_the_smallest_row(
    tileops: Run, arguments: tuple[str, ...], dtype: str
) -> None:
    outcome = tileops(*NORM, "--shape", "x=2x64", *arguments, "--json")
    assert f"torch.{dtype}" in outcome.data["steps"][0]["identity"], outcome.data


def test_float32_is_taken_only_where_it_is_admitted() -> None:
    wishes = Wishes(["a=16x32", "b=16x32"], [], [], None)
    call = described(spec_named("GemmFp8FwdOp"), wishes, torch.device("cpu"))
    assert [dtype for _, dtype in call.forms.values()] == ["float8_e4m3fn", "float8_e4m3fn"]


def test_a_device_that_is_not_here_is_asked_for_by_its_architecture(tileops: Run) -> None:
    data = tileops(*NORM, "--shape", "x=8x64", "--arch", "sm_90", "--json").data
    assert data["device"] == "cuda:0"
    assert data["steps"][0]["chosen"] == "on_chip"
    older = tileops(*NORM, "--shape", "x=8x64", "--device", "cuda", "--arch", "sm_80")
    assert "on_chip (RMSNormOnChipKernel): supports the architectures 90, not 80" in older.out
    assert "chosen: portable" in older.out


@pytest.mark.parametrize(
    "op", ["FusedMoEFwdOp", "GroupedGemmFwdOp", "AlibiFwdOp", "RoPEFwdOp", "FusedQKNormRoPEFwdOp"]
)
def test_bodies_are_followed_where_the_device_is_not_here(tileops: Run, op: str) -> None:
    """Stages, streams that are not there, parameters that name the device, tables, indexing."""
    outcome = tileops("explain", op, "--arch", "sm_90")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "cannot be followed" not in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--arch", "sm_9"), "called sm_9: known are sm_80 (A100), sm_89 (L40S), "),
        (("--arch", "hopper"), "no architecture is called hopper: known are sm_80 (A100), "),
        (("--arch", "sm_90", "--device", "cpu"), "CUDA device: leave out --device cpu"),
        (("--device", "privateuseone"), "cannot be used: no package has made it known to torch, "),
        (("--device", "cuda:99"), ", --arch sm_90 asks about one that is not here\n"),
    ],
)
def test_devices_of_which_nothing_is_known(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops(*NORM, "--shape", "x=8x64", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
