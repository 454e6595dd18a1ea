"""Plug-ins of every bad kind, installed for a process of its own: nothing breaks, all are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"

BACKENDS = {
    "absent": None,
    "good": """
from tileops import backend
backend.register_detector(target="good", detect=lambda device: False)
def build(x, weight, *, normalized_shape, eps):
    return lambda x, weight: x
backend.register_kernel_builder(op="RMSNormFwdOp", target="good", build_kernel=build)
""",
    "lost": """
from tileops import backend
backend.register_kernel_builder(op="RmsNormFwdOp", target="lost", build_kernel=print)
backend.register_kernel_type("NowhereFwdOp", "lost", int)
""",
    "misfit": """
from tileops import backend
backend.register_kernel_builder(op="RMSNormFwdOp", target="misfit", build_kernel=lambda x: x)
""",
    "tongue_tied": """
from tileops import backend
from tileops.kernels import Kernel
from tileops.norm.kernels import AddRMSNormFwdInterface
class Silent(Kernel, AddRMSNormFwdInterface):
    devices = frozenset({"cpu"})
    @classmethod
    def refusal(cls, call):
        raise RuntimeError("asked too much")
    def forward(self, *tensors):
        return tensors
class Vague(Silent):
    devices = frozenset({"cuda"})
    @classmethod
    def refusal(cls, call):
        return False if call.arch == 90 else None
class Bodiless(Silent):
    @classmethod
    def refusal(cls, call):
        return None
    @classmethod
    def entry_for(cls, call):
        return cls
for cls in (Silent, Vague, Bodiless):
    backend.register_kernel_type("FusedAddRMSNormFwdOp", cls.__name__.lower(), cls)
""",
    "twins": """
from tileops import backend
from tileops.kernels import Kernel
from tileops.norm.kernels import GroupNormBwdInterface
class Twin(Kernel, GroupNormBwdInterface):
    needs_tilelang = False
    def forward(self, *tensors):
        return tensors
for key in ("one", "other"):
    backend.register_kernel_type("GroupNormBwdOp", key, Twin)
""",
    "rival": """
from tileops import backend
from tileops.kernels import Kernel
from tileops.norm.kernels import GroupNormFwdInterface
class Rival(Kernel, GroupNormFwdInterface):
    needs_tilelang = False
    def forward(self, *tensors):
        return tensors[0]
backend.register_kernel_type("GroupNormFwdOp", "rival", Rival)
""",
    "picky": """
from tileops import backend
from tileops.kernels import Kernel
from tileops.norm.kernels import AdaLayerNormFwdInterface
class Picky(Kernel, AdaLayerNormFwdInterface):
    @classmethod
    def refusal(cls, call):
        return f"serves {1 // (call.arch - 80)}"
    def forward(self, *tensors):
        return tensors
class Elder(Picky):
    supported_archs = frozenset({80})
    @classmethod
    def refusal(cls, call):
        return "serves nothing"
for cls in (Picky, Elder):
    backend.register_kernel_type("AdaLayerNormFwdOp", cls.__name__.lower(), cls)
""",
    "stray_too": """
from tileops import backend
from tileops.kernels import Kernel
from tileops.norm.kernels import LayerNormFwdInterface
class Innocent(Kernel, LayerNormFwdInterface):
    def forward(self, *tensors):
        return tensors
backend.register_kernel_type("LayerNormFwdOp", "innocent", Innocent)
for op, cls in (("BatchNormFwdOp", int), ("InstanceNormFwdOp", int)):
    backend.register_kernel_type(op, "first", cls)
""",
    "half": """
from tileops import backend
backend.register_detector(target="half", detect=lambda device: True)
backend.register_kernel_builder(op="RMSNormFwdOp", target="half", build_kernel=print)
backend.register_kernel_type("RMSNormFwdOp", "half", int)
raise OSError("no driver")
""",
    "slow": "import time\ntime.sleep(1.05)",
    "stray": """
from tileops import backend
backend.register_kernel_type("LayerNormFwdOp", "stray", int)
backend.register_kernel_type("BatchNormFwdOp", "stray", int)
""",
    "syntax": "def",
    "raising_detector": """
from tileops import backend
def detect(device):
    raise RuntimeError("asked too much")
backend.register_detector(target="nosy", detect=detect)
""",
    "abrupt": """
from tileops import backend
class End(BaseException):
    pass
def detect(device):
    raise End("of all")
backend.register_detector(target="abrupt", detect=detect)
""",
}
PACKS = {"lost_pack": "1 / 0"}

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import tileops
early = [name for name in sys.modules if name.startswith("plug_")]
import torch
from tileops.norm import RMSNormFwdOp
y = RMSNormFwdOp([4], target="builtin")(torch.ones(2, 4))
from tileops import backend
from tileops.cli import main
print(json.dumps({"early": early, "sum": float(y.sum()), "targets": backend.registered_targets(),
                  "default": backend.default_target()}))
for line in sys.argv[1:]:
    print("\\x00", end="")
    print("exit code", main(line.split()))
"""


def distribution(site: Path, name: str, group: str, source: str | None) -> None:
    """Put an installed distribution with one entry point into a folder of packages."""
    if source is not None:
        (site / f"plug_{name}.py").write_text(source, encoding="utf-8")
    info = site / f"plug_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plug-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = plug_{name}\n")


