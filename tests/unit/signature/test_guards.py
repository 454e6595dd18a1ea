"""Guards say exactly which branches they were made for, and say it briefly."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tileops._core.signature.guards import ALWAYS, NEVER, Space
from tileops._core.signature.plan import Discriminant

FLIP = Discriminant("flip", "param", (False, True), True)
BIAS = Discriminant("bias", "passed", (False, True), False)
MODE = Discriminant("mode", "param", (None, "exact", "slow"), True)
ROWS = ("tiled", (("padded", False),))
STORE = Discriminant("store", "param", (("dense", ()), ROWS, ("tiled", (("padded", True),))), True)
ALL = (FLIP, BIAS, MODE, STORE)


def points(discriminants):
    names = [d.name for d in discriminants]
    return [dict(zip(names, v, strict=True)) for v in product(*(d.values for d in discriminants))]


def holds(guard, point):
    return any(all(point[n] in vs for n, vs in clause.items()) for clause in guard.clauses)


@given(st.sets(st.integers(0, 35)), st.sets(st.integers(0, 35)))
def test_guard_holds_on_exactly_the_branches_of_the_space(chosen, excluded):
    accepted = [p for i, p in enumerate(points(ALL)) if i not in excluded]
    space = Space(ALL, accepted)
    wanted = [i for i in range(len(accepted)) if i in chosen]
    guard = space.guard(sum(1 << i for i in wanted))
    assert [i for i, p in enumerate(accepted) if holds(guard, p)] == wanted


def test_everything_needs_no_clause_and_nothing_never_holds():
    space = Space((FLIP, BIAS), points((FLIP, BIAS)))
    assert space.guard(space.everything) == ALWAYS
    assert space.guard(0) == NEVER


def test_one_presence_is_one_conjunct():
    space = Space(ALL, points(ALL))
    where = space.extent({"bias": {True}})
    assert space.guard(where).clauses == ({"bias": frozenset({True})},)


def test_a_union_of_conditions_is_one_clause_each():
    space = Space((FLIP, BIAS), points((FLIP, BIAS)))
    where = space.extent({"bias": {True}}) | space.extent({"flip": {True}})
    assert space.guard(where).clauses == (
        {"bias": frozenset({True})},
        {"flip": frozenset({True})},
    )


def test_branches_that_cannot_occur_may_be_covered():
    accepted = [p for p in points((FLIP, BIAS)) if p["flip"] or p["bias"]]
    space = Space((FLIP, BIAS), accepted)
    both = space.extent({"flip": {True}, "bias": {True}})
    only = space.extent({"flip": {False}})
    assert space.guard(only | both).clauses == ({"bias": frozenset({True})},)


def test_near_discriminants_are_kept_where_several_would_do():
    accepted = [p for p in points((FLIP, BIAS)) if p["flip"] == p["bias"]]
    space = Space((FLIP, BIAS), accepted)
    where = space.extent({"flip": {True}})
    assert space.guard(where, {"bias"}).clauses == ({"bias": frozenset({True})},)
    assert space.guard(where, {"flip"}).clauses == ({"flip": frozenset({True})},)


def test_an_excluded_value_only_completes_a_constructor():
    accepted = [p for p in points((STORE, BIAS)) if p["store"] != ROWS]
    space = Space((STORE, BIAS), accepted)
    dense, tiled = (space.extent({"store": {v}}) for v in (STORE.values[0], STORE.values[2]))
    assert space.guard(dense).clauses == ({"store": frozenset({("dense", ())})},)
    assert space.guard(tiled).clauses == ({"store": frozenset(STORE.values[1:])},)


def test_witness_names_one_branch():
    space = Space(ALL, points(ALL))
    assert space.witness(space.everything) == ""
    where = space.extent({"flip": {True}, "bias": {False}})
    assert space.witness(where) == " when flip=true, present(bias)=false"
    assert space.witness(space.extent({"mode": {None}})) == " when present(mode)=false"
    assert space.witness(space.extent({"mode": {"slow"}})) == " when mode=slow"
    tiled = space.extent({"store": set(STORE.values[1:])})
    assert space.witness(tiled) == " when store.kind=tiled"
    padded = space.extent({"store": {STORE.values[2]}})
    assert space.witness(padded) == " when store.kind=tiled, store.padded=true"
