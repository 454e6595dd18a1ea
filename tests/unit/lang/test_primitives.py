"""Primitives against brute force and against their definitions."""

from __future__ import annotations

import itertools
import math
import random
from types import SimpleNamespace

import pytest

from tileops._core.lang.dtypes import BITS, COMPLEX, FLOAT, FLOAT_MAX, INT
from tileops._core.lang.limits import MAX_ITEMS
from tileops.manifest import primitives as p

RANDOM = random.Random(7)


def layout(kind, **fields):
    return SimpleNamespace(kind=kind, **fields)


def contiguous(packing, metadata_kind, alignment=1):
    return layout("contiguous", packing=packing, metadata_kind=metadata_kind, alignment=alignment)


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ([()], ()),
        ([(2, 3)], (2, 3)),
        ([(2, 1, 4), (3, 1)], (2, 3, 4)),
        ([(1,), (0,)], (0,)),
        ([(0, 1), (1, 1)], (0, 1)),
        ([(), (5,), (4, 1)], (4, 5)),
        ([[2], (1,)], (2,)),
    ],
)
def test_broadcast(shapes, result):
    assert p.broadcast(*shapes) == result
    assert p.broadcast(*reversed(shapes)) == result


@pytest.mark.parametrize("shapes", [[(2,), (3,)], [(0,), (2,)], [(2, 1), (3, 4)]])
def test_broadcast_needs_agreement(shapes):
    with pytest.raises(ValueError, match=r"broadcast: sizes \d and \d do not agree"):
        p.broadcast(*shapes)


def test_shapes_hold_no_negative_size():
    with pytest.raises(ValueError, match="broadcast needs size >= 0, got size=-1"):
        p.broadcast((2, -1))
    with pytest.raises(ValueError, match="reduced needs size >= 0, got size=-1"):
        p.reduced((2, -1), None, False, "full")


@pytest.mark.parametrize(
    ("shape", "dim", "keepdim", "mode", "result"),
    [
        ((2, 3, 4), 1, False, "full", (2, 4)),
        ((2, 3, 4), -1, True, "full", (2, 3, 1)),
        ((2, 3, 4), (0, 2), False, "full", (3,)),
        ((2, 3, 4), [0, -3], False, "full", (3, 4)),
        ((2, 3, 4), None, False, "full", ()),
        ((2, 3, 4), None, True, "reject", (1, 1, 1)),
        ((2, 3), (), False, "full", ()),
        ((2, 3), (), True, "full", (1, 1)),
        ((2, 3), (), False, "noop", (2, 3)),
        ((), None, False, "full", ()),
        ((), 0, True, "full", ()),
        ((), -1, False, "full", ()),
        ((), (), False, "noop", ()),
    ],
)
def test_reduced(shape, dim, keepdim, mode, result):
    assert p.reduced(shape, dim, keepdim, mode) == result


@pytest.mark.parametrize(("shape", "dim"), [((2, 3), 2), ((2, 3), -3), ((), 1), ((), (0, -2))])
def test_reduced_needs_axes_in_range(shape, dim):
    with pytest.raises(ValueError, match=r"reduced: axis -?\d is out of range for rank \d"):
        p.reduced(shape, dim, False, "full")


def test_reduced_may_reject_no_axes():
    with pytest.raises(ValueError, match="reduced needs at least one axis, got none"):
        p.reduced((2, 3), (), False, "reject")


def test_axis_rule():
    for rank in range(4):
        axes = range(-rank, rank) if rank else (-1, 0)
        for axis in range(-5, 6):
            assert p.valid_axes(axis, rank) == (axis in axes)
    assert p.valid_axes(None, 0)
    assert p.valid_axes((), 2)
    assert p.valid_axes((0, -1), 2)
    assert not p.valid_axes((0, 2), 2)


