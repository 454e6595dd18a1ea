"""Packs are found, whatever is imported first, and none that fails stops another."""

from __future__ import annotations

import importlib
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from sources import INIT, pack

from tileops import manifest
from tileops._core.spec import registry
from tileops._core.spec.registry import lookup
from tileops._core.validate.code import find_class

EAGER = INIT + "\nfrom {package}.ops import *\n"
RESOURCE = "from importlib.resources import files\nSPEC = files('{package}') / 'spec.yaml'"


def serves(cls: Any) -> bool:
    """Whether the class got what its spec generates, and computes."""
    return bool(cls.compile_op_names) and bool(
        torch.equal(cls()(torch.ones(3)), torch.full((3,), 2.0))
    )


def test_a_pack_is_found_and_its_classes_where_they_are_asked_for(install: Any) -> None:
    install(pack("acme_lazy"), acme="acme_lazy:SPEC")
    spec = lookup("TwiceFwdOp")
    assert spec is not None
    assert (spec.home, spec.package, spec.faults) == ("acme_lazy", "acme_lazy", ())
    assert serves(find_class(spec))
    (loading,) = registry.loadings()
    assert (loading.name, loading.failure) == ("acme", None)
    assert str(loading) == "acme = acme_lazy:SPEC: loaded"


@pytest.mark.parametrize("first", ["manifest", "package"])
def test_a_package_may_define_its_classes_while_it_is_imported(install: Any, first: str) -> None:
    files = pack(f"acme_{first}")
    files[f"acme_{first}/__init__.py"] = EAGER.format(package=f"acme_{first}")
    install(files, acme=f"acme_{first}:SPEC")
    if first == "manifest":
        manifest.specs()
    assert serves(importlib.import_module(f"acme_{first}").TwiceFwdOp)


@pytest.mark.parametrize("first", ["manifest", "package"])
def test_the_specs_may_lie_in_a_module_of_their_own(install: Any, first: str) -> None:
    package = f"acme_apart_{first}"
    files = pack(package)
    files[f"{package}/specs.py"] = INIT
    files[f"{package}/__init__.py"] = f"from {package}.ops import *\n"
    install(files, acme=f"{package}.specs:SPEC")
    if first == "manifest":
        manifest.specs()
    assert serves(importlib.import_module(package).TwiceFwdOp)
    assert lookup("TwiceFwdOp").home == package  # type: ignore[union-attr]


def test_a_pack_may_import_another_that_is_half_imported(install: Any) -> None:
    base, above = pack("zeta_base"), pack("acme_above", "ThriceFwdOp", "thrice")
    base["zeta_base/__init__.py"] = EAGER.format(package="zeta_base")
    above["acme_above/__init__.py"] = "from zeta_base import TwiceFwdOp\n" + EAGER.format(
        package="acme_above"
    )
    install({**base, **above}, above="acme_above:SPEC", base="zeta_base:SPEC")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert serves(importlib.import_module("zeta_base").TwiceFwdOp)
        assert serves(importlib.import_module("acme_above").ThriceFwdOp)
    assert registry.load_problems() == ()


def test_importing_the_upper_pack_first_finds_both(install: Any) -> None:
    base, above = pack("zeta_low"), pack("acme_high", "ThriceFwdOp", "thrice")
    base["zeta_low/__init__.py"] = EAGER.format(package="zeta_low")
    above["acme_high/__init__.py"] = "import zeta_low\n" + EAGER.format(package="acme_high")
    install({**base, **above}, high="acme_high:SPEC", low="zeta_low:SPEC")
    manifest.specs()
    assert serves(importlib.import_module("zeta_low").TwiceFwdOp)
    assert serves(importlib.import_module("acme_high").ThriceFwdOp)


