"""`tileops run`: workload rows, judged and shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from tileops.bench import calls, clock
from tileops.bench.ceilings import write_profile
from tileops.bench.environment import device_name
from tileops.bench.profiles import measured_file
from tileops.bench.sweep import chosen_cases
from tileops.cli.described import Wishes
from tileops.cli.own_call import own_case
from tileops.cli.run import time_text
from tileops.cli.specs import spec_named
from tileops.norm import RMSNormFwdOp, reference
from tileops.norm.kernels import rows

Run = Callable[..., Any]

DECODE = ("run", "RMSNormFwdOp", "--row", "llama-3.1-8b-decode")


def test_a_row_shows_its_record(tileops: Run) -> None:
    outcome = tileops(*DECODE, "--dtype", "bfloat16")
    assert outcome.code == 0, outcome.out + outcome.err
    first, *lines, last = outcome.out.splitlines()
    assert (first, last) == ("1 row", "1 right, 0 wrong, 0 left out")
    assert lines[0] == "RMSNormFwdOp llama-3.1-8b-decode-bfloat16 on cpu: right"
    assert "B=" in lines[1]
    assert "x=bfloat16[1, 4096], weight=bfloat16[4096], output=bfloat16[1, 4096]" in lines[2]
    assert lines[3].endswith(f"flops, {3 * 4096 * 2:,} bytes")
    assert lines[4].startswith("  served    by ")
    assert lines[4].endswith("(builtin)")
    assert " us (" in lines[5]


def test_the_answer_is_data(tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    found = tileops(*DECODE, "--json").data
    assert [record["case"].rpartition("-")[2] for record in found] == ["float16", "bfloat16"]
    for record in found:
        assert record["state"] == "right"
        assert record["timing"]["calls"] >= 3
        assert record["timing"]["low"] <= record["timing"]["median"] <= record["timing"]["high"]
        assert record["reading"] is None, "nobody measured this CPU"


def test_a_damaged_profile_makes_no_op_wrong(
    tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    file = measured_file(device_name(torch.device("cpu")))
    file.parent.mkdir(parents=True)
    file.write_text("")
    outcome = tileops("run", "RMSNormFwdOp", "--row", "llama-3.1-8b-decode-float16")
    assert (outcome.code, outcome.out) == (2, "1 row\n")
    assert f"{file}: no profile of a device: " in outcome.err


def test_long_times_are_told_in_milliseconds() -> None:
    short, long = clock.Timing(9e-3, 8e-3, 11e-3, 5), clock.Timing(0.3237336, 0.32, 0.33, 5)
    assert time_text(short) == "9,000.0 us (8,000.0 to 11,000.0, 5 calls)"
    assert time_text(long) == "323.7 ms (320.0 to 330.0, 5 calls)"


def test_how_many_rows_there_are_is_told_first(tileops: Run) -> None:
    first, *_, last = tileops(*DECODE).out.splitlines()
    assert (first, last) == ("2 rows; --row chooses", "2 right, 0 wrong, 0 left out")


@pytest.mark.parametrize("command", ["run", "bench"])
def test_times_that_say_little_and_limits_that_nobody_knows_are_told(
    command: str, tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(clock, "UNSTEADY", 0.0)
    outcome = tileops(command, *DECODE[1:], "--dtype", "float16")
    assert " calls, unsteady)" in outcome.out
    assert outcome.out.splitlines()[-1] == (
        "1 unsteady: the middle half of a time is spread more than 2-fold"
    )
    hint = "limits of this device are unknown: `tileops doctor --measure` finds them\n"
    assert outcome.err == hint
    write_profile(torch.device("cpu"), {"memory": 1e12, "cuda_core.fp32": 1.0})
    outcome = tileops(command, *DECODE[1:], "--dtype", "float16")
    assert outcome.err == ""
    assert "of the vector fp32 limit" in outcome.out, "a CPU has no cores of a GPU"


def test_a_case_is_named_by_its_id(tileops: Run) -> None:
    found = tileops("run", "RMSNormFwdOp", "--row", "llama-3.1-8b-decode-float16", "--json").data
    assert len(found) == 1


def test_a_written_input_is_judged_too(tileops: Run) -> None:
    (first, _) = tileops("run", "ReluFwdOp", "--row", "hidden-4096-inplace", "--json").data
    assert first["state"] == "right"


def test_a_wrong_result_is_bad_news(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    right = reference.rms_norm
    monkeypatch.setattr(reference, "rms_norm", lambda *args, **kw: right(*args, **kw) + 1)
    outcome = tileops(*DECODE, "--dtype", "float16")
    assert outcome.code == 1
    assert "float16 on cpu: wrong: RMSNormFwdOp(" in outcome.out
    assert "Mismatched elements" in outcome.out
    assert "time" not in outcome.out


def test_a_call_that_raises_is_wrong(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: object, *args: object) -> None:
        raise ArithmeticError("no such luck")

    monkeypatch.setattr(RMSNormFwdOp, "forward", forward)
    outcome = tileops(*DECODE)
    assert outcome.code == 1
    assert "on cpu: wrong: ArithmeticError: no such luck" in outcome.out


def test_a_row_for_which_a_device_lacks_memory_is_left_out(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(self: object, *args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has 1")

    monkeypatch.setattr(RMSNormFwdOp, "forward", forward)
    outcome = tileops(*DECODE)
    assert outcome.code == 1
    assert "left out: CUDA out of memory\n" in outcome.out


def test_a_row_too_large_is_left_out(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "HEADROOM", 1 << 60)
    outcome = tileops(*DECODE)
    assert outcome.code == 1
    assert "left out: the row and its reference need more memory than is free" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "RMSNormFwdOp", "--row", "none"), "RMSNormFwdOp has no case of row none; known: "),
        ((*DECODE, "--row", "none", "--row", "nil"), "no case of row none or nil; known: "),
        (
            ("run", "RMSNormFwdOp", "--dtype", "int8"),
            "has no case of dtype int8; known: llama-3.1-8b-prefill-float16, ",
        ),
        ((*DECODE, "--dtype", "int8"), "no case of row llama-3.1-8b-decode and dtype int8"),
        ((*DECODE, "--device", "moon"), "device moon cannot be used"),
        (("run", "NoSuchFwdOp"), "no op is called NoSuchFwdOp"),
    ],
)
def test_arguments_that_cannot_be_used(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops(*arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_several_rows_are_chosen(tileops: Run) -> None:
    labels = ("llama-3.1-8b-decode-float16", "llama-3.1-70b-decode-float16")
    rows = [word for label in labels for word in ("--row", label)]
    found = tileops("run", "RMSNormFwdOp", *rows, "--target", "builtin", "--json").data
    assert sorted(record["case"] for record in found) == sorted(labels)
    assert {record["target"] for record in found} == {"builtin"}


@pytest.mark.parametrize("command", ["run", "bench"])
def test_what_many_rows_have_in_common_is_said_once(
    command: str, tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(self: object, *args: object) -> None:
        raise ArithmeticError("the builder of a target found no compiler\nto compile with")

    monkeypatch.setattr(RMSNormFwdOp, "forward", forward)
    lines = tileops(command, *DECODE[1:]).out.splitlines()[-4:]
    assert lines[0].endswith("wrong: ArithmeticError: the builder of a target found no compiler")
    assert lines[1] == "    to compile with"
    first = "RMSNormFwdOp llama-3.1-8b-decode-float16"
    assert lines[2].startswith("RMSNormFwdOp llama-3.1-8b-decode-bfloat16")
    assert lines[2].endswith(f": wrong: for the reason of {first}")


def test_short_reasons_are_repeated(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: object, *args: object) -> None:
        raise ArithmeticError("no luck")

    monkeypatch.setattr(RMSNormFwdOp, "forward", forward)
    assert tileops(*DECODE).out.count("wrong: ArithmeticError: no luck") == 2


def test_a_call_of_ones_own_is_judged(tileops: Run) -> None:
    given = ("--param", "normalized_shape=[64]", "--shape", "x=2x3x64", "--shape", "weight=64")
    outcome = tileops("run", "RMSNormFwdOp", *given, "--dtype", "bfloat16")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "RMSNormFwdOp call-bfloat16 on cpu: right" in outcome.out
    assert "B=(2, 3)" in outcome.out
    assert "x=bfloat16[2, 3, 64], weight=bfloat16[64], output=bfloat16[2, 3, 64]" in outcome.out


@pytest.mark.parametrize(
    "op", ["AlibiFwdOp", "BatchNormFwdOp", "FusedMoEFwdOp", "GemmFp8FwdOp", "MoEPrePermuteFwdOp"]
)
def test_the_shapes_of_a_row_are_the_row(op: str) -> None:
    """Without tensors; with held state; of stages; with dtypes of parameters; with a record."""
    spec = spec_named(op)
    row = chosen_cases(spec)[0]
    inputs = {name: row.tensors[name] for name in spec.signature.inputs if name in row.tensors}
    written = row.setting.row.values
    wishes = Wishes(
        [f"{name}={'x'.join(map(str, form.shape))}" for name, form in inputs.items()],
        [f"{name}={form.dtype}" for name, form in inputs.items()],
        [
            f"{name}={json.dumps(written[name])}"
            for name in written
            if name in spec.signature.params
        ],
        None,
    )
    own = own_case(spec, wishes, torch.device("cpu"))
    assert (own.tensors, own.outputs, own.values) == (row.tensors, row.outputs, row.values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (
                "MeanPoolingFwdOp",
                "--param",
                "chunk_size=64",
                "--param",
                "accum_dtype=float32",
                "--shape",
                "x=1x128x2x64",
                "--shape",
                "offsets=3",
                "--shape",
                "indices=4x2",
            ),
            "MeanPoolingFwdOp: this call: misses seq_lens; what no shape tells only rows give: "
            "leave out --shape and --param",
        ),
        (
            ("RMSNormFwdOp", "--param", "normalized_shape=[64]", "--shape", "x=2x63"),
            "RMSNormFwdOp (call): inputs.x.shape",
        ),
        (
            ("RMSNormFwdOp", "--param", "normalized_shape=[64]", "--row", "a"),
            "--row describes a whole call",
        ),
        (
            ("AlibiFwdOp", "--param", "num_heads=many", "--param", "seq_len=2"),
            "--param num_heads: expected an int, got 'many'",
        ),
    ],
)
def test_calls_of_ones_own_that_cannot_be_made(
    tileops: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = tileops("run", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_dtypes_of_a_row_are_named(tileops: Run) -> None:
    (found,) = tileops(*DECODE, "--dtype", "T=float16", "--json").data
    assert found["case"] == "llama-3.1-8b-decode-float16"
    assert tileops(*DECODE, "--dtype", "weight=bfloat16", "--dtype", "float16").code == 2


def second_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user interrupts the second row."""
    rows = []

    def forward(self: Any, *args: Any) -> Any:
        rows.extend([] if args[0].dtype in rows else [args[0].dtype])
        if len(rows) > 1:
            raise KeyboardInterrupt
        return right(self, *args)

    right = RMSNormFwdOp.forward
    monkeypatch.setattr(RMSNormFwdOp, "forward", forward)


