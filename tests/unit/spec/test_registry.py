"""Loading once and leniently, registering strictly, entry points, and what may be named."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import types
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

import tileops
from tileops import manifest
from tileops._core.spec import registry
from tileops._core.spec.registry import lookup
from tileops.errors import ManifestError

Spec = dict[str, Any]


def written(path: Path, data: object) -> Path:
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def test_every_spec_of_the_tree_is_read_without_fault() -> None:
    assert not [found for found in registry.load_problems() if "/" in found.op]
    tree = [spec for name in registry.manifest().names if (spec := lookup(name)) and spec.in_tree]
    assert {spec.family for spec in tree} == set(tileops.FAMILIES)
    assert [found for spec in tree for found in spec.faults] == []


def test_a_spec_is_read_once_and_unknown_names_are_none() -> None:
    assert lookup("RMSNormFwdOp") is lookup("RMSNormFwdOp")
    assert lookup("NoSuchFwdOp") is None


def test_reading_imports_no_torch_and_no_family() -> None:
    program = (
        "import json, sys, tileops.manifest as m; from tileops._core.spec.registry import lookup\n"
        "print(json.dumps([len([lookup(n) for n in m.specs()]), sorted(sys.modules)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Path(tileops.__file__).parents[1])},
    )  # fmt: skip
    count, modules = json.loads(done.stdout)
    assert count > 5
    assert "torch" not in modules
    assert not {f"tileops.{family}" for family in tileops.FAMILIES} & set(modules)


def test_specs_are_the_data_as_read_and_read_only() -> None:
    spec = manifest.specs()["RMSNormFwdOp"]
    assert spec["family"] == "norm"
    assert spec["signature"]["outputs"]["output"]["shape"] == "[*B, *normalized_shape]"
    assert isinstance(spec["workloads"], tuple)
    with pytest.raises(TypeError):
        spec["family"] = "other"
    with pytest.raises(TypeError):
        spec["signature"]["inputs"]["x"] = {}
    with pytest.raises(TypeError):
        manifest.specs()["Other"] = spec  # type: ignore[index]


@pytest.mark.usefixtures("fresh_registry")
def test_register_a_mapping(row_scale: Spec) -> None:
    manifest.register({"AcmeFwdOp": row_scale})
    row_scale["family"] = "changed afterwards"
    spec = lookup("AcmeFwdOp")
    assert spec is not None
    assert (spec.family, spec.in_tree, spec.package, spec.faults) == (
        "elementwise",
        False,
        None,
        (),
    )
    assert spec.origin == f"mapping of {__name__}"
    assert list(manifest.specs())[-1] == "AcmeFwdOp"


@pytest.mark.usefixtures("fresh_registry")
def test_register_a_file(row_scale: Spec, tmp_path: Path) -> None:
    path = written(tmp_path / "any name.yml", {"AcmeFwdOp": row_scale})
    manifest.register(path)
    spec = lookup("AcmeFwdOp")
    assert spec is not None
    assert spec.origin == str(path)
    assert spec.package == __name__.partition(".")[0]
    assert str(spec.locations["signature.inputs"]).startswith(f"{path}:")


@pytest.mark.usefixtures("fresh_registry")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "register(mapping): holds no spec and no type"),
        ({"adts": {}}, "register(mapping): holds no spec and no type"),
        ({"adts": None}, "register(mapping): holds no spec and no type"),
        ({1: {}}, "register(mapping): 1: a name is text, got 1"),
        ({"not-a-name": {"signature": {}}}, "'not-a-name' is not an identifier"),
        ({"AFwdOp": []}, "AFwdOp: the spec is not a mapping"),
        ({"AFwdOp": {}}, "AFwdOp: the spec has no 'signature' mapping"),
        ({"AFwdOp": {"signature": []}}, "AFwdOp: the spec has no 'signature' mapping"),
        ({"adts": 3}, "register(mapping): adts: expected a mapping, got 3"),
        ({"adts": {2: {}}}, "register(mapping): adts.2: a name is text, got 2"),
        (
            {"RMSNormFwdOp": {"signature": {}}},
            "register(mapping): RMSNormFwdOp is already defined in norm/spec.yaml",
        ),
        ("/no/such/file.yaml", "register(/no/such/file.yaml): cannot be read: No such file"),
        ("/tmp", "register(/tmp): cannot be read: Is a directory"),
        ("/dev/zero", "register(/dev/zero): cannot be read: not a regular file"),
        (
            f"{__file__}/spec.yaml",
            f"cannot be read: {__file__} is no folder; a package that is imported from an archive "
            "has to be installed as files",
        ),
        ("a\0b", "cannot be read: embedded null"),
        ("no\udcff.yaml", r"register(no\udcff.yaml): cannot be read"),
        ({"A\ud800FwdOp": {}}, r"register(mapping): half a character in 'A\ud800FwdOp'"),
        (3, "register(3): expected a path or a mapping"),
        (b"spec.yaml", "register(b'spec.yaml'): expected a path or a mapping"),
    ],
)
def test_register_refuses(source: Any, message: str) -> None:
    before = list(manifest.specs())
    with pytest.raises(ManifestError) as caught:
        manifest.register(source)
    assert message in str(caught.value)
    assert list(manifest.specs()) == before


@pytest.mark.usefixtures("fresh_registry")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line "),
        ("- 1", "expected a mapping of op names to specs, got a list"),
        ("", "expected a mapping of op names to specs, got null"),
        (
            "AFwdOp: {signature: {inputs: {}, inputs: {}}}",
            "AFwdOp.signature.inputs: key 'inputs' is repeated: lines 1 and 1",
        ),
        ("AFwdOp: {signature: {}}\nAFwdOp: {signature: {}}", "is repeated: lines 1 and 2"),
    ],
)
def test_register_refuses_a_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        manifest.register(path)
    assert str(caught.value).startswith(f"register({path}): ")
    assert message in str(caught.value)


@pytest.mark.usefixtures("fresh_registry")
def test_register_refuses_a_mapping_that_contains_itself(row_scale: Spec) -> None:
    row_scale["signature"]["params"] = row_scale
    with pytest.raises(ManifestError, match=r"register\(mapping\): nested more than 64 deep"):
        manifest.register({"AcmeFwdOp": row_scale})


@pytest.mark.usefixtures("fresh_registry")
def test_a_file_of_the_tree_that_cannot_be_read_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.match("norm/spec.yaml"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert lookup("RMSNormFwdOp") is None
    assert lookup("GemmFwdOp") is not None
    [found] = registry.load_problems()
    assert found == ("norm/spec.yaml", "", "error", "[V1] cannot be read: Permission denied")


@pytest.mark.usefixtures("fresh_registry")
def test_registration_is_all_or_nothing(row_scale: Spec) -> None:
    with pytest.raises(ManifestError):
        manifest.register({"AcmeFwdOp": row_scale, "BadFwdOp": []})
    assert lookup("AcmeFwdOp") is None


@pytest.mark.usefixtures("fresh_registry")
def test_a_spec_with_faults_registers_and_tells_them(row_scale: Spec) -> None:
    row_scale["signature"]["inputs"]["x"]["shape"] = "[R, 2 * C"
    manifest.register({"AcmeFwdOp": row_scale})
    spec = lookup("AcmeFwdOp")
    assert spec is not None
    assert [(found.field, found.level) for found in spec.faults] == [
        ("signature.inputs.x.shape", "error")
    ]
    assert spec.unknown == {"signature.inputs.x.shape"}


ADT = {"sum": {"dense": {"python": "json.JSONDecoder", "fields": {"cols": "Dim"}}}}


@pytest.mark.usefixtures("fresh_registry")
def test_a_source_brings_its_types(row_scale: Spec) -> None:
    row_scale["signature"]["params"]["store"] = {"type": "AcmeStore | None", "default": None}
    row_scale["signature"]["params"] = dict(reversed(row_scale["signature"]["params"].items()))
    manifest.register({"AcmeFwdOp": row_scale})
    spec = lookup("AcmeFwdOp")
    assert spec is not None
    assert "unknown type AcmeStore" in spec.faults[0].message
    manifest.register({"adts": {"AcmeStore": ADT}})
    spec = lookup("AcmeFwdOp")
    assert spec is not None
    assert spec.faults == ()
    assert list(spec.adts["AcmeStore"].constructors) == ["dense"]
    with pytest.raises(ManifestError, match="AcmeStore is already defined in mapping of"):
        manifest.register({"adts": {"AcmeStore": ADT}})


@pytest.mark.usefixtures("fresh_registry")
def test_what_a_file_may_name(row_scale: Spec, tmp_path: Path) -> None:
    row_scale["roofline"] = {"func": "otherpack.rooflines.count"}
    manifest.register({"FreeFwdOp": row_scale})
    assert lookup("FreeFwdOp").faults == ()  # type: ignore[union-attr]
    manifest.register(written(tmp_path / "a.yaml", {"BoundFwdOp": row_scale}))
    faults = lookup("BoundFwdOp").faults  # type: ignore[union-attr]
    assert [found.field for found in faults] == ["roofline.func"]
    assert "[V23] 'otherpack.rooflines.count' lies outside package" in faults[0].message
    manifest.allow("otherpack")
    assert lookup("BoundFwdOp").faults == ()  # type: ignore[union-attr]
    with pytest.raises(ManifestError, match=r"allow\('not a name'\): not the name of a package"):
        manifest.allow("not a name")


# Entry points


@pytest.fixture
def pack(fresh_registry: None, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that entry points may name."""
    module = types.ModuleType("acme_pack.specs")
    module.__package__ = "acme_pack"
    monkeypatch.setitem(sys.modules, "acme_pack", types.ModuleType("acme_pack"))
    monkeypatch.setitem(sys.modules, "acme_pack.specs", module)
    return module


