"""Memory beside results: kept by stream and thread, fresh while a graph is captured."""

from __future__ import annotations

import threading

import torch

from tileops._core.devices import made_to_last
from tileops._kernels.scratch import scratch
from tileops.gemm import GemmFwdOp

DEVICE = torch.device("cuda", 0)


def place(*shapes: tuple[int, ...]) -> int:
    return scratch(DEVICE, *shapes)[0].data_ptr()


def test_launches_of_a_stream_share_memory_that_grows() -> None:
    first = place((100,))
    assert place((50, 2)) == first == place((3,), (4, 5))
    grown = place((1 << 20,))
    assert place((100,)) == grown


def test_parts_lie_beside_each_other() -> None:
    one, two = scratch(DEVICE, (3, 5), (7,))
    assert one.shape == (3, 5)
    assert two.shape == (7,)
    one.zero_()
    two.fill_(1)
    assert not one.any()


def test_other_streams_and_threads_have_their_own() -> None:
    places = [place((100,))]
    with torch.cuda.stream(torch.cuda.Stream()):
        places.append(place((100,)))
    thread = threading.Thread(target=lambda: places.append(place((100,))))
    thread.start()
    thread.join()
    assert len(set(places)) == 3


def test_what_a_graph_captured_is_not_written_by_other_launches() -> None:
    op = GemmFwdOp()
    a = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(512, 4096, device="cuda", dtype=torch.bfloat16)
    expected = op(a, b)
    assert op.last_call is not None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = op(a, b)
        inside = place((100,))
    assert inside != place((100,))
    others = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    for _ in range(50):
        with torch.cuda.stream(side):
            op(others, b)
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, expected)


def test_what_lasts_lies_outside_the_pool_in_use() -> None:
    count, pool = 1 << 22, torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        ones = torch.ones(count, device=DEVICE)
        (twice,) = made_to_last(DEVICE, lambda: [2 * ones])
    segments = [(part["address"], part["total_size"]) for part in pool.snapshot()]

    def is_inside(tensor: torch.Tensor) -> bool:
        return any(start <= tensor.data_ptr() < start + size for start, size in segments)

    assert is_inside(ones)
    assert not is_inside(twice)
    assert twice.sum().item() == 2 * count
