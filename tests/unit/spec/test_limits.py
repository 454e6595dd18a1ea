"""Bounds on what one spec may declare, and objects that are not where their names say."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from tileops import manifest
from tileops._core.signature.branches import MOST_BRANCHES
from tileops._core.spec.adts import MOST_COMBINATIONS
from tileops._core.spec.objects import resolve
from tileops._core.spec.read_signature import MOST_DECLARATIONS
from tileops._core.validate.report import check_number

pytestmark = pytest.mark.usefixtures("tree_only")
Spec = dict[str, Any]


def findings(spec: Spec, **adts: Any) -> list[tuple[int, str, str]]:
    """Number, level and text of what the validator says."""
    spec["status"] = "spec-only"
    source = {"AcmeFwdOp": spec} | ({"adts": adts} if adts else {})
    return [
        (check_number(each), each.level, each.message)
        for each in manifest.validate(source=source).findings
    ]


def test_declarations_are_bounded(row_scale: Spec) -> None:
    own = sum(len(row_scale["signature"][key]) for key in row_scale["signature"])
    row_scale["signature"]["let"] = {f"a{n}": "R" for n in range(MOST_DECLARATIONS - own)}
    assert not [each for each in findings(row_scale) if each[1] == "error"]
    row_scale["signature"]["let"]["one_more"] = "R"
    (found,) = [each for each in findings(row_scale) if each[0] == 8]
    assert found == (8, "error", "[V8] 501 declarations, more than 500")


@pytest.mark.parametrize("inputs", [14, 60])
def test_branches_are_bounded(row_scale: Spec, inputs: int) -> None:
    """One optional input is there already."""
    assert MOST_BRANCHES == 2**14
    tensor = {"dtype": "T", "shape": "[R]", "optional": True}
    names = [f"o{n}" for n in range(inputs)]
    row_scale["signature"]["inputs"] |= dict.fromkeys(names, tensor)
    row_scale["signature"]["shape_rules"] += [f"present({name}) or R > 0" for name in names]
    (found,) = [each for each in findings(row_scale) if each[0] == 42]
    number = 2 ** (inputs + 1)
    assert found == (42, "error", f"[V42] {number} branches, more than the 16384 that are checked")


def test_inputs_on_which_nothing_depends_make_no_branches(row_scale: Spec) -> None:
    tensor = {"dtype": "T", "shape": "[R]", "optional": True}
    row_scale["signature"]["inputs"] |= {f"o{n}": tensor for n in range(40)}
    (found,) = [each for each in findings(row_scale) if each[0] == 42]
    message = f"[V42] {2**41} branches, the limit is 256; each of them is checked"
    assert found == (42, "advisory", message)
    row_scale["signature"]["inputs"]["o7"] = {**tensor, "shape": "[R, Z]"}
    assert (14, "error", "[V14] Z is not declared") in findings(row_scale)


def test_finite_fields_are_bounded(row_scale: Spec) -> None:
    fields = {f"f{n}": "Bool" for n in range(10)}
    sum_ = {"sum": {"a": {"python": "json.JSONDecoder", "fields": fields}}}
    assert MOST_COMBINATIONS == 2**10
    assert not [each for each in findings(row_scale, Store=sum_) if each[0] == 12]
    fields["f10"] = "'p' | 'q'"
    (found,) = [each for each in findings(row_scale, Store=sum_) if each[0] == 12]
    assert found[2] == "[V12] 2048 combinations of finite fields, more than 1024"


def test_an_object_is_used_only_where_it_is_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("acme_home")
    module.borrowed = types.SimpleNamespace(system=print)  # type: ignore[attr-defined]
    exec("class Own:\n    class Inner: pass\ndef count(call): return 1, 1", module.__dict__)
    monkeypatch.setitem(sys.modules, "acme_home", module)
    assert resolve("acme_home.Own") is module.Own  # type: ignore[attr-defined]
    assert resolve("acme_home.Own.Inner") is module.Own.Inner  # type: ignore[attr-defined]
    assert resolve("acme_home.count") is module.count  # type: ignore[attr-defined]
    for path in ("acme_home.borrowed.system", "os.system"):
        with pytest.raises(ImportError, match=f"{path} is defined in "):
            resolve(path)
    for path in ("acme_home.absent", "acme_nowhere.Own", "os.path.absent"):
        with pytest.raises(ImportError, match=f"{path} does not exist"):
            resolve(path)


@pytest.mark.parametrize("number", [10**100, 10**5000], ids=["101 digits", "5001 digits"])
def test_an_integer_beyond_all_measure_is_a_finding(number):
    spec = {
        "family": "norm",
        "signature": {
            "forall": {"R": "Dim"},
            "inputs": {"x": {"dtype": "float32", "shape": "[R]"}},
            "outputs": {"y": {"dtype": "float32", "shape": "[R]"}},
        },
        "workloads": [{"R": 4, "label": "tile"}],
        "roofline": {"flops": number},
    }
    (found,) = findings(spec)
    assert found[:2] == (13, "error")
    assert "a number of more than 100 digits" in found[2]
