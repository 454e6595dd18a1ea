"""Distributed tensors: an op takes the local ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.experimental import local_map
from toys import add_op


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """A mesh of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_local_tensors_are_taken_and_distributed_ones_refused(mesh: DeviceMesh) -> None:
    op, x = add_op()(2.0), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    whole, rows = DTensor.from_local(x, mesh, [Shard(0)]), [Shard(0)]
    mapped = local_map(op, out_placements=rows, in_placements=(rows, rows), device_mesh=mesh)
    assert torch.equal(mapped(whole, whole).to_local(), 3 * x)
    with pytest.raises(NotImplementedError, match="does not have a sharding strategy registered"):
        op(whole, whole)
