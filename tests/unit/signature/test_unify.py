"""The spellings of an affine axis, and where elements stand."""

from __future__ import annotations

import pytest

from tileops._core.lang.nodes import Constant
from tileops._core.lang.parser import parse_expression, parse_shape
from tileops._core.lang.printer import to_text
from tileops._core.lang.reads import reads
from tileops._core.signature.unify import affine, from_right, locate

UNKNOWN = {"M", "N"}


def known(expr):
    return UNKNOWN.isdisjoint(reads(expr).names)


def solve(text):
    form = affine(parse_expression(text), UNKNOWN.__contains__, known)
    if form is None:
        return None
    return form.index, form.scale, None if form.offset is None else to_text(form.offset)


@pytest.mark.parametrize(
    ("axis", "form"),
    [
        ("M", ("M", 1, None)),
        ("2 * M", ("M", 2, None)),
        ("M * 2", ("M", 2, None)),
        ("3 * (2 * M)", ("M", 6, None)),
        ("M + 1", ("M", 1, "1")),
        ("1 + M", ("M", 1, "1")),
        ("M - 1", ("M", 1, "-1")),
        ("M + k", ("M", 1, "k")),
        ("k + M", ("M", 1, "k")),
        ("M - k", ("M", 1, "-k")),
        ("M + 1 - 1", ("M", 1, None)),
        ("M + k - j", ("M", 1, "k - j")),
        ("2 * (M + 3)", ("M", 2, "6")),
        ("2 * (M + k) + 1", ("M", 2, "2 * k + 1")),
        ("M + (K + 1) // 2", ("M", 1, "(K + 1) // 2")),
    ],
)
def test_affine_spellings(axis, form):
    assert solve(axis) == form


@pytest.mark.parametrize(
    "axis",
    ["k", "k - M", "-M", "0 * M", "p * M", "M * N", "M + N", "M + M", "M // 2", "M % 2", "7"],
)
def test_other_spellings_are_only_compared(axis):
    assert solve(axis) is None


def test_a_truth_value_is_no_factor():
    axis = parse_expression("1 * M")
    assert affine(axis, UNKNOWN.__contains__, known) is not None
    spoiled = type(axis)("*", Constant(True), axis.right)
    assert affine(spoiled, UNKNOWN.__contains__, known) is None


def position(shape, place):
    found = locate(parse_shape(shape).axes, place, known)
    return found and (found.side, found.fixed, [to_text(s) for s in found.splices])


@pytest.mark.parametrize(
    ("shape", "place", "where"),
    [
        ("[a, b, c]", 1, ("left", 1, [])),
        ("[*M, b]", 1, ("right", 0, [])),
        ("[a, *M, b, c]", 2, ("right", 1, [])),
        ("[*S, b]", 1, ("right", 0, [])),
        ("[*S, b, *U]", 1, ("left", 0, ["S"])),
        ("[*S, b, *M]", 1, ("left", 0, ["S"])),
        ("[*M, b, *N]", 1, None),
    ],
)
def test_elements_are_located_from_the_side_with_fewer_runs(shape, place, where):
    assert position(shape, place) == where


def test_from_right_needs_every_length():
    axes = parse_shape("[*M, b]").axes
    assert from_right(axes, known) is None
    assert from_right(axes[1:], known).fixed == 1