def test_unique_axes():
    assert p.unique_axes(1, 2)
    assert p.unique_axes(None, 0)
    assert p.unique_axes((), 2)
    assert p.unique_axes((0, 1), 2)
    assert not p.unique_axes((0, -2), 2)
    assert not p.unique_axes((0, -1), 0)
    with pytest.raises(ValueError, match="unique_axes: axis 3 is out of range for rank 2"):
        p.unique_axes((0, 3), 2)


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ((3, 1, 2), 3),
        (((3, 4), 1, 2), 4),
        (([3, None], 1, 2, 5), 5),
        ((None, 0, 1, 7), 7),
        (((0, 4), 0, 2, 9), 0),
    ],
)
def test_per_axis(arguments, result):
    assert p.per_axis(*arguments) == result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((3, 4), 0, 3), "per_axis needs 3 values, got 2"),
        ((3, 2, 2), "per_axis needs 0 <= i < n, got i=2, n=2"),
        ((3, -1, 2), "per_axis needs 0 <= i < n"),
        ((None, 0, 2), "per_axis: no value for axis 0 and no fallback"),
        (((1, None), 1, 2), "per_axis: no value for axis 1 and no fallback"),
    ],
)
def test_per_axis_domain(arguments, message):
    with pytest.raises(ValueError, match=message):
        p.per_axis(*arguments)


def test_ceil_div_rounds_up():
    for a, b in itertools.product(range(-9, 10), range(1, 5)):
        assert p.ceil_div(a, b) == math.ceil(a / b)
    with pytest.raises(ValueError, match="ceil_div needs b > 0, got b=0"):
        p.ceil_div(1, 0)


def test_aggregates():
    assert (p.len((1, 2)), p.prod((2, 3)), p.prod(()), p.sum([2, 3]), p.sum(())) == (2, 6, 1, 5, 0)
    assert (p.max((1, 3, 2)), p.min([1, 3, -2]), p.max((), 4), p.min((), default=5)) == (
        3,
        -2,
        4,
        5,
    )
    assert p.max((1,), default=9) == 1
    assert p.all((True, True))
    assert p.all(())
    assert not p.all((True, False))
    for extreme, name in ((p.max, "max"), (p.min, "min")):
        with pytest.raises(ValueError, match=f"{name} of no items needs a default"):
            extreme(())


def windows(length, kernel, stride, padding, dilation):
    """Starts of the windows that fit between the ends of the padded input."""
    last = length + padding - (dilation * (kernel - 1) + 1)
    return list(range(-padding, last + 1, stride))


