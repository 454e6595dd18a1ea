"""Calls while another thread compiles, when torch may say of every thread that it does."""

from __future__ import annotations

import threading

import pytest
import torch
from torch._subclasses import FakeTensorMode
from toys import LIMIT, add_op, body_op, composite, pair, tensor

from tileops import backend
from tileops.errors import SignatureError, SignatureTypeError


@pytest.fixture(autouse=True)
def compiling_elsewhere():
    """Another thread is within a compilation, of something that no op is in, for the whole test."""
    inside, done = threading.Event(), threading.Event()

    def wait(graph, _):
        inside.set()
        assert done.wait(LIMIT)
        return graph

    def task():
        torch.compile(lambda x: x.sin() + 1, backend=wait, fullgraph=True)(torch.randn(2))

    thread = threading.Thread(target=task)
    thread.start()
    assert inside.wait(LIMIT)
    yield
    done.set()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_target_builds_for_new_shapes():
    cls = add_op()
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda *_, **__: lambda x, y: x - y
    )
    op = cls(target="east")
    for n in range(1, 4):
        x, y = pair(n)
        assert torch.equal(op(x, y), x - y)


def test_composite_makes_what_it_holds_and_keeps_its_records():
    op = composite(add_op())()
    for n in (2, 3):
        x = torch.randn(n)
        op(x)
        assert op.last_call.shape("x") == (n,)


def test_wrong_arguments_are_worded():
    with pytest.raises(SignatureTypeError, match="takes 2 positional arguments, got 3"):
        add_op()()(*pair(), torch.ones(6))


def test_held_tensors_that_require_grad_are_refused():
    op = body_op(
        "Hold",
        {"x": tensor()},
        {"y": tensor()},
        lambda self, x: x + self.w,
        {"w": {"dtype": "T", "shape": "[*S]"}},
    )(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="w requires grad"):
        op(torch.ones(2))


def test_written_tensors_are_checked():
    op = body_op(
        "Write",
        {"x": tensor(mutated=True)},
        {"z": tensor(alias="x")},
        lambda self, x: x.zero_(),
        signature={"forall": {"S": "Shape", "T": "DType[complex64]"}},
    )()
    with pytest.raises(SignatureError, match="lazily conjugated tensor cannot be written"):
        op(torch.ones(2, dtype=torch.complex64).conj())


def test_fake_tensors_are_no_compilation():
    op = composite(add_op())()
    with FakeTensorMode():
        assert op(torch.empty(3)).shape == (3,)
    with pytest.raises(SignatureTypeError, match="takes 2 positional arguments, got 3"):
        add_op()()(*pair(), torch.ones(6))
    report = composite(add_op())().explain(torch.ones(3))
    assert report.error is None and report.steps
