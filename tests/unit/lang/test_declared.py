"""Classes whose methods are compiled late behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field

import pytest

from tileops._core.lang import declared


def make(dataclass):
    """The same two classes by either decorator."""

    @dataclass(frozen=True)
    class Base:
        a: int
        b: tuple[int, ...] = ()
        place: str = field(default="nowhere", compare=False, repr=False, kw_only=True)

        def __post_init__(self):
            if self.a < 0:
                raise ValueError("negative")

    @dataclass(frozen=True)
    class Derived(Base):
        made: dict[str, int] = field(default_factory=dict)
        fixed: int = field(default=7, init=False)

        def __eq__(self, other):
            return isinstance(other, Derived) and self.a == other.a

        def __hash__(self):
            return 1

    return Base, Derived


@dataclasses.dataclass(frozen=True)
class Kept:
    """Found by pickle under its name."""

    a: int


Late = declared.dataclass(frozen=True)(type("Late", (), {"__annotations__": {"a": int}}))
Late.__module__ = __name__


@pytest.fixture(params=[dataclasses.dataclass, declared.dataclass], ids=["standard", "late"])
def classes(request):
    return make(request.param)


def test_values_are_taken_and_shown(classes):
    base, derived = classes
    assert repr(base(1)).endswith("Base(a=1, b=())")
    item = derived(2, (3,), {"x": 1}, place="here")
    assert repr(item).endswith("Derived(a=2, b=(3,), made={'x': 1}, fixed=7)")
    assert item.place == "here"
    assert derived(1).made == {}
    assert derived(1).made is not derived(1).made


def test_comparing_and_hashing_go_by_the_compared_fields(classes):
    base, derived = classes
    assert base(1, place="x") == base(1, place="y")
    assert hash(base(1, (2,))) == hash(base(1, (2,), place="z")) == hash((1, (2,)))
    assert base(1) != base(2)
    assert base(1) != (1, ())
    assert derived(1, (2,)) == derived(1, (3,))
    assert hash(derived(5)) == 1


def test_fields_cannot_be_assigned_or_deleted(classes):
    base, derived = classes
    for item in (base(1), derived(1)):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
            item.a = 2
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'b'"):
            del item.b
        with pytest.raises(FrozenInstanceError):
            item.other = 1

    class Open(base):
        pass

    opened = Open(1)
    opened.other = 2
    del opened.other
    with pytest.raises(FrozenInstanceError):
        opened.a = 2
    with pytest.raises(FrozenInstanceError):
        del opened.a


def test_arguments_that_do_not_fit(classes):
    base, _ = classes
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        base()
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        base(1, c=2)
    with pytest.raises(TypeError, match="positional argument"):
        base(1, (), "here")
    with pytest.raises(ValueError, match="negative"):
        base(-1)


def test_helpers_of_dataclasses_work(classes):
    base, derived = classes
    item = dataclasses.replace(base(1, (2,), place="x"), a=3)
    assert (item.a, item.b, item.place) == (3, (2,), "x")
    assert dataclasses.asdict(base(1)) == {"a": 1, "b": (), "place": "nowhere"}
    assert base.__match_args__ == ("a", "b")
    assert copy.deepcopy(derived(1, (2,))).b == (2,)
    assert dataclasses.is_dataclass(base)


@pytest.mark.parametrize("cls", [Kept, Late])
def test_instances_can_be_pickled(cls):
    assert pickle.loads(pickle.dumps(cls(4))) == cls(4)


def test_each_method_is_compiled_when_first_called(monkeypatch):
    compiled = []

    def watched(cls, name):
        compiled.append(name)
        return compile_(cls, name)

    compile_ = declared._compiled
    monkeypatch.setattr(declared, "_compiled", watched)
    base, _ = make(declared.dataclass)
    assert compiled == []
    base(1)
    base(2)
    assert compiled == ["__init__"]
    assert base(1) == base(1)
    assert compiled == ["__init__", "__eq__"]
