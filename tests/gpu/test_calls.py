"""How the TileLang kernels are called: compiled, captured, on streams, from threads, left out."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tileops.gemm import GemmFwdOp
from tileops.norm import RMSNormFwdOp

HALVES = [torch.float16, torch.bfloat16]


def norm_and_inputs(draw, dtype):
    return RMSNormFwdOp([4096]), (draw(33, 4096, dtype=dtype), draw(4096, dtype=dtype))


def gemm_and_inputs(draw, dtype):
    return GemmFwdOp(), (draw(130, 512, dtype=dtype), draw(264, 512, dtype=dtype))


OPS = pytest.mark.parametrize("make", [norm_and_inputs, gemm_and_inputs], ids=["norm", "gemm"])


@OPS
@pytest.mark.parametrize("dtype", HALVES)
def test_a_cold_op_compiles_whole(draw, make, dtype):
    op, inputs = make(draw, dtype)
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True)
    output = compiled(*inputs)
    eager = op(*inputs)
    assert torch.equal(output, eager)
    assert output.stride() == eager.stride()
    assert {entry.__name__ for entry, _ in op.built_entries(next(iter(op.interfaces)))} <= {
        "RMSNormOnChipKernel",
        "GemmPipelinedKernel",
    }


@OPS
def test_a_call_is_captured_and_replayed(draw, make):
    op, inputs = make(draw, torch.bfloat16)
    op(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = op(*inputs)
    for _ in range(3):
        inputs[0].copy_(draw(*inputs[0].shape, dtype=torch.bfloat16))
        graph.replay()
        assert torch.equal(output, op(*inputs))


@OPS
def test_a_call_runs_on_the_current_stream(draw, make):
    op, inputs = make(draw, torch.float16)
    expected = op(*inputs)
    late = torch.zeros_like(inputs[0])
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        late.copy_(inputs[0])
        output = op(late, *inputs[1:])
    stream.synchronize()
    assert torch.equal(output, expected)


@OPS
def test_first_calls_of_several_threads_make_one_program(draw, make, programs):
    op, inputs = make(draw, torch.bfloat16)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: op(*inputs), range(6)))
    assert all(torch.equal(result, results[0]) for result in results)
    assert len(programs) == 1


@OPS
def test_constructing_compiles_nothing_and_the_first_call_does(draw, make, programs):
    op, inputs = make(draw, torch.float16)
    assert not programs
    op(*inputs)
    assert len(programs) == 1


WITHOUT_TILELANG = """
import importlib.util, warnings
whole = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "tilelang" else whole(name, *rest)
import torch
from tileops.gemm import GemmFwdOp
from tileops.norm import RMSNormFwdOp
x = torch.randn(8, 64, device="cuda", dtype=torch.float16)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    norm, gemm = RMSNormFwdOp([64]), GemmFwdOp()
    norm(x), gemm(x, x), RMSNormFwdOp([64])(x)
entries = [*norm.built_entries("rms_norm"), *gemm.built_entries("gemm")]
names = [kernel.__name__ for kernel, _ in entries]
texts = [str(warning.message) for warning in caught if "TileLang" in str(warning.message)]
print(names, len(texts), texts)
"""


def test_without_tilelang_torch_serves_with_one_warning():
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TILELANG], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("['RMSNormPortableKernel', 'GemmPortableKernel'] 1 ")
    assert "pip install 'tileops[cuda]'" in run.stdout
