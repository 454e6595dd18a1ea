from __future__ import annotations

import copy
import dataclasses
import enum
import pickle
from dataclasses import dataclass, field

import pytest
import torch

from tileops._core.dispatch import call_spec as call_specs
from tileops._core.dispatch.call_spec import unkeyable_field
from tileops._core.dispatch.facts import DeviceFacts, device_facts
from tileops.kernels import CallSpec


@dataclass(frozen=True)
class RowCall(CallSpec):
    n: int
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class AnyCall(CallSpec):
    value: object = None


@dataclass(frozen=True)
class Inner:
    items: object


class Mode(enum.Enum):
    FAST = 1


@pytest.fixture
def facts_read(monkeypatch):
    """Every device looks like one with facts; the list says which were asked."""
    asked = []

    def read(device):
        asked.append(device)
        return DeviceFacts(arch=90, sm_count=132, calibration="h200", smem_budget=1000)

    monkeypatch.setattr(call_specs, "device_facts", read)
    return asked


def test_fields_are_positional_and_device_keyword_only():
    call = RowCall(8, torch.float16, device="cpu")
    assert (call.n, call.dtype, call.device) == (8, torch.float16, torch.device("cpu"))
    with pytest.raises(TypeError):
        RowCall(8, torch.float16, torch.device("cpu"))


def test_call_spec_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RowCall(8).n = 9


def test_equality_covers_fields_device_and_stated_facts():
    assert RowCall(8, device="cpu") == RowCall(8, device=torch.device("cpu"))
    assert hash(RowCall(8, device="cpu")) == hash(RowCall(8, device="cpu"))
    assert RowCall(8) != RowCall(9)
    assert RowCall(8, device="cpu") != RowCall(8)
    assert RowCall(8, arch=90) != RowCall(8)
    assert RowCall(8, arch=90) == RowCall(8, arch=90)
    assert RowCall(8, arch=90) != RowCall(8, sm_count=90)


def test_device_is_kept_in_normal_form():
    assert RowCall(8, device="cpu:0").device == torch.device("cpu")
    assert RowCall(8, device="meta:0") == RowCall(8, device="meta")


def test_facts_are_read_when_asked_and_change_nothing(facts_read):
    call, other = RowCall(8, device="cpu"), RowCall(8, device="cpu")
    before = hash(call)
    assert not facts_read
    assert call.arch == 90
    assert facts_read == [torch.device("cpu")]
    assert call.arch == 90
    assert len(facts_read) == 1
    assert call == other
    assert hash(call) == before


def test_comparing_hashing_copying_and_printing_read_no_fact(facts_read):
    call = RowCall(8, device="cpu")
    assert call == call.on_device("meta").on_device("cpu")
    hash(call)
    repr(call)
    call.describe()
    assert not facts_read


def test_stated_facts_are_named_and_kept():
    call = RowCall(8, arch=90, calibration=None)
    assert call.stated_device_facts == ("arch", "calibration")
    moved = call.on_device("meta")
    assert moved.arch == 90
    assert moved.stated_device_facts == ("arch", "calibration")
    assert RowCall(8).stated_device_facts == ()


def test_facts_may_be_passed_as_unstated():
    defaults = {
        item.name: item.default
        for item in dataclasses.fields(RowCall)
        if item.name in call_specs.FACTS
    }
    passed = RowCall(8, **defaults)  # As compilers construct a dataclass.
    assert passed == RowCall(8) and hash(passed) == hash(RowCall(8))
    assert passed.stated_device_facts == ()
    partly = RowCall(8, **{**defaults, "arch": 90})
    assert partly == RowCall(8, arch=90) and partly.stated_device_facts == ("arch",)


def test_unstated_facts_without_a_device_are_neutral():
    call = RowCall(8, arch=90)
    assert (call.arch, call.sm_count, call.calibration, call.smem_budget) == (90, 0, None, 0)
    assert (RowCall(8).arch, RowCall(8).sm_count) == (-1, 0)


def test_on_device_leaves_read_facts_behind(facts_read):
    call = RowCall(8, device="cpu")
    assert call.sm_count == 132
    moved = call.on_device("meta")
    assert moved.device == torch.device("meta")
    assert moved.sm_count == 132
    assert facts_read == [torch.device("cpu"), torch.device("meta")]
    assert call.on_device(None).device is None


def test_replace_states_every_fact(facts_read):
    copy = dataclasses.replace(RowCall(8, device="cpu"), n=9)
    assert copy.n == 9
    assert copy.stated_device_facts == call_specs.FACTS


def test_unknown_attribute_is_named():
    with pytest.raises(AttributeError, match="RowCall has no attribute 'archs'"):
        _ = RowCall(8).archs


def test_description_holds_what_was_stated():
    text = RowCall(8, torch.float16, device="cpu", arch=90).describe()
    assert text == "device=device(type='cpu'), n=8, dtype=torch.float16, arch=90"
    assert RowCall(8).describe() == "n=8"