def test_conv_and_pool_count_windows():
    for _ in range(300):
        length, kernel, stride = (RANDOM.randint(*r) for r in ((0, 12), (1, 4), (1, 4)))
        padding, dilation = RANDOM.randint(0, kernel // 2), RANDOM.randint(1, 3)
        arguments = (length, kernel, stride, padding, dilation)
        count = len(windows(*arguments))
        assert max(p.conv.out(*arguments), 0) == count
        assert p.pool.out(*arguments, False) == count


def test_pool_in_ceil_mode_adds_a_window_that_starts_inside():
    for _ in range(300):
        length, kernel, stride = (RANDOM.randint(*r) for r in ((1, 12), (1, 4), (1, 4)))
        padding, dilation = RANDOM.randint(0, kernel // 2), RANDOM.randint(1, 3)
        arguments = (length, kernel, stride, padding, dilation)
        starts = windows(*arguments)
        span = dilation * (kernel - 1) + 1
        if not starts:
            continue
        following = starts[-1] + stride
        leaves_rest = starts[-1] + span < length + padding
        expected = len(starts) + (leaves_rest and following < length)
        assert p.pool.out(*arguments, True) == expected, arguments


def test_conv_may_be_negative_and_pool_is_not():
    assert p.conv.out(0, 5, 1, 0, 1) == -4
    assert p.pool.out(0, 5, 1, 0, 1, False) == 0


@pytest.mark.parametrize(("place", "name"), [(1, "kernel"), (2, "stride"), (4, "dilation")])
def test_window_domain(place, name):
    arguments = [9, 3, 2, 0, 1]
    arguments[place] = 0
    with pytest.raises(ValueError, match=rf"conv.out needs {name} > 0, got {name}=0"):
        p.conv.out(*arguments)
    with pytest.raises(ValueError, match=rf"pool.out needs {name} > 0, got {name}=0"):
        p.pool.out(*arguments, False)


def test_mhc_expansion():
    sizes = {n * n + 2 * n: n for n in range(1, 40)}
    for q in range(-3, 1600):
        if q in sizes:
            assert p.mhc.expansion(q) == sizes[q]
        else:
            with pytest.raises(ValueError, match=rf"for some n > 0, got q={q}"):
                p.mhc.expansion(q)
    assert p.mhc.expansion(10**40 + 2 * 10**20) == 10**20


def test_moe_capacity_is_the_worst_case():
    assert p.moe.capacity(layout("masked", max_m=7), 3, 4) == 28
    assert p.moe.capacity(contiguous("tight", "per_row"), 9, 4) == 9
    for rows, experts, a in itertools.product(range(9), range(4), (1, 2, 4)):
        if not experts:
            continue
        worst = max(
            sum(math.ceil(n / a) * a for n in split)
            for split in itertools.product(range(rows + 1), repeat=experts)
            if sum(split) == rows
        )
        assert p.moe.capacity(contiguous("aligned", "per_row", a), rows, experts) == worst
    with pytest.raises(ValueError, match=r"moe.capacity needs rows >= 0, got rows=-1"):
        p.moe.capacity(layout("masked", max_m=7), -1, 4)


def test_dtype_primitives():
    for name in BITS:
        assert p.promote_int_to_float(name) == ("float32" if name in INT else name)
        assert p.coalesce_dtype(None, name) == name
        assert p.coalesce_dtype("int8", name) == "int8"
    assert "bool" not in INT


def test_category():
    values = {True: "bool", 3: "int", 2.0: "float", 1j: "complex"}
    assert [p.category(value) for value in values] == list(values.values())
    assert [p.category(d) for d in ("bool", "uint8", "bfloat16", "complex64")] == [
        "bool", "int", "float", "complex"
    ]  # fmt: skip
    for value in ("high", None, (1,)):
        with pytest.raises(ValueError, match="category needs a number or a dtype"):
            p.category(value)


def test_representable_floats():
    infinite = {"float8_e5m2", "float16", "bfloat16", "float32", "float64"}
    for d in FLOAT:
        top = FLOAT_MAX[d]
        assert p.representable(top, d)
        assert p.representable(-top, d)
        assert p.representable(math.nan, d)
        assert p.representable(math.inf, d) == (d in infinite)
        assert p.representable(-math.inf, d) == (d in infinite)
        assert p.representable(int(top), d)
        assert not p.representable(int(top) * 2, d)
        assert not p.representable(1j, d)
        if d != "float64":
            assert not p.representable(math.nextafter(top, math.inf), d)
    assert not p.representable(10**400, "float64")


def test_representable_integers():
    for d in INT:
        bits = BITS[d]
        lowest, top = (0, 2**bits - 1) if d[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        assert p.representable(top, d)
        assert not p.representable(top + 1, d)
        assert p.representable(lowest, d)
        wraps = d[0] == "u"
        assert p.representable(lowest - 1, d) == wraps
        assert p.representable(-top, d)
        assert not p.representable(-top - 2, d)
        assert p.representable(1.5, d)
        assert p.representable(-1.0, d) == (not wraps)
        assert not p.representable(math.inf, d)
        assert not p.representable(math.nan, d)
        assert not p.representable(1j, d)
        assert p.representable(True, d)


def test_representable_in_bool_and_complex():
    assert all(p.representable(v, "bool") for v in (3, -1.5, math.inf, 1j))
    for d in COMPLEX:
        assert p.representable(1 + 2j, d)
        assert p.representable(complex(math.inf, math.nan), d)
        assert p.representable(3, d)
    assert not p.representable(complex(0, 1e300), "complex64")
    assert p.representable(complex(0, 1e300), "complex128")
    assert not p.representable(1e300, "complex64")


def test_lists_of_lengths():
    for total, count in itertools.product(range(8), range(1, 5)):
        sizes = p.balanced_sizes(total, count)
        assert sum(sizes) == total
        assert len(sizes) == count
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1
    assert p.repeat(3, 2) == [3, 3]
    assert p.repeat(-3, 0) == []
    for call, message in {
        lambda: p.balanced_sizes(3, 0): "balanced_sizes needs count > 0, got count=0",
        lambda: p.balanced_sizes(-1, 2): "balanced_sizes needs total >= 0, got total=-1",
        lambda: p.repeat(1, -1): "repeat needs count >= 0, got count=-1",
        lambda: p.repeat(1, 10**10): f"repeat makes at most {MAX_ITEMS} items",
        lambda: p.balanced_sizes(1, 10**10): f"balanced_sizes makes at most {MAX_ITEMS} items",
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


def test_products_are_bounded():
    with pytest.raises(ValueError, match="an integer of more than 4096 bits"):
        p.prod([2**64] * 100)