@pytest.mark.parametrize("command", ["run", "bench"])
def test_an_interrupted_command_tells_what_it_found(
    command: str, tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    second_interrupted(monkeypatch)
    outcome = tileops(command, *DECODE[1:], "--json")
    assert outcome.code == 130
    assert outcome.err.endswith(f"tileops {command}: error: interrupted\n")
    rows = outcome.data if command == "run" else outcome.data["rows"]
    assert [row["case"] for row in rows] == ["llama-3.1-8b-decode-float16"]


def test_what_an_interrupted_bench_found_is_in_all_its_files(
    tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results, cases = tmp_path / "found.json", tmp_path / "found.xml"
    second_interrupted(monkeypatch)
    files = ("--json", str(results), "--junit", str(cases))
    assert tileops("bench", *DECODE[1:], "--seconds", "0", *files).code == 130
    assert len(json.loads(results.read_text())["rows"]) == 1
    assert ElementTree.parse(cases).getroot().get("tests") == "1"


def test_a_wrong_row_tells_what_the_call_was(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    right = reference.rms_norm
    monkeypatch.setattr(reference, "rms_norm", lambda *args, **kw: right(*args, **kw) + 1)
    outcome = tileops(*DECODE, "--dtype", "float16")
    assert "  bindings  " in outcome.out
    assert "  served    by " in outcome.out


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda y: y.double(), "is declared as float16[1, 4096], what was returned is float64["),
        (lambda y: y[..., :-1], "what was returned is float16[1, 4095]"),
        (lambda y: None, "what was returned is None"),
        (lambda y: 3, "what was returned is of type int"),
        (lambda y: (y, y), "RMSNormFwdOp has 1 outputs, what was returned are 2"),
    ],
)
def test_a_reference_of_another_form_judges_nothing(
    change: Callable[[torch.Tensor], object],
    told: str,
    tileops: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = reference.rms_norm
    monkeypatch.setattr(reference, "rms_norm", lambda *args, **kw: change(right(*args, **kw)))
    outcome = tileops(*DECODE, "--dtype", "float16")
    assert outcome.code == 1
    assert "left out: the reference is at fault: " in outcome.out
    assert told in outcome.out


def test_a_reference_that_raises_judges_nothing(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mean_of_nothing(*args: object, **kwargs: object) -> None:
        raise ArithmeticError("half a formula")

    monkeypatch.setattr(reference, "rms_norm", mean_of_nothing)
    monkeypatch.setattr(reference, "__name__", __name__)
    outcome = tileops(*DECODE, "--dtype", "float16")
    assert outcome.code == 1
    said = r"left out: the reference raised ArithmeticError: half a formula \(\S*test_run\.py:\d+\)"
    assert re.search(said, outcome.out)


def test_the_op_is_asked_before_its_reference(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(self: object, *args: object) -> None:
        raise ArithmeticError("no such luck")

    monkeypatch.setattr(RMSNormFwdOp, "forward", forward)
    monkeypatch.setattr(reference, "rms_norm", None)
    assert "on cpu: wrong: ArithmeticError: no such luck" in tileops(*DECODE).out


def test_a_kernel_that_raises_is_named(tileops: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows.RootMeanSquareNorm, "__call__", None)
    outcome = tileops(*DECODE, "--target", "builtin")
    said = r"wrong: RMSNormPortableKernel raised TypeError: .* \(\S*norm/kernels/rows\.py:\d+\)"
    assert re.search(said, outcome.out)