def install(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = [EntryPoint(name, value, registry.GROUP) for name, value in values.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


def test_entry_points_are_paths_mappings_or_functions(
    pack: types.ModuleType, monkeypatch: pytest.MonkeyPatch, row_scale: Spec, tmp_path: Path
) -> None:
    pack.AS_PATH = str(written(tmp_path / "spec.yaml", {"PathFwdOp": row_scale}))  # type: ignore[attr-defined]
    pack.AS_MAPPING = {"MappingFwdOp": row_scale}  # type: ignore[attr-defined]
    pack.as_function = lambda: {"FunctionFwdOp": row_scale}  # type: ignore[attr-defined]
    install(
        monkeypatch,
        c="acme_pack.specs:as_function",
        a="acme_pack.specs:AS_PATH",
        b="acme_pack.specs:AS_MAPPING",
    )
    assert [n for n in manifest.specs() if n in {"PathFwdOp", "MappingFwdOp", "FunctionFwdOp"}] == [
        "PathFwdOp", "MappingFwdOp", "FunctionFwdOp",
    ]  # fmt: skip
    by_path, by_mapping = lookup("PathFwdOp"), lookup("MappingFwdOp")
    assert by_path is not None
    assert by_mapping is not None
    assert (by_path.package, by_path.home) == ("acme_pack", "acme_pack")
    assert (by_mapping.package, by_mapping.home) == (None, "acme_pack")


def test_a_failing_entry_point_does_not_stop_the_others(
    pack: types.ModuleType, monkeypatch: pytest.MonkeyPatch, row_scale: Spec
) -> None:
    pack.GOOD = {"GoodFwdOp": row_scale}  # type: ignore[attr-defined]
    pack.TAKEN = {"RMSNormFwdOp": row_scale}  # type: ignore[attr-defined]
    pack.NUMBER = 3  # type: ignore[attr-defined]
    install(
        monkeypatch,
        absent="acme_pack.specs:ABSENT",
        nothing="acme_no_such_pack:SPECS",
        number="acme_pack.specs:NUMBER",
        taken="acme_pack.specs:TAKEN",
        z_good="acme_pack.specs:GOOD",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert lookup("GoodFwdOp") is not None
        assert lookup("RMSNormFwdOp") is not None
    found = {problem.op: problem.message for problem in registry.load_problems()}
    assert len(caught) == len(found) == 4
    assert all(issubclass(each.category, RuntimeWarning) for each in caught)
    assert found["entry point taken (acme_pack.specs:TAKEN)"] == (
        "[V1] cannot be loaded: mapping of acme_pack.specs: RMSNormFwdOp is already defined in "
        "norm/spec.yaml"
    )
    assert (
        "resolves to int, expected a path" in found["entry point number (acme_pack.specs:NUMBER)"]
    )
    assert "ModuleNotFoundError" in found["entry point nothing (acme_no_such_pack:SPECS)"]
    assert "AttributeError" in found["entry point absent (acme_pack.specs:ABSENT)"]


def test_a_pack_may_look_specs_up_while_it_is_loaded(
    pack: types.ModuleType, monkeypatch: pytest.MonkeyPatch, row_scale: Spec
) -> None:
    seen: list[object] = []

    def specs() -> Spec:
        seen.extend([lookup("RMSNormFwdOp"), lookup("AcmeFwdOp")])
        return {"AcmeFwdOp": row_scale}

    pack.specs = specs  # type: ignore[attr-defined]
    install(monkeypatch, acme="acme_pack.specs:specs")
    assert lookup("AcmeFwdOp") is not None
    assert [spec is None for spec in seen] == [False, True]


def test_an_entry_point_of_a_half_imported_pack_waits(
    pack: types.ModuleType, monkeypatch: pytest.MonkeyPatch, row_scale: Spec
) -> None:
    pack.__spec__ = types.SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    install(monkeypatch, acme="acme_pack.specs:SPECS")
    assert lookup("AcmeFwdOp") is None
    pack.__spec__ = None
    pack.SPECS = {"AcmeFwdOp": row_scale}  # type: ignore[attr-defined]
    assert lookup("AcmeFwdOp") is not None


def test_threads_see_one_manifest(
    pack: types.ModuleType, monkeypatch: pytest.MonkeyPatch, row_scale: Spec
) -> None:
    pack.SPECS = lambda: {"AcmeFwdOp": row_scale}  # type: ignore[attr-defined]
    install(monkeypatch, acme="acme_pack.specs:SPECS")
    start = threading.Barrier(8)
    found: list[object] = []

    def work(number: int) -> None:
        start.wait()
        found.append(lookup("AcmeFwdOp"))
        manifest.register({f"Thread{number}FwdOp": row_scale})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(spec == lookup("AcmeFwdOp") for spec in found)
    assert {f"Thread{number}FwdOp" for number in range(8)} <= set(manifest.specs())
    assert registry.load_problems() == ()


@pytest.mark.usefixtures("fresh_registry")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("not a name", "is not an identifier"),
        ("Prob\N{CYRILLIC SMALL LETTER IE}FwdOp", "is not ASCII"),
        ("None", "is a Python keyword"),
    ],
)
def test_a_key_that_no_class_can_have_is_an_error(row_scale: Spec, name: str, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        manifest.register({name: row_scale})
    found = [f for f in manifest.validate(source={name: row_scale}).findings if "[V2]" in f.message]
    assert [(each.level, each.message) for each in found] == [("error", f"[V2] {name!r} {reason}")]


@pytest.mark.usefixtures("fresh_registry")
def test_a_function_that_may_not_be_named_is_not_resolved(row_scale: Spec, tmp_path: Path) -> None:
    row_scale["roofline"] = {"func": "antigravity.count"}
    report = manifest.validate(source=written(tmp_path / "a.yaml", {"AcmeFwdOp": row_scale}))
    assert any(
        "[V23] 'antigravity.count' lies outside package" in f.message for f in report.findings
    )
    assert "antigravity" not in sys.modules
