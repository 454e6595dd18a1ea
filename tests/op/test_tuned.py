from __future__ import annotations

import threading
import warnings

import pytest
import torch
from toys import AddKernel, add_kernel, add_op, composite, pair

from tileops import backend
from tileops._core.dispatch import tuning


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "time_launch", lambda launch, device: launch() is None)


def tunable():
    return add_kernel(autotune_configs=({"tile": 1}, {"tile": 2}), default_config={"tile": 0})


def test_kernels_built_before_and_after_are_tuned():
    op = add_op({"plain": tunable()})()
    op(*pair(3))
    op.request_tune()
    op(*pair(4))
    assert [kernel.config for kernel in op.iter_kernels()] == [{"tile": 1}] * 2
    assert op.kernel_config() == {"tile": 1}


def test_request_before_the_first_call():
    op = add_op({"plain": tunable()})()
    op.request_tune()
    assert list(op.iter_kernels()) == []
    x, y = pair()
    assert torch.equal(op(x, y), x + y)
    assert op.kernel_config() == {"tile": 1}


def test_tuning_holds_no_lock_of_the_op(monkeypatch):
    op, found = add_op({"plain": tunable()})(), []
    op(*pair(3))

    def time_launch(launch, device):
        thread = threading.Thread(target=lambda: found.append(len(op(*pair(5)))))
        thread.start()
        thread.join(10)
        return 1.0

    monkeypatch.setattr(tuning, "time_launch", time_launch)
    op.request_tune()
    assert found[0] == 5


def test_request_while_a_kernel_is_made_reaches_it():
    class Late(dict):
        """A table of entries before which the request is heard, after the kernels were asked."""

        def __setitem__(self, key, entry):
            op.request_tune()
            super().__setitem__(key, entry)

    op = add_op({"plain": tunable()})()
    op._built_entries = {"add": Late()}
    op(*pair())
    (kernel,) = op.iter_kernels()
    assert kernel._tuning_asked


def test_kernel_that_cannot_be_tuned_is_not_kept():
    class Refusing(AddKernel):
        def request_tune(self):
            raise OSError

    op = add_op({"plain": Refusing})()
    op.request_tune()
    with pytest.raises(OSError):
        op(*pair())
    assert not any(op._built_entries.values())


def test_request_is_idempotent():
    asked = []

    class Counting(AddKernel):
        def request_tune(self):
            asked.append(self)
            super().request_tune()

    op = add_op({"plain": Counting})()
    op(*pair())
    op.request_tune()
    op.request_tune()
    assert len(asked) == 2
    assert asked[0]._tuning_asked


def test_composite_passes_the_request_down():
    part = add_op({"plain": tunable()})
    op = composite(part)()
    op(torch.ones(3))
    op.request_tune()
    assert op.held_delegates()[0]._tune_requested
    assert op.kernel_config() == {"tile": 1}


def served(target="east"):
    cls = add_op()
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda *s, **p: lambda x, y: x + y
    )
    return cls(target=target)


def test_target_is_out_of_reach_which_is_said_once_per_instance():
    op = served()
    op(*pair(3))
    with pytest.warns(UserWarning, match="tuning does not reach the kernels of target 'east'") as w:
        op.request_tune()
    assert type(op).__name__ in str(w[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.request_tune()
        op(*pair(4))
    other = served()
    other.request_tune()
    with pytest.warns(UserWarning, match="tuning does not reach"):
        other(*pair(3))


def test_undo_leaves_tuned_mode():
    op = add_op({"plain": tunable()})()
    op.request_tune()
    op(*pair())
    op._reset_binding()
    assert op._tune_requested
    op(*pair())
    assert op.kernel_config() == {"tile": 1}
