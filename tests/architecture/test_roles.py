"""A family's folder holds files of fixed names, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import tileops

ROLES = {"ops", "kernels", "programs", "reference", "roofline", "types", "spec"}
FILES = {f"{role}.py" for role in ROLES - {"spec"}} | {
    "__init__.py",
    "__init__.pyi",
    "spec.yaml",
    "types.yaml",
}
FORBIDDEN_NAMES = {"utils", "util", "common", "misc", "manager", "helpers"}


def test_every_family_is_a_folder_with_its_spec(package: Path) -> None:
    for family in tileops.FAMILIES:
        folder = package / family
        assert (folder / "__init__.py").is_file(), family
        assert (folder / "spec.yaml").is_file() or any((folder / "spec").glob("*.yaml")), family


def test_every_folder_with_a_spec_is_a_family(package: Path) -> None:
    found = {path.parent.name for path in package.glob("*/spec.yaml")}
    found |= {path.parent.name for path in package.glob("*/spec/")}
    assert found - {"_core"} == set(tileops.FAMILIES)


@pytest.mark.parametrize("family", tileops.FAMILIES)
def test_a_family_holds_role_files_only(package: Path, family: str) -> None:
    for path in (package / family).iterdir():
        if path.name == "__pycache__":
            continue
        allowed = ROLES if path.is_dir() else FILES
        assert path.name in allowed, f"{family}/{path.name} is no role of a family"


@pytest.mark.parametrize("family", tileops.FAMILIES)
def test_a_role_is_a_file_or_a_folder_not_both(package: Path, family: str) -> None:
    for role in ROLES:
        suffix = ".yaml" if role == "spec" else ".py"
        both = (package / family / role).is_dir() and (package / family / (role + suffix)).exists()
        assert not both, f"{family}/{role}"


def test_no_module_is_named_for_leftovers(package: Path) -> None:
    names = {path.stem for path in package.rglob("*.py")}
    names |= {path.name for path in package.rglob("*") if path.is_dir()}
    assert not names & FORBIDDEN_NAMES