@pytest.mark.parametrize(
    ("files", "value", "failure"),
    [
        ({}, "acme_none:SPEC", "ModuleNotFoundError: No module named 'acme_none'"),
        ({"acme_raise/__init__.py": "1 / 0"}, "acme_raise:SPEC", "ZeroDivisionError"),
        ({"acme_leave/__init__.py": "raise SystemExit"}, "acme_leave:SPEC", "SystemExit"),
        ({"acme_end/__init__.py": "raise GeneratorExit"}, "acme_end:SPEC", "GeneratorExit"),
        ({"acme_call/__init__.py": "def f():\n    raise BaseException"}, "acme_call:f", "BaseEx"),
        ({"acme_bad/__init__.py": "SPEC = 3"}, "acme_bad:SPEC", "resolves to int, expected a path"),
        ({"acme_gone/__init__.py": "SPEC = '/none.yaml'"}, "acme_gone:SPEC", "cannot be read"),
        ({}, "not a module", "the value of an entry point is MODULE or MODULE:NAME"),
        ({}, "", "the value of an entry point is MODULE or MODULE:NAME"),
    ],
)
def test_a_pack_that_fails_is_named_and_stops_no_other(
    install: Any, files: dict[str, str], value: str, failure: str
) -> None:
    install({**files, **pack("zeta_good")}, acme=value, zeta="zeta_good:SPEC")
    with pytest.warns(RuntimeWarning, match=r"entry point acme \(.*\) cannot be loaded"):
        assert lookup("TwiceFwdOp") is not None
    (problem,) = registry.load_problems()
    assert problem.op == f"entry point acme ({value})"
    assert failure in problem.message
    assert [bool(each.failure) for each in registry.loadings()] == [True, False]


def test_the_validator_names_a_pack_that_fails(install: Any) -> None:
    install({}, acme="acme_unknown:SPEC")
    with pytest.warns(RuntimeWarning, match="acme_unknown"):
        (problem,) = registry.load_problems()
    report = manifest.validate()
    assert any(found.op == problem.op for found in report.findings)


@pytest.mark.parametrize("init", [INIT, RESOURCE], ids=["path", "resource"])
def test_a_pack_in_an_archive_is_refused_with_advice(
    install: Any, init: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"acme_zipped_{len(init)}"
    archive = tmp_path / f"{package}.zip"
    files = {**pack(package), f"{package}/__init__.py": init.format(package=package)}
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)
    install({}, acme=f"{package}:SPEC")
    monkeypatch.syspath_prepend(str(archive))
    with pytest.warns(RuntimeWarning, match="acme_zipped"):
        (problem,) = registry.load_problems()
    assert problem.message.endswith(
        f"/spec.yaml: cannot be read: {archive} is no folder; "
        "a package that is imported from an archive has to be installed as files"
    )


def test_a_pack_that_takes_names_brings_none(install: Any) -> None:
    install(pack("acme_taken", "RMSNormFwdOp"), acme="acme_taken:SPEC")
    with pytest.warns(RuntimeWarning, match="already defined in norm/spec.yaml"):
        spec = lookup("RMSNormFwdOp")
    assert spec is not None
    assert spec.in_tree


def test_warnings_as_errors_come_after_every_pack_is_loaded(install: Any) -> None:
    install(pack("zeta_last"), acme="acme_missing:SPEC", zeta="zeta_last:SPEC")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="acme_missing"):
            manifest.specs()
        assert "TwiceFwdOp" in manifest.specs()


def test_gradients_may_be_computed_by_another_pack(install: Any) -> None:
    forward, backward = pack("acme_ahead"), pack("zeta_behind", "TwiceBwdOp", "twice_bwd")
    forward["acme_ahead/spec.yaml"] += (
        "  backward: {op: TwiceBwdOp, inputs: {x: grad(y)}, outputs: {y: x}}\n"
    )
    install({**forward, **backward}, ahead="acme_ahead:SPEC", behind="zeta_behind:SPEC")
    op = importlib.import_module("acme_ahead.ops").TwiceFwdOp()
    x = torch.ones(3, requires_grad=True)
    op(x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 2.0))
