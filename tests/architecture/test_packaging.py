"""What a wheel holds, and what a checkout offers beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy, so that nothing is left in the checkout."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"):
        shutil.copy(root / name, tree)
    shutil.copytree(
        root / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", "."],
        cwd=tree,
        capture_output=True,
        check=True,
    )
    (path,) = (tree / "out").glob("*.whl")
    return zipfile.ZipFile(path)


def test_a_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile, package: Path) -> None:
    expected = {
        f"tileops/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if not name.startswith("tileops-")}
    assert packed == expected
    assert any(name.endswith("spec.yaml") for name in packed)
    assert "tileops/py.typed" in packed
    assert "tileops/norm/__init__.pyi" in packed


def test_a_wheel_installs_the_command(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "tileops = tileops.cli:main" in wheel.read(name).decode()


def test_a_wheel_asks_for_little(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    lines = wheel.read(name).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist") and "extra" not in line]
    names = [line.split()[1].split(">")[0].split("<")[0].lower() for line in required]
    assert sorted(names) == ["pyyaml", "torch"]


def test_the_validators_script_is_the_command(root: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = [sys.executable, str(root / "scripts" / "validate_manifest.py")]
    clean = subprocess.run(
        [*script, "RMSNormFwdOp"], env=environment, capture_output=True, text=True, check=False
    )
    assert (clean.returncode, clean.stdout) == (0, "0 errors, 0 advisories\n"), clean.stderr
    unknown = subprocess.run(
        [*script, "NoSuchFwdOp"], env=environment, capture_output=True, text=True, check=False
    )
    assert unknown.returncode == 2
    assert "no op is called NoSuchFwdOp" in unknown.stderr


def test_the_makefile_and_the_demo_name_one_distribution(root: Path) -> None:
    from tileops.demo.weights import DISTRIBUTION

    assert f"WEIGHTS ?= {DISTRIBUTION}>=" in (root / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("check", "file"),
    [
        ("validate-config", ".pre-commit-config.yaml"),
        ("validate-manifest", ".pre-commit-hooks.yaml"),
    ],
)
def test_the_hooks_are_well_formed(root: Path, check: str, file: str) -> None:
    command = [sys.executable, "-m", "pre_commit", check, str(root / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