COMMANDS = ("doctor --json", "doctor", "show LayerNormFwdOp", "explain LayerNormFwdOp",
            "run LayerNormFwdOp --param normalized_shape=[8] --shape x=4x8")  # fmt: skip


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the program printed: what it saw first, then a text per command."""
    site = tmp_path_factory.mktemp("site")
    for name, source in BACKENDS.items():
        distribution(site, name, "tileops.backends", source)
    for name, text in PACKS.items():
        distribution(site, name, "tileops.ops", text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *COMMANDS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, site)))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\0")


def test_nothing_breaks_and_nothing_stays(outputs: list[str]) -> None:
    seen: dict[str, Any] = json.loads(outputs[0])
    assert seen == {
        "early": [],
        "sum": 8.0,
        "default": None,
        "targets": ["abrupt", "good", "lost", "misfit", "nosy"],
    }


def test_doctor_names_every_plug_in(outputs: list[str]) -> None:
    text, _, code = outputs[1].rpartition("exit code")
    facts = json.loads(text)
    assert (int(code), facts["healthy"]) == (1, False)
    states = {(each["kind"], each["name"]): each["state"] for each in facts["plugins"]}
    assert states == {
        ("pack", "lost_pack"): "failed",
        ("backend", "abrupt"): "loaded, at fault",
        ("backend", "absent"): "failed",
        ("backend", "good"): "loaded",
        ("backend", "half"): "failed",
        ("backend", "lost"): "loaded, at fault",
        ("backend", "misfit"): "loaded, at fault",
        ("backend", "picky"): "loaded, at fault",
        ("backend", "raising_detector"): "loaded, at fault",
        ("backend", "rival"): "loaded, at fault",
        ("backend", "slow"): "loaded, but slow",
        ("backend", "stray"): "loaded, at fault",
        ("backend", "stray_too"): "loaded, at fault",
        ("backend", "syntax"): "failed",
        ("backend", "tongue_tied"): "loaded, at fault",
        ("backend", "twins"): "loaded, at fault",
    }
    assert any("half = plug_half: OSError: no driver" in line for line in facts["load_failures"])
    assert any("SyntaxError" in line for line in facts["load_failures"])
    assert any("plug_syntax.py:1; to see" in line for line in facts["load_failures"])
    assert any("plug_lost_pack.py:1; to see" in line for line in facts["load_problems"])
    assert any("ZeroDivisionError" in line for line in facts["load_problems"])


FAULTS = (
    "entry point lost (plug_lost): registers a builder of target 'lost' for RmsNormFwdOp, but no "
    "op is called that; did you mean RMSNorm",
    "entry point lost (plug_lost): registers the kernel type 'lost' for NowhereFwdOp, but no op is "
    "called that",
    "entry point misfit (plug_misfit): a builder of target 'misfit' for RMSNormFwdOp cannot be "
    "called as (x, weight, normalized_shape=…, eps=…): too many positional arguments",
    "entry point tongue_tied (plug_tongue_tied): FusedAddRMSNormFwdOp, kernel type 'silent': "
    "Silent.refusal fails on device=",
    "RuntimeError: asked too much",
    "entry point tongue_tied (plug_tongue_tied): FusedAddRMSNormFwdOp, kernel type 'vague': "
    "Vague.refusal fails on device=device(type='cuda', index=0), ",
    "arch=90, sm_count=132, calibration=None, smem_budget=232448: TypeError: Vague.refusal "
    "returned False, expected None or a reason",
    "entry point tongue_tied (plug_tongue_tied): FusedAddRMSNormFwdOp, kernel type 'bodiless': "
    "Bodiless.entry_for fails on device=",
    "entry point twins (plug_twins): GroupNormBwdOp, interface 'group_norm_bwd': 'one', 'other' "
    "serve the same calls on cuda, and none is preferred_over the others",
    "entry point rival (plug_rival): GroupNormFwdOp, interface 'group_norm': ",
    "entry point picky (plug_picky): AdaLayerNormFwdOp, kernel type 'picky': Picky.refusal fails "
    "on device=device(type='cuda', index=0), ",
    "arch=80, sm_count=132, calibration=None, smem_budget=232448: ZeroDivisionError: ",
    "entry point stray (plug_stray): LayerNormFwdOp: the kernel types 'stray' implement no ",
    "BatchNormFwdOp: the kernel types 'first', 'stray' implement no interface of the op; ",
    "; the op cannot be constructed; kernel types were added: 'stray' by entry point stray "
    "(plug_stray), 'first' by entry point stray_too (plug_stray_too)",
    "entry point stray_too (plug_stray_too): InstanceNormFwdOp: the kernel types 'first' ",
    "; the op cannot be constructed",
    "entry point raising_detector (plug_raising_detector): the detector of target 'nosy' failed on "
    "cpu: RuntimeError: asked too much",
    "entry point abrupt (plug_abrupt): the detector of target 'abrupt' failed on cpu: End: of all",
)


@pytest.mark.parametrize("fault", FAULTS)
def test_doctor_says_what_is_wrong_with_what_was_registered(outputs: list[str], fault: str) -> None:
    facts = json.loads(outputs[1].rpartition("exit code")[0])
    assert any(fault in line for line in facts["registration_faults"]), facts
    assert len(facts["registration_faults"]) == 14


def test_doctor_tells_people_the_same(outputs: list[str]) -> None:
    text = outputs[2]
    assert "backend  half              plug_half                 " in text
    assert "loaded, but slow\n" in text
    assert "loaded, at fault\n" in text
    assert "registration fault: entry point stray (plug_stray): LayerNormFwdOp: " in text
    assert text.endswith("NOT healthy: see what is at fault\nexit code 1\n")


@pytest.mark.parametrize("number", [3, 4, 5])
def test_a_stray_kernel_type_is_one_error_of_a_command(outputs: list[str], number: int) -> None:
    assert outputs[number] == "exit code 2\n"
