"""Tensors two of whose items share a place, told from all others by sizes and strides."""

from __future__ import annotations

import random
from itertools import product

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tileops._core.runtime.overlap import items_are_distinct, overlaps
from tileops.errors import SignatureError


def share_a_place(sizes, strides):
    """The same by listing every place."""
    places = [
        sum(map(int.__mul__, index, strides)) for index in product(*(range(size) for size in sizes))
    ]
    return len(set(places)) < len(places)


@pytest.mark.parametrize("seed", range(8))
def test_every_small_tensor_is_judged_as_it_is(seed):
    rng = random.Random(seed)
    seen = set()
    for _ in range(1500):
        rank = rng.randint(0, 5)
        most = rng.choice([4, 30, 300])
        sizes = tuple(rng.randint(rng.random() > 0.02, rng.choice([2, 4, 6])) for _ in range(rank))
        strides = tuple(rng.randint(0 if rng.random() < 0.1 else 1, most) for _ in range(rank))
        found = overlaps(sizes, strides)
        assert found is share_a_place(sizes, strides), (sizes, strides)
        seen.add(found)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("sizes", "strides", "found"),
    [
        # Their steps meet only beyond the last item, or just on it.
        ((1_000_000, 1_000_000), (1_000_001, 1_000_000), False),
        ((1_000_001, 1_000_002), (1_000_001, 1_000_000), True),
        ((1000, 1000, 1000), (1_001_001, 1001, 1000), False),
        ((1000, 1000, 1000), (1_000_001, 1_000_000, 999), True),
        ((2,) * 60, tuple(3**i for i in range(60)), False),
        ((3,) * 30, tuple(3**i for i in range(30)), False),
        ((4,) * 30, tuple(3**i for i in range(30)), True),
        ((0, 7), (0, 0), False),
        ((1, 1), (0, 0), False),
        ((2**62, 2), (1, 2**62), False),
    ],
)
def test_large_tensors(sizes, strides, found):
    assert overlaps(sizes, strides) is found


def test_a_search_that_takes_too_long_counts_as_found():
    rng = random.Random(0)
    assert overlaps((2,) * 40, tuple(rng.randint(10**17, 10**18) for _ in range(40)))


def test_views_of_torch():
    x = torch.zeros(12)
    apart = [
        x, x.view(3, 4), x.view(3, 4).t(), x.view(3, 4)[:, ::2], x.unfold(0, 3, 3), x[::5],
        x.as_strided((3, 2), (4, 3)), torch.zeros(0, 1).expand(0, 5), torch.zeros(1).expand(1, 1),
        x.view(2, 2, 3).permute(2, 0, 1), x.as_strided((2, 3), (3, 2)), torch.zeros(()),
    ]  # fmt: skip
    shared = [
        x.unfold(0, 3, 1), x.as_strided((2, 3), (1, 1)), torch.zeros(1).expand(2),
        torch.zeros(13).as_strided((3, 4), (3, 2)), x.as_strided((2, 2, 2), (3, 2, 1)),
    ]  # fmt: skip
    assert all(items_are_distinct(tensor) is True for tensor in apart)
    assert all(items_are_distinct(tensor) is False for tensor in shared)


def traced(tensor, *dynamic):
    """A fake tensor of which some sizes are symbolic, and its shape environment."""
    env = ShapeEnv()
    kinds = [DimDynamic.DYNAMIC if i in dynamic else DimDynamic.STATIC for i in range(tensor.dim())]
    context = StatelessSymbolicContext(kinds)
    return FakeTensorMode(shape_env=env).from_tensor(tensor, symbolic_context=context), env


def test_symbolic_sizes_get_no_guard():
    for tensor, dynamic in ((torch.zeros(3, 4), (0, 1)), (torch.zeros(3, 4).t(), (0, 1))):
        given, env = traced(tensor, *dynamic)
        assert items_are_distinct(given) is True
        assert not env.guards


def test_symbolic_sizes_decide_where_known_axes_do_not():
    row, env = traced(torch.zeros(5, 1).expand(5, 3), 0)
    assert not bool(items_are_distinct(row))
    row, env = traced(torch.zeros(1).expand(5), 0)
    verdict = items_are_distinct(row)
    assert not env.guards
    assert not bool(verdict)


WRITTEN = """
TakeFwdOp:
  signature:
    forall: {S: Shape}
    inputs: {acc: {dtype: float32, shape: "[*S]", mutated: true}}
    outputs: {y: {dtype: float32, shape: "[*S]", buffer: out}}
"""


def test_calls_refuse_what_they_would_write_twice(op_for):
    op, memory = op_for(WRITTEN), torch.zeros(64)
    bad, good = memory.as_strided((2, 3), (1, 1)), memory.as_strided((2, 3), (3, 2))
    for _ in range(2):
        assert op.check(acc=good, out=torch.zeros(2, 3)).written == ("acc",)
        with pytest.raises(SignatureError) as caught:
            op.check(acc=bad)
        fault = "is written but overlaps itself, got shape (2, 3) with strides (1, 1)"
        assert f'inputs.acc.mutated "true": {fault}' in str(caught.value)
        with pytest.raises(SignatureError) as caught:
            op.check(acc=torch.zeros(2, 3), out=memory.unfold(0, 3, 1)[:2])
        fault = "overlaps itself, got shape (2, 3) with strides (1, 1)"
        assert f'outputs.y.buffer "out": {fault}' in str(caught.value)
