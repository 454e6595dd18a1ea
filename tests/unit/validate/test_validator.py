"""The validator as a function: what it covers, in which order, and what it leaves alone."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tileops import manifest
from tileops._core.spec import registry
from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import Finding
from tileops._core.spec.source import Source
from tileops._core.validate.report import Report, check_number
from tileops.errors import ManifestError

Spec = dict[str, Any]

SPEC: Spec = {
    "family": "norm",
    "status": "spec-only",
    "signature": {
        "forall": {"N": "Dim"},
        "params": {"flip": {"type": "bool", "default": False}},
        "inputs": {"x": {"dtype": "float32", "shape": "[N]"}},
        "outputs": {"y": {"dtype": "float32", "shape": "[N]"}},
    },
    "workloads": [{"N": 4, "label": "four"}],
    "roofline": {"flops": "N"},
}


@pytest.fixture(autouse=True)
def own_registry(fresh_registry: None) -> None:
    """Each test has a manifest of its own."""


def varied(**changes: Any) -> Spec:
    """The spec with some parts of its signature replaced; None removes one."""
    spec = copy.deepcopy(SPEC)
    for key, value in changes.items():
        target = (
            spec["signature"]
            if key in {*spec["signature"], "let", "shape_rules", "types"}
            else spec
        )
        target[key] = value
    return spec


def rendered(report: Report) -> list[tuple[str, str, int]]:
    return [(found.op, found.field, check_number(found)) for found in report.findings]


def test_a_sound_source_has_no_findings_and_is_not_registered() -> None:
    report = manifest.validate(source={"AcmeFwdOp": SPEC})
    assert (report.findings, report.ok) == ([], True)
    assert "AcmeFwdOp" not in manifest.specs()


def test_a_finding_is_a_named_tuple_of_four() -> None:
    report = manifest.validate(source={"AcmeFwdOp": varied(status="done")})
    assert report.findings == [
        ("AcmeFwdOp", "status", "error", "[V5] expected implemented or spec-only, got 'done'")
    ]
    [found] = report.findings
    assert (found.op, found.field, found.level) == ("AcmeFwdOp", "status", "error")
    assert isinstance(found, Finding)
    assert not report.ok


def test_advisories_alone_are_ok() -> None:
    report = manifest.validate(source={"Acme": SPEC})
    assert [found.level for found in report.findings] == ["advisory"]
    assert report.ok


def test_names_choose_specs() -> None:
    source = {"AFwdOp": varied(status="x"), "BFwdOp": varied(status="y")}
    assert rendered(manifest.validate("BFwdOp", source)) == [("BFwdOp", "status", 5)]
    assert rendered(manifest.validate(["BFwdOp", "AFwdOp"], source)) == [
        ("AFwdOp", "status", 5), ("BFwdOp", "status", 5),
    ]  # fmt: skip
    assert manifest.validate([], source).findings == []


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ManifestError, match="validate: unknown op NoSuchFwdOp"):
        manifest.validate("NoSuchFwdOp")
    with pytest.raises(ManifestError, match=r"unknown op A\\ud800"):
        manifest.validate("A\ud800")
    with pytest.raises(ManifestError, match="unknown op RMSNormFwdOp; known: [A-Z]"):
        manifest.validate("RMSNormFwdOp", source={"AcmeFwdOp": SPEC})


def test_registered_specs_are_covered_and_may_be_named() -> None:
    manifest.register({"AcmeFwdOp": varied(status="done")})
    assert rendered(manifest.validate("AcmeFwdOp")) == [("AcmeFwdOp", "status", 5)]


def test_a_source_is_checked_on_top_of_what_is_loaded() -> None:
    stages = [{"name": "norm", "op": "RMSNormFwdOp"}, {"name": "own", "op": "OtherFwdOp"}]
    composite = varied(composition={"kind": "composite", "stages": stages})
    source = {"AcmeFwdOp": composite, "OtherFwdOp": SPEC}
    assert manifest.validate(source=source).ok


def test_a_known_name_is_an_error_and_the_new_spec_is_still_judged() -> None:
    manifest.register({"AcmeFwdOp": SPEC})
    report = manifest.validate(source={"AcmeFwdOp": varied(status="done")})
    assert rendered(report) == [
        (f"mapping of {__name__}", "AcmeFwdOp", 1),
        ("AcmeFwdOp", "status", 5),
    ]
    assert "is already defined in mapping of" in report.findings[0].message
    assert manifest.validate("AcmeFwdOp").ok


def test_the_file_of_a_loaded_spec_can_be_checked_itself(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(json.dumps({"AcmeFwdOp": SPEC}), encoding="utf-8")
    manifest.register(file)
    monkeypatch.chdir(tmp_path)
    assert manifest.validate(source="spec.yaml").ok
    (tmp_path / "copy.yaml").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    assert not manifest.validate(source="copy.yaml").ok


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/no/such/file.yaml", "[V1] cannot be read: No such file or directory"),
        ({}, "[V1] holds no spec and no type"),
        ({"AcmeFwdOp": 3}, "[V3] expected a mapping, got 3"),
        ({3: SPEC}, "[V1] a name is text, got 3"),
    ],
)
def test_an_unusable_source_is_a_finding(source: Any, message: str) -> None:
    report = manifest.validate(source=source)
    assert [found.message for found in report.findings] == [message]


def test_messages_quote_part_of_a_long_text() -> None:
    text = "R + " * 2000 + "** R"
    spec = varied(status="x" * 5000)
    spec["signature"]["shape_rules"] = [text]
    [status, rule] = [
        found.message for found in manifest.validate(source={"AFwdOp": spec}).findings
    ]
    assert status.startswith("[V5] expected implemented or spec-only, got 'xxx")
    assert "at character 8001 of '…" in rule
    assert rule.endswith("+ ** R'")
    assert max(len(status), len(rule)) < 400
    spec["signature"] |= {"shape_rules": [], "dtype_combos": [{"T" * 5000: "float16"}]}
    found = manifest.validate(source={"AFwdOp": spec}).findings
    assert max(len(each.message) for each in found) <= len("[V21] ") + 1000
    assert any(each.message.endswith("…") for each in found)


def test_load_problems_belong_to_the_whole_manifest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Manifest().adding([mapping_content({"AcmeFwdOp": SPEC}, Source("test", None))])
    failed = registry.problem("entry point acme (acme:SPECS)", "", "cannot be loaded: no")
    monkeypatch.setattr(registry, "_manifest", known.reporting(failed))
    assert failed.finding not in manifest.validate("AcmeFwdOp").findings
    everything = manifest.validate()
    assert failed.finding in everything.findings
    assert not everything.ok


def test_findings_come_by_op_then_place_then_check(tmp_path: Path) -> None:
    path = tmp_path / "specs.yaml"
    path.write_text(
        """
