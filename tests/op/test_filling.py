"""The operator by which kernels of ops without tensors launch."""

from __future__ import annotations

import gc

import pytest
import torch
from torch._subclasses import FakeTensorMode
from toys import switches

from tileops._core.dispatch import filling
from tileops._core.dispatch.filling import fill, key_of
from tileops.errors import TileOpsError
from tileops.kernels import Kernel


class Sevens(Kernel):
    needs_tilelang = False

    def make_program(self, config):
        return lambda output: output.fill_(7)

    def forward(self):
        raise NotImplementedError


def test_program_writes_to_the_tensor():
    kernel, output = Sevens(), torch.full((3,), torch.nan)
    fill(output, key_of(kernel))
    assert output.tolist() == [7, 7, 7]


def test_program_is_made_and_runs_on_the_device_of_the_tensor(monkeypatch):
    """There is no other tensor to tell it by; the current device may be another."""
    log, output = switches(monkeypatch, filling), torch.empty(3)

    class Watching(Sevens):
        def make_program(self, config):
            log.append("make")
            return lambda output: log.append("run")

    kernel = Watching()
    fill(output, key_of(kernel))
    assert log == [("enter", output.device), "make", "run", ("leave", output.device)]


def test_graph_holds_the_launch_and_allocates_the_tensor():
    kernel = Sevens()
    key, graphs = key_of(kernel), []

    def function(x):
        output = torch.empty(3)
        fill(output, key)
        return output + x

    def keep(graph, _):
        graphs.append(graph)
        return graph

    compiled = torch.compile(function, fullgraph=True, backend=keep)
    assert compiled(torch.ones(3)).tolist() == [8, 8, 8]
    names = [str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert "tileops.fill" in names or "tileops.fill.default" in names


def test_fake_tensors_launch_nothing():
    key = key_of(Sevens())
    with FakeTensorMode():
        fill(torch.empty(3), key)


def test_kernel_that_is_gone_is_named():
    key = key_of(Sevens())
    gc.collect()
    with pytest.raises(TileOpsError, match="no live instance has the key 'Sevens#"):
        fill(torch.empty(3), key)


def test_keys_are_never_used_again():
    kernel = Sevens()
    assert key_of(kernel) != key_of(kernel)
