"""The public surface is what docs/api.md lists, and `__all__` is what the specs say."""

from __future__ import annotations

import importlib
import re
from importlib import metadata
from pathlib import Path

import pytest

import tileops
from tileops._core.spec import registry

BLOCK = re.compile(r"```text public (?P<module>[\w.]+)\n(?P<names>.*?)```", re.DOTALL)
MODULES = ("tileops", "tileops.manifest", "tileops.manifest.primitives", "tileops.kernels",
           "tileops.backend", "tileops.errors")  # fmt: skip


def documented(root: Path) -> dict[str, set[str]]:
    """Public names by module, from the marked blocks of docs/api.md."""
    text = (root / "docs" / "api.md").read_text(encoding="utf-8")
    return {match["module"]: set(match["names"].split()) for match in BLOCK.finditer(text)}


def test_every_public_module_is_documented(root: Path) -> None:
    assert set(documented(root)) == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_facade_names_equal_the_documented_ones(root: Path, module: str) -> None:
    loaded = importlib.import_module(module)
    assert set(loaded.__all__) == documented(root)[module]
    assert all(hasattr(loaded, name) for name in loaded.__all__)


@pytest.mark.parametrize("family", tileops.FAMILIES)
def test_a_family_exports_its_implemented_specs(family: str) -> None:
    specs = [registry.lookup(name) for name in registry.specs()]
    implemented = {
        spec.name
        for spec in specs
        if spec and spec.in_tree and spec.family == family and spec.status == "implemented"
    }
    module = importlib.import_module(f"tileops.{family}")
    differing = set(module.__all__) ^ implemented
    assert not differing, "implemented specs and __all__ of `ops`, of its modules and packages"


@pytest.mark.parametrize("family", tileops.FAMILIES)
def test_a_family_exports_its_kernels_their_interfaces_and_call_specs(family: str) -> None:
    """Implementations from outside, and tests, find them in `tileops.<family>.kernels`."""
    module = importlib.import_module(f"tileops.{family}")
    kernels = importlib.import_module(f"tileops.{family}.kernels")
    ops = [getattr(module, name) for name in module.__all__]
    interfaces = [interface for op in ops for interface in op.interfaces.values()]
    types = [kernel for op in ops for kernel in op.kernel_types.values()]
    used = {*interfaces, *(interface.request for interface in interfaces), *types}
    own = [cls for cls in used if cls.__module__.startswith(kernels.__name__)]
    hidden = [cls.__name__ for cls in own if getattr(kernels, cls.__name__, None) is not cls]
    assert not hidden, f"to be imported and listed in __all__ by {kernels.__file__}"


def test_ops_holds_the_classes_of_every_family() -> None:
    ops = importlib.import_module("tileops.ops")
    expected = set()
    for family in tileops.FAMILIES:
        module = importlib.import_module(f"tileops.{family}")
        expected |= set(module.__all__)
        assert all(getattr(ops, name) is getattr(module, name) for name in module.__all__)
    assert set(ops.__all__) == expected
    with pytest.raises(AttributeError, match="no attribute 'NoSuchFwdOp'"):
        ops.NoSuchFwdOp  # noqa: B018


def test_an_unknown_name_of_the_package_is_refused() -> None:
    with pytest.raises(AttributeError, match="'tileops' has no attribute 'nowhere'"):
        tileops.nowhere  # noqa: B018


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tileops.__version__ == metadata.version("tileops")

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(AttributeError, match="a checkout that is not installed"):
        tileops.__version__  # noqa: B018


def test_list_ops_filters() -> None:
    assert "RMSNormFwdOp" in tileops.list_ops()
    assert tileops.list_ops() == sorted(tileops.list_ops())
    assert set(tileops.list_ops("gemm")) >= {"GemmFwdOp"}
    assert set(tileops.list_ops("gemm", "implemented")) <= set(
        tileops.list_ops(None, "implemented")
    )
    assert tileops.list_ops("nowhere") == []


@pytest.mark.parametrize(("file", "how"), [("__init__.py", "as"), ("ops.py", "*")])
def test_type_checkers_are_shown_every_family(package: Path, file: str, how: str) -> None:
    """What is found by name at run time is imported where only they look."""
    text = (package / file).read_text(encoding="utf-8")
    pattern = (
        r"from tileops import (\w+) as \1\n" if how == "as" else r"from tileops\.(\w+) import \*"
    )
    shown = {name for name in re.findall(pattern, text) if name in tileops.FAMILIES}
    assert shown == set(tileops.FAMILIES)
