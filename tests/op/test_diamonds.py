"""Composites that share what they hold: ways down that double at every level, each op met once."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
import torch
from toys import add_kernel, add_op, body_op, tensor

from tileops import Op
from tileops._core.dispatch import tuning
from tileops._core.op import walk
from tileops.testing.compiling import operators_below

DEPTH = 40


def pair_of(part, stem):
    """A composite of two stages of one class, whose body calls the first alone."""
    stages = [{"name": name, "op": part.__name__} for name in ("left", "right")]

    def forward(self, x):
        op = self.delegate_for("left", None)
        return op(x, x) if len(op._signature.input_names) == 2 else op(x)

    composition = {"kind": "composite", "stages": stages}
    cls = body_op(stem, {"x": tensor()}, {"z": tensor()}, forward, composition=composition)
    cls.delegate_types = {"left": part, "right": Op}
    return cls


@pytest.fixture
def levels(monkeypatch, tmp_path):
    """Two ops a level, each of which holds both of the level below; the lowest are added to."""
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "time_launch", lambda launch, device: launch() is None)
    leaf = add_op({"plain": add_kernel(autotune_configs=({"tile": 1},))})
    lowest, middle = pair_of(leaf, "Lowest"), pair_of(leaf, "Middle")
    for cls in (leaf, lowest, middle):
        monkeypatch.setattr(sys.modules[cls.__module__], cls.__name__, cls, raising=False)
    found = [(leaf(), leaf())]
    for level in range(DEPTH):
        cls = lowest if level == 0 else middle
        above = cls(), cls()
        for op in above:
            for stage, below in zip(("left", "right"), found[-1], strict=True):
                op.delegate_for(stage, None, below)
        found.append(above)
    return found


def top_of(levels):
    return levels[-1][0]


def all_below(levels):
    return [op for pair in levels[:-1] for op in pair]


def test_each_op_is_met_once_on_the_first_way_down(levels):
    top = top_of(levels)
    found = list(walk.each_once(top))
    assert len(found) == len({*map(id, found)}) == 2 * DEPTH + 1
    assert found[: DEPTH + 1] == [top, *(left for left, _ in levels[-2::-1])]
    assert [*map(len, walk.paths_down(top))][-1] == 2


def test_an_op_below_cannot_hold_one_above(levels):
    cls = type(top_of(levels))
    with pytest.raises(ValueError, match="cannot hold an op that is or holds this one") as caught:
        levels[2][0].delegate_for("left", "again", top_of(levels))
    assert str(caught.value).count(" holds ") == 1 + DEPTH - 2
    assert isinstance(cls().delegate_for("left", None, top_of(levels)), cls)


def test_an_undo_reaches_each(levels):
    top = top_of(levels)
    assert torch.equal(top(torch.ones(2)), torch.full((2,), 2.0))
    assert levels[0][0].serving_target is not None
    top._reset_binding()
    assert {op.serving_target for op in [top, *all_below(levels)]} == {None}


def test_kernels_are_listed_once(levels):
    top = top_of(levels)
    top(torch.ones(2))
    assert len(list(top.iter_kernels())) == 1
    assert top.kernel_config() is None


def test_tuned_mode_reaches_each(levels):
    top = top_of(levels)
    top(torch.ones(2))
    top.request_tune()
    assert all(op._tune_requested for op in all_below(levels))
    assert top.kernel_config() == {"tile": 1}


def test_ops_that_compute_each_other_s_gradients_are_tuned(levels):
    one, other = levels[0]
    one._backward_op, other._backward_op = other, one
    one.request_tune()
    assert other._tune_requested


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))]
)
def test_copies_share_what_the_ops_share(levels, copied):
    twin = copied(top_of(levels))
    assert len(list(walk.each_once(twin))) == 2 * DEPTH + 1
    assert torch.equal(twin(torch.ones(2)), torch.full((2,), 2.0))


def test_a_call_is_explained_and_recorded(levels):
    top = top_of(levels)
    assert str(top.explain(torch.ones(2))).count("stage left") == DEPTH
    top(torch.ones(2))
    record = top.last_call
    for _ in range(DEPTH):
        (record,) = record.stages["left"]
    assert operators_below(top) == set(levels[0][0].compile_op_names)
