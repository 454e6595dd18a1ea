"""The pytest plugin runs the generated tests of a pack, and of nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sources import pack

from tileops.testing.choice import ChoiceFault, chosen_ops

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with one pack whose op computes something wrong in float16 only."""
    folder = tmp_path_factory.mktemp("site")
    files = pack("acme_tested")
    wrong = "return x * 2 if x.dtype is torch.float32 else x * 3"
    files["acme_tested/ops.py"] = files["acme_tested/ops.py"].replace("return x * 2", wrong)
    files["acme-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
    files["acme-1.0.dist-info/entry_points.txt"] = "[tileops.ops]\nacme = acme_tested:SPEC\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def run(site: Path, folder: Path, *arguments: str) -> tuple[int, str]:
    """pytest in an empty folder, with the plugin and the pack; nothing else that is installed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tileops.testing.plugin",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, site))),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_tests_of_a_pack_run_and_find_its_fault(site: Path, tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own_of_the_pack():\n    pass\n")
    code, text = run(site, tmp_path, "--tileops-ops", "acme_tested", "-v", "-k", "values or meta")
    assert code == 1, text
    assert "test_values_equal_the_reference[TwiceFwdOp] FAILED" in text
    assert "test_meta_tensors_give_shapes_and_build_nothing[TwiceFwdOp] PASSED" in text
    assert "TwiceFwdOp({}) on {'x': 'float16" in text
    assert "the call that was made last: TwiceFwdOp({}) on {'x': 'float16" in text
    assert "RMSNormFwdOp" not in text
    assert "test_own_of_the_pack" not in text


def test_the_compilations_of_a_pack_are_proven(site: Path, tmp_path: Path) -> None:
    """Those in processes of their own, and packages, are part of what is run for the examples."""
    names = "every_operator_has_its_proof", "operators_pass_opcheck", "one_graph_serves_all_extents"
    code, text = run(site, tmp_path, "--tileops-ops", "acme_tested", "-v", "-k", " or ".join(names))
    assert code == 0, text
    for name in names:
        assert f"::test_{name}[" in text


def test_paths_given_run_beside_the_generated_tests(site: Path, tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own_of_the_pack():\n    pass\n")
    arguments = ("test_own.py", "--tileops-ops", "TwiceFwdOp", "--collect-only", "-q")
    code, text = run(site, tmp_path, *arguments)
    assert code == 0, text
    assert "test_own.py::test_own_of_the_pack" in text
    assert "test_values_equal_the_reference[TwiceFwdOp]" in text


def test_a_name_that_means_nothing_is_one_error(site: Path, tmp_path: Path) -> None:
    code, text = run(site, tmp_path, "-q", "--tileops-ops", "acme_nowhere")
    assert code == 4
    assert text == (
        "ERROR: --tileops-ops: acme_nowhere is neither an implemented op nor a package that has "
        "one\n\n"
    )


BACKEND = """
import os
import torch
from tileops import OpNotAvailableError, backend
from tileops.kernels import Kernel
from acme_served.ops import Interface
class WideKernel(Kernel, Interface):
    devices = frozenset({"cpu"})
    @classmethod
    def refusal(cls, call):
        return None if call.n > 10**6 else "serves large tensors"
    def forward(self, x):
        return x + x
backend.register_kernel_type("TwiceFwdOp", "wide", WideKernel)
backend.register_detector(target="hyper", detect=lambda device: os.environ.get("HYPER_ON") == "1")
def build(x):
    if x.dtype is torch.float16:
        raise OpNotAvailableError("hyper computes in float32")
    return lambda x: x * 2
backend.register_kernel_builder(op="TwiceFwdOp", target="hyper", build_kernel=build)
"""
SERVED = (
    (
        "HYPER",  # mistyped: nobody reads it
        r"tileops: TwiceFwdOp: served by TorchKernel \(\d+ instances\); "
        r"never chosen: wide \(WideKernel\), target 'hyper'\n",
    ),
    (
        "HYPER_ON",
        r"tileops: TwiceFwdOp: served by target 'hyper' \(\d+ instances\); "
        r"never chosen: wide \(WideKernel\)\n"
        r"(?s:.*)tileops: TwiceFwdOp: \d+ of \d+ generated calls are refused by their target\n",
    ),
)


@pytest.fixture
def served_site(tmp_path: Path) -> Path:
    """A folder of packages: a pack, a backend for its op, and a backend that does not load."""
    files = {**pack("acme_served"), "hyper.py": BACKEND, "broken.py": "raise OSError('no driver')"}
    files["acme-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
    files["acme-1.0.dist-info/entry_points.txt"] = (
        "[tileops.ops]\nacme = acme_served:SPEC\n"
        "[tileops.backends]\nbroken = broken\nhyper = hyper\n"
    )
    for name, text in files.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "site"


REFUSING = """
from tileops import OpNotAvailableError, backend
def build(x, weight, *, normalized_shape, eps):
    raise OpNotAvailableError("picky serves nothing")
backend.register_detector(target="picky", detect=lambda device: True)
backend.register_kernel_builder(op="RMSNormFwdOp", target="picky", build_kernel=build)
"""


def test_refused_calls_are_left_out_though_nothing_loaded_the_backend_yet(tmp_path: Path) -> None:
    """Whoever asks first what a target refuses has the packages loaded."""
    (tmp_path / "picky.py").write_text(REFUSING, encoding="utf-8")
    info = tmp_path / "picky-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: picky\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tileops.backends]\npicky = picky\n")
    program = (
        "from tileops.testing.refusals import served\n"
        "print([c for c in served('RMSNormFwdOp') if 0 not in c.tensors['x'].shape])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, tmp_path)))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_calls_of_many_extents_may_all_be_refused(
    served_site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hyper = served_site / "hyper.py"
    hyper.write_text(hyper.read_text().replace("torch.float16:", "torch.float32:"))
    monkeypatch.setenv("HYPER_ON", "1")
    code, text = run(served_site, tmp_path, "--tileops-ops", "TwiceFwdOp", "-k", "one_graph")
    assert code == 0, text


@pytest.mark.parametrize(("switch", "line"), SERVED, ids=["off", "on"])
def test_a_run_tells_who_served_and_what_did_not_load(
    switch: str, line: str, served_site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(switch, "1")
    code, text = run(served_site, tmp_path, "--tileops-ops", "TwiceFwdOp", "-k", "values")
    assert code == 0, text
    assert re.search(line, text), text
    failure = "broken = broken: OSError: no driver"
    assert f"tileops: a backend package could not be loaded: {failure}" in text


@pytest.mark.usefixtures("fresh_registry")
def test_ops_are_chosen_by_name_package_and_folder() -> None:
    assert chosen_ops(["RMSNormFwdOp"]) == ["RMSNormFwdOp"]
    assert chosen_ops(None) == chosen_ops(["tileops"])
    assert "GemmFwdOp" in chosen_ops(["tileops.gemm", "RMSNormFwdOp"])
    with pytest.raises(ChoiceFault, match="tile is neither an implemented op"):
        chosen_ops(["tile"])


def test_an_op_without_a_class_is_one_failure(tmp_path: Path) -> None:
    files = pack("acme_promised")
    files["acme_promised/ops.py"] = ""
    files["acme-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
    files["acme-1.0.dist-info/entry_points.txt"] = "[tileops.ops]\nacme = acme_promised:SPEC\n"
    for name, text in files.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    code, text = run(tmp_path / "site", tmp_path, "--tileops-ops", "acme_promised")
    assert code == 1, text
    assert "TwiceFwdOp is implemented, but no class TwiceFwdOp in acme_promised.ops" in text
    assert "1 failed, " in text
    assert " error" not in text


def test_an_op_of_which_all_calls_are_refused_fails_once(
    served_site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hyper = served_site / "hyper.py"
    hyper.write_text(hyper.read_text().replace("if x.dtype is torch.float16:", "if True:"))
    monkeypatch.setenv("HYPER_ON", "1")
    code, text = run(served_site, tmp_path, "--tileops-ops", "TwiceFwdOp")
    assert code == 1
    assert re.findall(r"^FAILED .*::(\w+)", text, re.MULTILINE) == ["test_some_call_is_drawn"], text
    assert "all of them refused by the target" in text
