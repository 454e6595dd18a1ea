"""Memory beside results where there is no accelerator: fresh, of the shapes asked for."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops._core.devices import made_to_last
from tileops._core.op.fakes import FollowingFakes
from tileops._kernels.scratch import _kept, scratch


def test_tensors_of_each_shape() -> None:
    one, two, none = scratch(torch.device("cpu"), (3, 5), (7,), (0, 4))
    assert [tuple(tensor.shape) for tensor in (one, two, none)] == [(3, 5), (7,), (0, 4)]
    assert {tensor.dtype for tensor in (one, two, none)} == {torch.float32}
    one.zero_()
    two.fill_(1)
    assert not one.any()


def test_tensors_of_each_dtype() -> None:
    kinds = [torch.bfloat16, torch.int32, torch.float32]
    parts = scratch(torch.device("cpu"), (3, 5), (7,), (2,), dtypes=kinds)
    assert [part.dtype for part in parts] == kinds
    assert all(not (part.data_ptr() - parts[0].data_ptr()) % 128 for part in parts)
    for place, part in enumerate(parts):
        part.fill_(place)
    assert [part.unique().tolist() for part in parts] == [[0], [1], [2]]


def test_two_requests_share_nothing() -> None:
    first, second = (scratch(torch.device("cpu"), (8,))[0] for _ in range(2))
    assert first.data_ptr() != second.data_ptr()


def test_what_lasts_is_made_where_it_is_asked_for() -> None:
    threads = []

    def make() -> list[torch.Tensor]:
        threads.append(threading.get_ident())
        return [torch.ones(3)]

    (made,) = made_to_last(torch.device("cpu"), make)
    assert made.tolist() == [1, 1, 1]
    assert threads == [threading.get_ident()]


def test_fake_memory_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda", 0)
    stream = SimpleNamespace(device_index=0, cuda_stream=0, device=device)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    before = dict(_kept.memory)
    with FakeTensorMode(), FollowingFakes():
        (made,) = scratch(device, (1 << 24, 4))
    assert made.device == device
    assert _kept.memory == before