def test_facts_of_other_devices_are_neutral():
    for device in (None, torch.device("cpu"), torch.device("meta")):
        assert device_facts(device) == DeviceFacts(-1, 0, None, 0)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        1.5,
        "a",
        torch.float16,
        torch.device("cpu"),
        Mode.FAST,
        (1, (2, "b")),
        frozenset({1, None}),
        Inner((1, 2)),
        torch.Size([1, 2]),
    ],
)
def test_admitted_field_values(value):
    assert unkeyable_field(AnyCall(value)) is None
    hash(AnyCall(value))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (torch.zeros(1), torch.Tensor),
        ([1], list),
        ({}, dict),
        ((1, [2]), list),
        (Inner([3]), list),
        (object(), object),
    ],
)
def test_other_field_values_are_named_with_their_type(value, kind):
    assert unkeyable_field(AnyCall(value)) == ("value", kind)


@dataclass(frozen=True)
class MixedCall(CallSpec):
    a: int
    b: str = "b"
    label: str = field(default="", compare=False)
    c: float = field(default=1.0, kw_only=True)


@dataclass(frozen=True)
class DerivedCall(MixedCall):
    d: int = 0


@dataclass(frozen=True)
class CheckedCall(CallSpec):
    n: int

    def __post_init__(self):
        super().__post_init__()
        if self.n < 0:
            raise ValueError("n is negative")


@dataclass(frozen=True)
class ListedCall(CallSpec):
    items: tuple = field(default_factory=tuple)


class BareCall(MixedCall):
    pass


@pytest.mark.parametrize(
    ("cls", "one", "other"),
    [
        (MixedCall, {"a": 1}, {"a": 1, "c": 2.0}),
        (DerivedCall, {"a": 1, "d": 3}, {"a": 1, "d": 4}),
        (CheckedCall, {"n": 1}, {"n": 2}),
        (ListedCall, {}, {"items": (1,)}),
        (BareCall, {"a": 1}, {"a": 2}),
    ],
)
def test_values_made_early_and_late_are_alike(cls, one, other):
    values = [cls(**one, device="cpu") for _ in range(3)]
    assert len(set(values)) == 1
    assert values[0] == values[2]
    assert values[0] != cls(**other, device="cpu")
    assert values[0] != cls(**one)
    assert values[0] != cls(**one, device="cpu", arch=90)
    assert cls(**one, arch=90) == cls(**one, arch=90)
    for way in (copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))):
        assert way(values[0]) == values[0]
        assert hash(way(values[2])) == hash(values[2])
    assert values[2].on_device(None) == cls(**one)
    assert cls(**one, arch=90).on_device("cpu") == cls(**one, arch=90, device="cpu")


def test_fields_left_out_of_comparison_do_not_count():
    MixedCall(0)
    assert MixedCall(1, label="x") == MixedCall(1, label="y")
    assert MixedCall(1).label == ""


def test_values_of_different_classes_differ():
    MixedCall(0), DerivedCall(0)
    assert MixedCall(1) != DerivedCall(1)
    assert MixedCall(1) != 1


def test_constructor_says_what_is_missing():
    MixedCall(0)
    with pytest.raises(TypeError, match=r"MixedCall.__init__\(\) missing 1 required .*'a'"):
        MixedCall()
    with pytest.raises(TypeError, match="unexpected keyword argument 'e'"):
        MixedCall(1, e=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        MixedCall(1).a = 2


def test_checks_of_a_class_run_each_time():
    CheckedCall(1)
    with pytest.raises(ValueError, match="n is negative"):
        CheckedCall(-1)


def test_slots_are_refused():
    with pytest.raises(TypeError, match="SlotCall: the fields of a call spec are no slots"):

        @dataclass(frozen=True, slots=True)
        class SlotCall(CallSpec):
            n: int


@dataclass(frozen=True)
class PlainCall(CallSpec):
    n: int
    note: str = field(default="", compare=False)


@dataclass(frozen=True)
class HalvedCall(CallSpec):
    n: int

    def __post_init__(self):
        super().__post_init__()
        self.__dict__["n"] //= 2


@pytest.mark.parametrize("cls", [PlainCall, HalvedCall])
def test_table_keys_are_equal_where_the_values_are(cls):
    made = [
        *(cls(n, device=device) for n in (4, 4, 5, 6) for device in (None, "cpu")),
        *(cls(4, arch=arch) for arch in (80, 90)),
        *(cls(n, device="meta").on_device("cpu") for n in (4, 6)),
        cls(4, arch=80).on_device("cpu"),
    ]
    for one in made:
        for other in made:
            assert (one == other) is (one.table_key == other.table_key)
            if one == other:
                assert hash(one) == hash(other)


def test_table_keys_of_two_classes_differ():
    assert PlainCall(4).table_key == PlainCall(4, note="a").table_key
    assert PlainCall(2).table_key != HalvedCall(4).table_key
