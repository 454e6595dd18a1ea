"""docs/errors.md has a section for every finding code, and each sample triggers its code."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from tileops import manifest
from tileops._core.spec import registry
from tileops._core.spec.yaml12 import plain, read_yaml
from tileops._core.validate import code
from tileops._core.validate.report import Report, check_number
from tileops._core.validate.validator import validate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTION = re.compile(r"^### V(\d+)\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECTIONS = {int(number): body for number, body in SECTION.findall(TEXT)}
BASE = plain(read_yaml(BLOCK.search(TEXT)[2].encode()).root)  # type: ignore[index]
NAME = "RowScaleFwdOp"


def test_every_code_has_a_section() -> None:
    assert list(SECTIONS) == list(range(1, 55))


def merged(base: Any, change: Any) -> Any:
    """`base` with a sample in it: mappings merge, null removes, the rest replaces."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    result = {**base}
    for key, value in change.items():
        result[key] = merged(base.get(key), value)
        if value is None and key != "default":
            del result[key]
    return result


def source_of(sample: str) -> Any:
    """The spec that a sample shows, as a source."""
    return merged(BASE, {NAME: plain(read_yaml(sample.encode()).root)})


@pytest.mark.parametrize("check", SECTIONS)
def test_a_sample_triggers_its_code(
    check: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = dict(BLOCK.findall(SECTIONS[check]))
    if "python" in blocks:
        path = tmp_path / "sample.py"
        path.write_text(blocks["python"], encoding="utf-8")
        report = report_on_code(path, blocks.get("yaml"), monkeypatch)
    elif blocks["yaml"].startswith("# file"):
        path = tmp_path / "spec.yaml"
        path.write_text(blocks["yaml"], encoding="utf-8")
        report = validate(source=path, caller="spec_cases", branch_limit=256)
    else:
        report = manifest.validate(source=source_of(blocks["yaml"]))
    codes = {check_number(found) for found in report.findings}
    assert check in codes, report.findings
    if check < 45 and check not in {33, 41}:
        assert codes == {check}, report.findings


def report_on_code(program: Path, sample: str | None, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report after a section's Python ran, on its spec or on the one that it changes."""
    import tileops
    import tileops.norm
    from tileops.norm import reference

    monkeypatch.setattr(tileops.norm, "__all__", list(tileops.norm.__all__))
    monkeypatch.setattr(reference, "rms_norm", reference.rms_norm)
    monkeypatch.setattr(registry, "_manifest", registry.manifest())
    if sample is not None:
        manifest.register(source_of(sample))
    names: dict[str, Any] = {"tileops": tileops}
    exec(compile(program.read_text(encoding="utf-8"), program, "exec"), names)
    # Classes of one name that other tests defined may still be alive.
    own = {value.__name__: value for value in names.values() if isinstance(value, type)}
    monkeypatch.setattr(code, "_subclasses", lambda base, spec: own)
    return manifest.validate("RMSNormFwdOp" if sample is None else NAME)
