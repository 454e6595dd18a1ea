"""The pre-commit hook for op packs: its command accepts good spec files and rejects bad ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tileops.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
[HOOK] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
SPEC = """
HookFwdOp:
  family: acme
  status: spec-only
  signature:
    params: {way: {type: HookSum}}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
    forall: {N: Dim}
  workloads: [{N: 1, way: {one: {}}, label: one}]
  roofline: {flops: 0}
adts: {HookSum: {sum: {one: {python: hook_pack.One}}}}
"""


def run(args: list[str], *files: Path) -> int:
    """What the hook's process would exit with."""
    program, *command = HOOK["entry"].split()
    assert program == "tileops"
    return main([*command, *args, *map(str, files)])


@pytest.mark.parametrize("name", ["spec.yaml", "pack/spec.yaml", "pack/spec/more.yaml"])
def test_spec_files_are_checked(name: str) -> None:
    assert re.search(HOOK["files"], name)


@pytest.mark.parametrize("name", ["spec.yml", "myspec.yaml", "types.yaml", "spec/More.yaml"])
def test_other_files_are_not(name: str) -> None:
    assert not re.search(HOOK["files"], name)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "spec.yaml", tmp_path / "bad.yaml"
    good.write_text(SPEC, encoding="utf-8")
    bad.write_text(SPEC.replace('"[N]"', '"[N"', 1).replace("Hook", "Bad"), encoding="utf-8")
    assert run(HOOK["args"], good) == 1
    assert "hook_pack" in capsys.readouterr().out
    allowed = ["--allow", "hook_pack", *HOOK["args"]]
    assert run(allowed, good) == 0
    capsys.readouterr()
    assert run(allowed, good, bad) == 1
    assert "BadFwdOp signature.inputs.x.shape: [V13]" in capsys.readouterr().out
