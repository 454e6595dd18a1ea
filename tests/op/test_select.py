from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileops._core.dispatch import toolchain
from tileops._core.dispatch.select import choose
from tileops._core.dispatch.table import install
from tileops.kernels import CallSpec, Kernel, KernelInterface


@dataclass(frozen=True)
class Call(CallSpec):
    n: int = 0


class Place(KernelInterface):
    request = Call

    def forward(self, x): ...


class Base(Kernel, Place):
    devices = frozenset({"cpu"})
    most = 1 << 30

    @classmethod
    def refusal(cls, call):
        if call.n > cls.most:
            return f"n must be at most {cls.most}, got {call.n}"
        return super().refusal(call)

    def forward(self, x): ...


def made(**declared):
    return type("Made", (Base,), declared)


def chosen(types, call):
    return choose(install("Op", {"place": Place}, types, {}), "place", call)


def test_general_gives_way_to_all_others():
    types = {"g": made(general=True), "small": made(most=4)}
    assert chosen(types, Call(4, device="cpu")).key == "small"
    assert chosen(types, Call(5, device="cpu")).key == "g"


def test_preference_is_transitive_through_an_unavailable_key():
    types = {
        "a": made(preferred_over={"b"}),
        "b": made(preferred_over={"c"}, devices={"cuda"}),
        "c": made(),
    }
    assert chosen(types, Call(device="cpu")).key == "a"


def test_preference_by_an_unavailable_key_does_not_count():
    types = {"a": made(preferred_over={"b", "c"}, devices={"cuda"}), "b": made(), "c": made(most=0)}
    assert chosen(types, Call(1, device="cpu")).key == "b"


def test_refusal_is_asked_of_available_keys_only():
    asked = []

    def refusal(cls, call):
        asked.append(cls.name)

    declared = {"refusal": classmethod(refusal)}
    types = {
        "here": made(name="here", **declared),
        "gone": made(name="gone", devices={"cuda"}, **declared),
        "arch": made(name="arch", supported_archs={90}, **declared),
    }
    choice = chosen(types, Call(device="cpu"))
    assert choice.key == "here"
    assert asked == ["here"]


def test_every_candidate_has_its_reason():
    types = {
        "gone": made(devices={"cuda", "xpu"}),
        "arch": made(supported_archs=[90, 80]),
        "small": made(most=1),
        "fits": made(),
    }
    choice = chosen(types, Call(2, device="cpu"))
    assert choice.rows == (
        ("gone", "Made", "runs on cuda, xpu, not on cpu"),
        ("arch", "Made", "supports the architectures 80, 90, not -1"),
        ("small", "Made", "n must be at most 1, got 2"),
        ("fits", "Made", "accepted"),
    )
    assert choice.outcome == "chosen"


@pytest.mark.parametrize(
    ("types", "call", "outcome"),
    [
        ({}, Call(device="cpu"), "unavailable"),
        ({"a": made(devices={"cuda"})}, Call(device="cpu"), "unavailable"),
        ({"a": made()}, Call(), "unavailable"),
        ({"a": made(most=1), "b": made(devices={"cuda"})}, Call(2, device="cpu"), "unserved"),
        ({"a": made(supported_archs={90})}, Call(device="cpu"), "unserved"),
        ({"a": made(), "b": made()}, Call(device="cpu"), "ambiguous"),
    ],
)
def test_outcomes_without_a_key(types, call, outcome):
    choice = chosen(types, call)
    assert choice.outcome == outcome
    assert choice.key is None


def test_unknown_device_is_the_reason():
    assert chosen({"a": made()}, Call()).rows == (("a", "Made", "the device is unknown"),)


def test_stated_facts_without_a_device_compare_the_architecture_only():
    types = {"hopper": made(devices={"cuda"}, supported_archs={90}), "any": made(general=True)}
    assert chosen(types, Call(arch=90)).key == "hopper"
    assert chosen(types, Call(arch=80)).key == "any"
    assert chosen(types, Call(sm_count=3)).key == "any"


@pytest.mark.parametrize("value", ["", 0, False, 7])
def test_refusal_of_another_kind_is_an_error(value):
    types = {"a": made(refusal=classmethod(lambda cls, call: value))}
    with pytest.raises(TypeError, match=r"Made.refusal returned .*, expected None or a reason"):
        chosen(types, Call(device="cpu"))


def test_kernels_that_need_tilelang_refuse_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(toolchain, "has_tilelang", lambda: False)
    needing = made(make_program=lambda self, config: None)
    assert needing.needs_tilelang
    assert not made(make_program=lambda self, config: None, needs_tilelang=False).needs_tilelang
    types = {"tile": needing, "portable": made(general=True)}
    choice = chosen(types, Call(device="cpu"))
    assert choice.key == "portable"
    assert "tileops[cuda]" in choice.rows[0][2]
    assert chosen(types, Call(arch=90)).key == "tile"


class OtherCompiler:
    """Of a package that compiles by something else, and says so for all its kernels."""

    needs_tilelang = False


def test_what_a_base_says_of_tilelang_holds_below_it(monkeypatch):
    monkeypatch.setattr(toolchain, "has_tilelang", lambda: False)

    class Below(OtherCompiler, made()):
        def make_program(self, config):
            return None

    class Further(made(needs_tilelang=False)):
        def make_program(self, config):
            return None

    class Again(Below):
        needs_tilelang = True

    assert [cls.needs_tilelang for cls in (Below, Further, Again)] == [False, False, True]
    assert chosen({"a": Below}, Call(device="cpu")).key == "a"


def test_a_refusal_for_want_of_tilelang_tells_a_package_how_to_say_otherwise(monkeypatch):
    monkeypatch.setattr(toolchain, "has_tilelang", lambda: False)
    needing = made(make_program=lambda self, config: None)
    hint = "; a class that uses another compiler sets needs_tilelang = False"
    assert needing.refusal(Call(device="cpu")) == toolchain.MISSING + hint
    needing.__module__ = "tileops.norm._kernels"
    assert needing.refusal(Call(device="cpu")) == toolchain.MISSING


KEYS = "abcde"


@given(st.data())
def test_order_of_declaration_decides_nothing(data):
    """Edges go from earlier to later letters, so there is no cycle."""
    edges = data.draw(st.sets(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS))))
    here = data.draw(st.sets(st.sampled_from(KEYS)))
    general = data.draw(st.sampled_from([None, *KEYS]))
    types = {}
    for key in KEYS:
        beaten = {b for a, b in edges if a == key and a < b} if key != general else set()
        devices = {"cpu"} if key in here else {"cuda"}
        types[key] = made(general=key == general, preferred_over=beaten, devices=devices)
    answers = set()
    for order in itertools.islice(itertools.permutations(KEYS), 0, 120, 17):
        choice = chosen({key: types[key] for key in order}, Call(device="cpu"))
        answers.add((choice.outcome, frozenset(choice.unbeaten)))
    assert len(answers) == 1