BFwdOp:
  workloads: [{N: 4, label: four, label2: x}]
  roofline: {flops: N, time: 1}
  signature:
    outputs: {y: {shape: "[M, Q]", dtype: float17}}
    forall: {N: Dim, K: Dimension}
    inputs: {x: {dtype: float32, shape: "[N"}}
  status: done
AFwdOp:
  {family: Norm, status: spec-only, roofline: {flops: 1}, workloads: [], signature: {outputs: 3}}
""",
        encoding="utf-8",
    )
    report = manifest.validate(source=path)
    assert rendered(report) == [
        ("BFwdOp", "family", 3),
        ("BFwdOp", "workloads[0].label2", 25),
        ("BFwdOp", "roofline.time", 23),
        ("BFwdOp", "signature.outputs.y.shape", 14),
        ("BFwdOp", "signature.outputs.y.shape", 14),
        ("BFwdOp", "signature.outputs.y.dtype", 14),
        ("BFwdOp", "signature.forall.K", 9),
        ("BFwdOp", "signature.inputs.x.shape", 13),
        ("BFwdOp", "status", 5),
        ("AFwdOp", "family", 4),
        ("AFwdOp", "workloads", 25),
        ("AFwdOp", "signature.outputs", 7),
    ]
    lines = [report.places[found].line for found in report.findings]
    assert lines == sorted(lines)


def test_mappings_are_ordered_as_they_were_written() -> None:
    spec = {
        "roofline": {"flops": "N +"},
        "status": "x",
        **{k: SPEC[k] for k in SPEC if k not in {"roofline", "status"}},
    }
    assert rendered(manifest.validate(source={"AFwdOp": spec})) == [
        ("AFwdOp", "roofline.flops", 13), ("AFwdOp", "status", 5),
    ]  # fmt: skip


def test_equal_findings_are_told_once_and_branches_by_a_witness() -> None:
    outputs = {"y": {"dtype": "float32", "shape": "[N // (1 if flip else 0)]"}}
    report = manifest.validate(source={"AFwdOp": varied(outputs=outputs)})
    assert rendered(report) == [("AFwdOp", "signature.outputs.y.shape", 29)]
    assert report.findings[0].message.endswith("when flip=false")


def test_a_fault_hides_only_what_depends_on_it() -> None:
    spec = varied(
        shape_rules=["N >", "N > 5", "N + 1"],
        let={"m": "2 * Z"},
        forall={"N": "Dim", "Q": "Dim"},
        roofline={"flops": "N / 2", "bytes": "0.5 * N"},
        workloads=[{"N": 4, "label": "four"}, {"label": "none"}, {"N": 6, "label": "a b"}],
    )
    found = {
        (field, check) for _, field, check in rendered(manifest.validate(source={"AFwdOp": spec}))
    }
    assert {
        ("signature.shape_rules[0]", 13), ("signature.shape_rules[2]", 15), ("signature.let.m", 14),
        ("workloads[0]", 37), ("workloads[1]", 35), ("workloads[2].label", 25),
        ("roofline.flops", 13), ("roofline.bytes", 40),
    } <= found  # fmt: skip


@pytest.mark.parametrize(
    "section",
    ["forall", "params", "inputs", "outputs", "types", "let", "shape_rules", "dtype_combos"],
)
def test_an_unreadable_section_raises_no_undeclared_names(section: str) -> None:
    spec = copy.deepcopy(SPEC)
    spec["signature"]["inputs"]["x"]["shape"] = "[N + k, m]"
    spec["signature"]["params"]["k"] = {"type": "int", "default": 1}
    spec["signature"]["let"] = {"m": "k + 1"}
    spec["signature"][section] = 3
    report = manifest.validate(source={"AFwdOp": spec})
    assert rendered(report)[0] == ("AFwdOp", f"signature.{section}", 7)
    assert 14 not in {check_number(found) for found in report.findings}


def test_the_branch_limit_is_the_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"AFwdOp": varied(outputs={"y": {"dtype": "float32", "shape": "[N if flip else 1]"}})}
    assert manifest.branch_limit == 256
    assert manifest.validate(source=source).findings == []
    monkeypatch.setattr(manifest, "branch_limit", 1)
    report = manifest.validate(source=source)
    assert [tuple(found) for found in report.findings] == [
        (
            "AFwdOp",
            "signature",
            "advisory",
            "[V42] 2 branches, the limit is 1; each of them is checked",
        )
    ]
    assert report.ok


def test_a_file_may_name_what_lies_in_the_package_that_asks(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    ours = f"{__name__.partition('.')[0]}.costs.count"
    spec = varied(roofline={"func": ours})
    path.write_text(yaml.safe_dump({"AFwdOp": spec}), encoding="utf-8")
    assert manifest.validate(source=path).findings == []
    path.write_text(
        yaml.safe_dump({"AFwdOp": varied(roofline={"func": "os.getcwd"})}), encoding="utf-8"
    )
    assert rendered(manifest.validate(source=path)) == [("AFwdOp", "roofline.func", 23)]
    manifest.allow("os")
    assert manifest.validate(source=path).findings == []


def test_malformed_types_are_reported_with_their_file_and_once() -> None:
    adts = {"Bad": {"sum": {}}, "Unused": {"sum": {"a": {}}}}
    spec = varied(params={"b": {"type": "Bad"}})
    report = manifest.validate(source={"adts": adts, "AFwdOp": spec, "BFwdOp": spec})
    label = f"mapping of {__name__}"
    assert rendered(report) == [(label, "adts.Bad", 12), (label, "adts.Unused.a.python", 12)]
    only = manifest.validate("AFwdOp", source={"adts": adts, "AFwdOp": spec, "BFwdOp": spec})
    assert (label, "adts.Bad", 12) in rendered(only)


def test_malformed_types_of_another_source_are_not_reported_with_this_one() -> None:
    manifest.register({"adts": {"Bad": {"sum": {}}}, "AcmeFwdOp": SPEC})
    assert manifest.validate(source={"OtherFwdOp": SPEC}).findings == []
    adts = {"Worse": {"sum": {}}}
    found = rendered(manifest.validate(source={"adts": adts, "OtherFwdOp": SPEC}))
    assert found == [(f"mapping of {__name__}", "adts.Worse", 12)]


CASES = [{"when": True, "is": "[N]"}, {"when": False, "is": "[N, 1]"}]

UNREAD: dict[str, tuple[str, Spec, list[tuple[str, int]]]] = {
    "a parameter of an unknown type": (
        "flip", {"params": {"flip": {"type": "wat["}}}, [("signature.params.flip.type", 10)],
    ),
    "an index of an unknown kind": (
        "k", {"forall": {"N": "Dim", "k": "Wat"}}, [("signature.forall.k", 9)],
    ),
    "a let that does not parse": (
        "k or flip", {"let": {"k": "flip and ("}}, [("signature.let.k", 13)],
    ),
    "a let over one that does not parse": (
        "j", {"let": {"j": "k or flip", "k": "flip and ("}}, [("signature.let.k", 13)],
    ),
    "no lets that could be read": ("k", {"let": 5}, [("signature.let", 7)]),
    "a presence whose condition does not parse": (
        "present(w)",
        {"params": {"w": {"dtype": "float32", "shape": "[N]", "optional": "no("}}},
        [("signature.params.w.optional", 13)],
    ),
    "presence of a parameter of an unknown type": (
        "present(w)", {"params": {"w": {"type": "wat["}}}, [("signature.params.w.type", 10)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREAD)
def test_what_leads_to_a_field_that_cannot_be_read_is_not_judged(case: str) -> None:
    expr, changes, expected = UNREAD[case]
    families = {
        "F": {"params": {"f": "Bool", "N": "Dim"}, "match": "f", "cases": CASES},
    }
    spec = varied(
        outputs={"y": {"dtype": "float32", "shape": f"F[{expr}, N]"}}, types=families, **changes
    )
    assert set(rendered(manifest.validate(source={"AFwdOp": spec}))) == {
        ("AFwdOp", *found) for found in expected
    }


@pytest.mark.parametrize(
    "condition", ["s.kind == 'a'", "present(m) and m.value.kind == 'a'", "k", "present(m)"]
)
def test_conditions_on_malformed_types_are_not_judged(condition: str) -> None:
    spec = varied(
        params={"s": {"type": "Bad"}, "m": {"type": "Bad | None"}},
        let={"k": "s.kind == 'a'"},
        outputs={"y": {"dtype": "float32", "shape": "[N]", "nullable": condition}},
    )
    report = manifest.validate(source={"adts": {"Bad": {"sum": {}}}, "AFwdOp": spec})
    assert rendered(report) == [(f"mapping of {__name__}", "adts.Bad", 12)]
