"""A training step of a block of ops on the device: eager, compiled, and as a CUDA graph."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tileops.elementwise import SiluAndMulFwdOp
from tileops.gemm import GemmFwdOp
from tileops.norm import FusedAddRMSNormFwdOp, RMSNormFwdOp
from tileops.rope import RoPEFwdOp

WIDTH, HIDDEN = 256, 512


class Block(nn.Module):
    """A norm, a gated layer, and a norm of its sum with the input; by ops, or by torch alone."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(2 * HIDDEN, WIDTH) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(WIDTH, HIDDEN) / HIDDEN**0.5)
        self.first, self.second = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.to("cuda", dtype)
        self.norm, self.add_norm = RMSNormFwdOp([WIDTH], eps=1e-6), FusedAddRMSNormFwdOp()
        self.gemm, self.gate, self.rope = GemmFwdOp(), SiluAndMulFwdOp(), RoPEFwdOp()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.gate(self.gemm(self.norm(self.rope(x), self.first), self.up))
        output, total = self.add_norm(self.gemm(hidden, self.down), x, self.second)
        return output + total

    def by_torch(self, x: Tensor) -> Tensor:
        rotated = torch.view_as_complex(torch.stack(x.float().chunk(2, -1), -1).contiguous())
        frequency = 10000.0 ** (-torch.arange(0, WIDTH, 2, device=x.device).double() / WIDTH)
        angle = torch.arange(len(x), device=x.device)[:, None] * frequency
        turned = rotated * torch.polar(torch.ones_like(angle), angle).to(rotated.dtype)
        y = torch.cat((turned.real, turned.imag), -1).to(x.dtype)
        y = nn.functional.rms_norm(y, (WIDTH,), self.first, 1e-6) @ self.up.T
        total = nn.functional.silu(y[:, :HIDDEN]) * y[:, HIDDEN:] @ self.down.T + x
        return nn.functional.rms_norm(total, (WIDTH,), self.second, 1e-6) + total


def gradients(block: Block, function, x: Tensor) -> list[Tensor]:
    """The gradients of a training step, copied out of the memory of a graph."""
    leaf = x.clone().requires_grad_()
    torch.compiler.cudagraph_mark_step_begin()
    function(leaf).float().square().mean().backward()
    found = [leaf.grad, *(parameter.grad for parameter in block.parameters())]
    copies = [gradient.clone() for gradient in found]
    block.zero_grad()
    return copies


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mode", ["eager", "default", "reduce-overhead"])
def test_a_training_step_has_the_gradients_of_torch(draw, dtype, mode):
    torch.manual_seed(3)
    torch._dynamo.reset()
    block = Block(dtype)
    wide = copy.deepcopy(block).double()
    step = block if mode == "eager" else torch.compile(block, fullgraph=True, mode=mode)
    for _ in range(3):
        x = draw(64, WIDTH, dtype=dtype)
        wanted = gradients(wide, wide.by_torch, x.double())
        for found, exact in zip(gradients(block, step, x), wanted, strict=True):
            scale = exact.abs().max().item()
            bound = scale * (2e-2 if dtype is torch.bfloat16 else 1e-4)
            torch.testing.assert_close(found.double(), exact, rtol=0, atol=bound)
    torch._dynamo.reset()
