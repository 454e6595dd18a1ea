"""Mappings from running code may hold any object, anywhere: findings, and never an error."""

from __future__ import annotations

import copy
import enum
import random
from typing import Any

import pytest

from tileops import manifest
from tileops._core.spec.yaml12 import plain, wrap
from tileops.errors import ManifestError

HUGE = 10**5000


class Mute:
    """Cannot be shown, and compares with nothing."""

    def __repr__(self) -> str:
        raise OSError("mute")

    def __eq__(self, other: object) -> bool:
        raise OSError("mute")

    def __hash__(self) -> int:
        return 7

    def __bool__(self) -> bool:
        raise OSError("mute")


class MuteText(str):
    """A text that cannot be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise OSError("mute")

    __str__ = __repr__


class MuteInt(int):
    """An integer that cannot be shown."""

    def __repr__(self) -> str:
        raise OSError("mute")


class Word(str, enum.Enum):
    """An enum of texts."""

    ONE = "one"


ODD = [
    HUGE, -HUGE, [HUGE], {HUGE: HUGE}, {"a": HUGE}, 10**400, Mute(), [Mute()], MuteText("one"),
    MuteInt(3), Word.ONE, b"one", 1j, object(), {1, 2}, range(3), float("nan"), "9" * 6000, int,
    None, True, [[]], {}, "\x00", (1, 2), "x" * 100_000,
]  # fmt: skip

SPEC: dict[str, Any] = {
    "family": "elementwise",
    "status": "spec-only",
    "ref_api": "torch.relu",
    "signature": {
        "forall": {"R": "Dim", "C": "Dim", "L": "Seq[Int]", "T": "DType[float16 | float32]"},
        "params": {
            "gain": {"type": "float", "default": 1.0, "kw_only": False},
            "n": {"type": "int", "default": 2},
            "m": {"type": "'a' | 'b'", "default": "a"},
            "s": {"type": "list[int] | None", "default": None},
            "o": {"type": "dict | None", "default": None},
        },
        "inputs": {
            "x": {"dtype": "T", "shape": "[R, C]", "contiguous": True},
            "w": {
                "dtype": "int32",
                "shape": "[R]",
                "values": "full((R,), 1)",
                "requires": ["in_range(0, 4)"],
            },
            "b": {
                "dtype": "float32",
                "shape": "Store[m, R]",
                "optional": True,
                "mutated": True,
                "write_only": True,
            },
        },
        "outputs": {
            "y": {"dtype": "T", "shape": "[R, C]", "buffer": "out", "nullable": "m == 'a'"}
        },
        "types": {
            "Store": {
                "params": {"m": "'a' | 'b'", "R": "Dim"},
                "match": ["m"],
                "cases": [{"when": ["a"], "is": "[R]"}, {"when": ["b"], "is": "[R, 1]"}],
            }
        },
        "let": {"q": "R + 1"},
        "shape_rules": ["R > 0"],
        "dtype_combos": [{"T": "float16"}, {"T": "float32"}],
    },
    "workloads": [
        {"R": 4, "C": 3, "some": ["b"], "n": 3, "dtype_cases": [{"T": "float16"}], "label": "one"}
    ],
    "roofline": {"flops": "R * C", "bytes": "R"},
    "composition": {"kind": "composite", "stages": [{"name": "a", "op": "AddFwdOp"}]},
    "backward": {"op": "AddFwdOp", "inputs": {"x": "grad(y)"}, "outputs": {"y": "x"}},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be put."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    inner = [
        place
        for key, item in items
        for place in (
            [*places(item, (*path, key))] if isinstance(item, dict | list) else [(*path, key)]
        )
    ]
    return [path, *inner] if path else inner


PLACES = places(SPEC)


def changed(path: tuple[Any, ...], odd: Any, *, key: bool) -> Any:
    """The spec with an odd value, or an odd key, at a place."""
    spec = copy.deepcopy(SPEC)
    owner = spec
    for part in path[:-1]:
        owner = owner[part]
    if key and isinstance(owner, dict):
        owner[odd] = owner.pop(path[-1])
    else:
        owner[path[-1]] = odd
    return spec


def judged(source: Any) -> None:
    """Validation reports; a source that is none ends in an error of ours."""
    try:
        report = manifest.validate(source=source)
    except ManifestError:
        return
    assert not report.ok or report.findings == []
    assert all(str(found) and str(report.places[found]) for found in report.findings)


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_values_and_keys_are_findings(number: int) -> None:
    rng, odd = random.Random(number), ODD[number]
    hashable = getattr(type(odd), "__hash__", None) is not None and not isinstance(odd, tuple)
    for path in rng.sample(PLACES, 9):
        judged({"OddFwdOp": changed(path, odd, key=False)})
        if hashable:
            judged({"OddFwdOp": changed(path, odd, key=True)})
    judged({"OddFwdOp": odd})
    judged({"OddFwdOp": SPEC, "adts": odd})
    judged({"OddFwdOp": SPEC, "adts": {"A": {"sum": {"c": {"python": odd, "fields": odd}}}}})
    if hashable:
        judged({odd: SPEC})


def test_messages_show_odd_values_by_their_kind() -> None:
    spec = changed(("workloads", 0, "label"), HUGE, key=False)
    spec["family"], spec["status"], spec["ref_api"] = HUGE, Mute(), b"torch"
    found = {
        each.field: each.message for each in manifest.validate(source={"OddFwdOp": spec}).findings
    }
    assert found["family"] == "[V4] expected a family, got an integer of 16610 bits"
    text = "got a value whose text fails with OSError (Mute)"
    assert found["status"] == f"[V5] expected implemented or spec-only, {text}"
    assert found["ref_api"].endswith("got b'torch' (bytes)")
    assert found["workloads[0].label"] == "[V25] expected a label, got an integer of 16610 bits"


def test_what_yaml_could_hold_is_wrapped_as_such() -> None:
    mute = Mute()
    data = {MuteText("a"): [MuteInt(3), Word.ONE, mute, HUGE], "b": {mute: True}}
    root = wrap(data)
    assert [type(node.value) for node in root.value["a"].value[:2]] == [int, str]
    bare = plain(root)
    assert bare["a"][:2] == [3, "one"]
    assert bare["a"][2] is mute
    assert bare["a"][3] is HUGE
    assert next(iter(bare["b"])) is mute
