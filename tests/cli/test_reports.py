"""`validate`, `doctor` and `demo`: what they print, and when they fail."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tileops as package_of_tileops
from tileops import backend
from tileops._core.spec.model import Finding, Location
from tileops._core.targets import registry as targets
from tileops.bench import ceilings
from tileops.cli import doctor
from tileops.cli import validate as validate_command
from tileops.demo import BUILT_IN_SENTENCES, DemoReport, run_demo
from tileops.kernels import Kernel
from tileops.norm.kernels import RMSNormFwdInterface

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Any]

GOOD = """\
GainFwdOp:
  family: acme
  status: spec-only
  signature:
    forall: {N: Dim, T: "DType[float16]"}
    inputs:
      x: {dtype: T, shape: "[N]"}
    outputs:
      y: {dtype: T, shape: "[N]"}
  workloads:
  - {N: 8, dtype_cases: [{T: float16}], label: tiny}
  roofline: {flops: "N"}
"""


@pytest.fixture
def spec_file(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "spec.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_a_clean_spec_validates(tileops: Run, spec_file: Callable[[str], str]) -> None:
    outcome = tileops("validate", "--source", spec_file(GOOD))
    assert outcome.code == 0, outcome.out
    assert outcome.out == "0 errors, 0 advisories\n"


def test_a_finding_is_a_line_and_fails(tileops: Run, spec_file: Callable[[str], str]) -> None:
    path = spec_file(GOOD.replace('shape: "[N]"}\n  work', 'shape: "[Z]"}\n  work'))
    outcome = tileops("validate", "--source", path)
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    assert lines[0].startswith("error GainFwdOp signature.outputs.y.shape: [V14] ")
    assert lines[0].endswith(f" ({path}:9)")
    assert lines[-1] == "1 error, 0 advisories"
    data = tileops("validate", "--source", path, "--json").data
    assert not data["ok"]
    (finding,) = data["findings"]
    assert finding["field"] == "signature.outputs.y.shape"
    assert (finding["file"], finding["line"]) == (path, 9)


def test_findings_become_annotations(tileops: Run, spec_file: Callable[[str], str]) -> None:
    path = spec_file(GOOD.replace("spec-only", "x"))
    outcome = tileops("validate", "--github", "--source", path)
    assert outcome.code == 1
    place = f"file={path},line=3,title=GainFwdOp status"
    assert outcome.out.startswith(f"::error {place}::[V5] expected implemented or spec-only")


def test_a_finding_about_a_whole_spec(tileops: Run, spec_file: Callable[[str], str]) -> None:
    path = spec_file("GainFwdOp: 3")
    lines = tileops("validate", "--source", path).out.splitlines()
    assert lines[0] == f"error GainFwdOp: [V3] expected a mapping, got 3 ({path}:1)"
    annotated = tileops("validate", "--github", "--source", path).out
    assert annotated.startswith(f"::error file={path},line=1,title=GainFwdOp::[V3] ")


def test_a_finding_of_a_file_names_it_once(tileops: Run, spec_file: Callable[[str], str]) -> None:
    path = spec_file("GainFwdOp: [}")
    line, _ = tileops("validate", "--source", path).out.splitlines()
    assert line.startswith(f"error {path}: [V1] line 1, column ")
    assert line.count(path) == 1
    (finding,) = tileops("validate", "--source", path, "--json").data["findings"]
    assert (finding["file"], finding["line"]) == (path, 1)


ODD = """
"Odd\\n::error::1\\e[31m":
  family: elementwise
  status: spec-only
  signature:
    forall: {N: Dim, "a\\n::error::2": Dim, "M, x: 1": Dim}
    inputs: {x: {dtype: "[N,\\n2]", shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
  workloads: [{N: 1, label: one}]
  roofline: {flops: 0}
"""
"""A spec with names and texts that would end a line, begin a command or paint a terminal."""


@pytest.mark.parametrize("form", [[], ["--github"]], ids=["lines", "annotations"])
def test_a_finding_is_one_line_whatever_it_names(
    form: list[str], tileops: Run, spec_file: Callable[[str], str]
) -> None:
    outcome = tileops("validate", *form, "--source", spec_file(ODD))
    *found, summary, end = outcome.out.split("\n")
    assert (summary, end) == ("4 errors, 0 advisories", "")
    assert len(found) == 4
    assert all(line.startswith(("error ", "::error ")) and line.isprintable() for line in found)
    assert any("Odd\\n" in line and "signature.forall.a\\n" in line for line in found)


def test_properties_of_annotations_end_where_they_end() -> None:
    found = Finding("OddFwdOp", "signature.forall.M, x: 1%", "error", "[V8] a, b: c")
    assert validate_command._annotation(found, Location("a,b.yaml", 5)) == (
        "::error file=a%2Cb.yaml,line=5,title=OddFwdOp signature.forall.M%2C x%3A 1%25"
        "::[V8] a, b: c"
    )


def test_annotations_of_the_tree_name_files_of_the_package() -> None:
    found = Finding("RMSNormFwdOp", "status", "advisory", "[V44] 100% sure")
    line = validate_command._annotation(found, Location("norm/spec.yaml", 5))
    package = os.path.relpath(Path(package_of_tileops.__file__).parent)
    assert line == (
        f"::warning file={package}/norm/spec.yaml,line=5,title=RMSNormFwdOp status"
        "::[V44] 100%25 sure"
    )


def test_in_tree_specs_validate() -> None:
    """In a process of its own, where no other test has registered specs."""
    done = subprocess.run(
        [sys.executable, "-m", "tileops.cli", "validate"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *findings, summary = done.stdout.splitlines()
    assert all("[V42]" in finding for finding in findings), "many branches are all that is advised"
    assert summary.startswith("0 errors, ")


def test_the_whole_manifest_is_validated_by_ci() -> None:
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert "step .venv/bin/tileops validate" in steps


def test_doctor_reports_a_healthy_installation(tileops: Run) -> None:
    data = tileops("doctor", "--json").data
    assert data["healthy"]
    assert data["devices"][0]["device"] == "cpu"
    assert data["versions"]["torch"]
    outcome = tileops("doctor")
    assert outcome.code == 0
    assert outcome.out.endswith("healthy\n")
    assert f"ops: {data['ops']['implemented']} implemented" in outcome.out


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is all there is, and goes with it; tables know a registry by number."""
    number = targets.current.version + 1_000_000
    monkeypatch.setattr(targets, "current", targets.Registry(version=number))


def build_rms_norm(weight: Any, x: Any, *, normalized_shape: Any, eps: Any) -> Any:
    """A builder that confuses its inputs."""
    return lambda x, weight: x


@pytest.mark.usefixtures("backends")
def test_doctor_tells_who_claims_a_device_and_serves_which_ops(tileops: Run) -> None:
    backend.register_detector(target="acme", detect=lambda device: device.type == "cpu")
    backend.register_kernel_builder(
        op="RMSNormFwdOp", target="acme_one", build_kernel=build_rms_norm
    )
    data = tileops("doctor", "--json").data
    assert data["devices"][0]["target"] == "acme"
    assert data["target_ops"] == {"acme": [], "acme_one": ["RMSNormFwdOp"]}
    assert data["registration_faults"] == [
        "target 'acme' claims cpu and has no builder, so that nothing serves ops with kernels of "
        "their own there; did you mean acme_one?"
    ]
    assert data["registration_advice"] == [
        "a builder of target 'acme_one' for RMSNormFwdOp names its inputs (weight, x), and gets "
        "them as (x, weight)"
    ]
    outcome = tileops("doctor")
    assert outcome.code == 1
    assert "\ntarget acme has builders for: no op\n" in outcome.out
    assert "\ntarget acme_one has builders for: RMSNormFwdOp\n" in outcome.out
    assert "\nadvice: a builder of target 'acme_one' for RMSNormFwdOp names" in outcome.out


class Careful(Kernel, RMSNormFwdInterface):
    """Prefers itself to a kernel that is misspelt."""

    devices = frozenset({"cpu"})
    preferred_over = frozenset({"portabel"})

    @classmethod
    def refusal(cls, call: Any) -> str | None:
        return "serves nothing"

    def forward(self, *tensors: Any) -> Any:
        return tensors


@pytest.mark.usefixtures("backends")
def test_doctor_advises_on_preferences_over_what_is_not_there(tileops: Run) -> None:
    backend.register_kernel_type("RMSNormFwdOp", "careful", Careful)
    data = tileops("doctor", "--json").data
    assert data["healthy"], data
    assert data["registration_advice"] == [
        "the kernel type 'careful' for RMSNormFwdOp is preferred_over 'portabel', and nothing is "
        "registered under that key; did you mean portable?"
    ]


@pytest.mark.usefixtures("backends")
def test_doctor_names_swapped_arguments(tileops: Run) -> None:
    backend.register_kernel_type("careful", "RMSNormFwdOp", Careful)
    (fault,) = tileops("doctor", "--json").data["registration_faults"]
    assert fault.endswith("no op is called that; op and key are swapped")


def test_doctor_says_how_tilelang_is_installed(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: None)
    told = "TileLang is missing: portable kernels serve CUDA; `pip install 'tileops[cuda]'`"
    assert f"{told}, in a clone `pip install -e '.[cuda]'` brings it" in tileops("doctor").out


def test_doctor_measures_a_device(
    tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ceilings, "COPIED", {"cpu": 1 << 20})
    monkeypatch.setattr(ceilings, "EDGE", {"cpu": 64})
    data = tileops("doctor", "--measure", "--json").data
    assert Path(data["file"]).is_relative_to(tmp_path)
    assert data["rates"]["memory"] > 0
    outcome = tileops("doctor", "--measure")
    assert outcome.out.startswith("unit ")
    assert "\nvector fp32 " in outcome.out, "a CPU has no cores of a GPU"
    assert outcome.out.endswith(f"kept in {data['file']}\n")
    (record,) = tileops("run", "AddFwdOp", "--row", "minilm-l6-residual-float32", "--json").data
    assert record["reading"]["limit"] == "memory"
    refused = tileops("doctor", "--measure", "--device", "meta")
    assert refused.code == 2
    assert "device meta cannot be measured: it is neither cpu nor cuda" in refused.err


def test_doctor_fails_on_a_backend_that_does_not_load_and_says_so_once(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = "acme = acme.ops: ImportError: no acme"

    def load_failures() -> tuple[str]:
        warnings.warn(
            f"a backend package could not be loaded: {failure}", RuntimeWarning, stacklevel=1
        )
        return (failure,)

    monkeypatch.setattr(backend, "load_failures", load_failures)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = tileops("doctor")
    assert outcome.code == 1
    assert "load failure: acme = acme.ops: ImportError: no acme\n" in outcome.out
    assert outcome.out.endswith("NOT healthy: see what is at fault\n")


def test_doctor_names_what_cannot_be_read(
    tileops: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: acme\n")
    (info / "entry_points.txt").write_text("[tileops.backends]\nacme\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = tileops("doctor")
    assert outcome.code == 1
    assert "load problem: the entry points of acme cannot be read: TypeError" in outcome.out
    monkeypatch.setitem(sys.modules, "tileops.backend", None)
    monkeypatch.delattr("tileops.backend")
    outcome = tileops("doctor")
    assert outcome.code == 2
    assert "error: torch cannot be imported: " in outcome.err
    assert "; the entry points of acme cannot be read: TypeError" in outcome.err


@pytest.fixture(scope="module")
def report() -> DemoReport:
    return run_demo(BUILT_IN_SENTENCES)


def test_demo_prints_ranking_table_and_check(
    tileops: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    outcome = tileops("demo")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == f"query: {BUILT_IN_SENTENCES[0]}"
    scores = [float(line.split()[0]) for line in lines[1 : len(BUILT_IN_SENTENCES)]]
    assert scores == sorted(scores, reverse=True)
    header = next(line for line in lines if line.startswith("op "))
    columns = "op calls served by kernel ms MFLOP MB share"  # And no limit, where none is known.
    assert header.split() == columns.split()
    assert any(line.startswith("GemmFwdOp") for line in lines)
    assert "within the limit of 1e-04" in lines[-1]
    assert outcome.err == (
        "limits of this device are unknown: `tileops doctor --measure` finds them\n"
    )


def test_demo_takes_sentences_and_prints_data(
    tileops: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    path = tmp_path / "sentences.txt"
    path.write_text("a cat\na kitten\na lorry\n", encoding="utf-8")
    by_file = tileops("demo", "--file", str(path), "--json").data
    by_words = tileops("demo", "a cat", "a kitten", "a lorry", "--json").data
    assert [r["sentence"] for r in by_file["ranking"]] == ["a kitten", "a lorry"]
    assert by_file["ranking"] == by_words["ranking"]
    assert by_file["passed"]
    first = by_file["ops"][0]
    assert {"op", "calls", "target", "kernels", "seconds", "flops", "bytes", "efficiency"} == set(
        first
    )
    assert first["efficiency"] is None, "nobody measured this CPU"


def test_demo_fails_above_the_limit(
    tileops: Run, monkeypatch: pytest.MonkeyPatch, report: DemoReport
) -> None:
    wrong = replace(report, largest_difference=2e-4)
    monkeypatch.setattr("tileops.demo.run_demo", lambda *args: wrong)
    outcome = tileops("demo")
    assert outcome.code == 1
    assert "2.00e-04, ABOVE the limit" in outcome.out
