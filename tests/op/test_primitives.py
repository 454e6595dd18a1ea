"""Primitives against torch: its own shape rules and casts, and its symbolic sizes."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional

from tileops._core.lang.dtypes import BITS, COMPLEX, FLOAT, FLOAT_MAX, INT, name_of
from tileops._core.runtime import symbolic  # noqa: F401  (serves symbolic operands)
from tileops.manifest import primitives as p

RANDOM = random.Random(3)


def test_names_of_dtypes():
    for name in BITS:
        dtype = getattr(torch, name)
        assert name_of(dtype) == name
        assert dtype.itemsize * 8 == BITS[name]


@pytest.mark.parametrize("name", sorted(FLOAT - {"float4_e2m1fn_x2"}))
def test_largest_finite_values(name):
    assert torch.finfo(getattr(torch, name)).max == FLOAT_MAX[name]


def casts(value, name):
    """Whether torch stores a scalar without complaint."""
    try:
        torch.empty((), dtype=getattr(torch, name)).fill_(value)
    except RuntimeError:
        return False
    return True


CASTABLE = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "float32",
]  # half floats: torch never refuses


@pytest.mark.parametrize("name", [*CASTABLE, "float64", "complex64"])
def test_representable_agrees_with_torch(name):
    values = [0, 1, -1, 127, 128, -128, -129, 255, 256, -255, -256, 32768, -32769, 65504, 2**31]
    values += [0.5, -0.5, 300.0, 65520.0, 1e39, -1e39, float("inf"), float("nan"), True]
    for value in values:
        assert p.representable(value, name) == casts(value, name), value


def test_integer_ranges_agree_with_torch():
    for name in INT:
        info = torch.iinfo(getattr(torch, name))
        assert p.representable(info.max, name)
        assert not p.representable(info.max + 1, name)
        assert p.representable(info.min, name)


def test_promotion_and_category_agree_with_torch():
    for name in sorted(INT | COMPLEX | {"bool", "float16", "float64"}):
        dtype = getattr(torch, name)
        assert (p.category(name) == "float") == dtype.is_floating_point
        assert (p.category(name) == "complex") == dtype.is_complex
        if name in INT:
            assert p.promote_int_to_float(name) == "float32"


def test_broadcast_agrees_with_torch():
    for _ in range(200):
        shapes = [
            tuple(RANDOM.choice((0, 1, 1, 2, 3)) for _ in range(RANDOM.randint(0, 3)))
            for _ in range(RANDOM.randint(1, 3))
        ]
        try:
            expected = tuple(torch.broadcast_shapes(*shapes))
        except RuntimeError:
            with pytest.raises(ValueError, match="do not agree"):
                p.broadcast(*shapes)
        else:
            assert p.broadcast(*shapes) == expected


def test_reduced_agrees_with_torch():
    for rank in range(4):
        shape = (2, 3, 4)[:rank]
        axes = range(-rank, rank) if rank else (-1, 0)
        for dim, keepdim in itertools.product(axes, (False, True)):
            expected = torch.zeros(shape).sum(dim, keepdim=keepdim).shape
            assert p.reduced(shape, dim, keepdim, "full") == tuple(expected)
            pair = {a % max(rank, 1) for a in (dim, 0)}
            expected = torch.zeros(shape).sum(tuple(pair), keepdim=keepdim).shape
            assert p.reduced(shape, (dim, 0), keepdim, "full") == tuple(expected)


def test_windows_agree_with_torch():
    for _ in range(150):
        length, kernel = RANDOM.randint(6, 14), RANDOM.randint(1, 3)
        stride, dilation = RANDOM.randint(1, 3), RANDOM.randint(1, 2)
        padding, ceil_mode = RANDOM.randint(0, kernel // 2), RANDOM.random() < 0.5
        x = torch.zeros(1, 1, length)
        pooled = functional.max_pool1d(x, kernel, stride, padding, dilation, ceil_mode)
        arguments = (length, kernel, stride, padding, dilation)
        assert p.pool.out(*arguments, ceil_mode) == pooled.shape[-1]
        convolved = functional.conv1d(
            x, torch.zeros(1, 1, kernel), stride=stride, padding=padding, dilation=dilation
        )
        assert p.conv.out(*arguments) == convolved.shape[-1]


class Layout:
    kind, packing, metadata_kind, alignment = "contiguous", "aligned", "per_row", 8


SYMBOLIC = {
    "broadcast": lambda a, b: p.broadcast((a, 1, 3), (b, 1)),
    "same": lambda a, b: p.broadcast((a, b), (a, b)),
    "three": lambda a, b: p.broadcast((a, b), (b, a), (a, 1), (b,)),
    "reduced": lambda a, b: p.reduced((a, b, 4), (0, -1), True, "full"),
    "ceil_div": lambda a, b: p.ceil_div(a + b, 4),
    "prod": lambda a, b: p.prod((a, b, 2)),
    "sum": lambda a, b: p.sum((a, b, 2)),
    "max": lambda a, b: p.max((a, b, 2)),
    "min": lambda a, b: p.min((a, b)),
    "all": lambda a, b: p.all((a >= 0, b >= 0, True)),
    "conv": lambda a, b: p.conv.out(a, 3, 2, 1, 1),
    "pool": lambda a, b: p.pool.out(a, 3, 2, 1, 1, True),
    "pool_floor": lambda a, b: p.pool.out(b, 3, 2, 1, 1, False),
    "capacity": lambda a, b: p.moe.capacity(Layout(), a, b),
    "len": lambda a, b: p.len((a, b)),
    "per_axis": lambda a, b: p.per_axis((None, 2), 0, 2, a),
    "category": lambda a, b: p.category(a),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes_leave_no_guard(name):
    env = ShapeEnv()
    sizes = [env.create_unbacked_symint() for _ in range(2)]
    for size in sizes:
        torch._check(size >= 0)
    before = len(env.guards)
    SYMBOLIC[name](*sizes)
    assert len(env.guards) == before


def test_a_specialising_primitive_fixes_its_argument():
    env = ShapeEnv()
    with pytest.raises(Exception, match="data-dependent"):
        p.mhc.expansion(env.create_unbacked_symint())
