"""The decoder of `examples/llama.py` on the device: kernels, captured steps, compiled graphs."""

from __future__ import annotations

from dataclasses import replace

import llama
import pytest
import torch
from llama_torch import TorchLlama

CONFIG = replace(llama.SIZES["small"], hidden=512, heads=8, kv_heads=2, head_dim=64, inner=1024)
SCALED = replace(CONFIG, scaling=llama.Scaling(8.0, 1.0, 4.0, 128))
PROMPTS = [[1, 2, 3, 4, 5], [7], list(range(20, 220))]


def session(weights, *, config=CONFIG, forward=None, **choice) -> llama.Session:
    model = llama.Llama(config, weights, page=64, longest=max(map(len, PROMPTS)))
    cache = llama.Cache(config, len(PROMPTS), 256, torch.bfloat16, "cuda", 64)
    sampler = llama.Sampler(len(PROMPTS), "cuda", **choice)
    return llama.Session(model, cache, sampler, forward(model) if forward else None)


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return llama.random_weights(CONFIG, torch.bfloat16, "cuda", seed=4)


@pytest.mark.parametrize("config", [CONFIG, SCALED], ids=["plain", "scaled"])
def test_logits_agree_with_plain_torch_at_every_step(weights, serving, config) -> None:
    plain = TorchLlama(config, {name: part.float() for name, part in weights.items()})
    run = session(weights, config=config)
    worst, _ = llama.largest_difference(run, PROMPTS, 20, plain.logits)
    assert worst <= llama.LIMITS[torch.bfloat16]
    assert serving(run.forward.ops.decode, "paged_prefill") == {"PagedDecodeKernel"}


@pytest.mark.parametrize(
    "choice", [{}, {"top_k": 20, "top_p": 0.9, "seed": 3}, {"config": SCALED}], ids=str
)
def test_captured_steps_are_those_that_are_not_captured(weights, choice) -> None:
    plain, captured = session(weights, **choice), session(weights, **choice)
    captured.prefill(PROMPTS)
    captured.capture()
    captured.cache.lengths.zero_()
    captured.sampler.offset.zero_()
    assert llama.generate(captured, PROMPTS, 12) == llama.generate(plain, PROMPTS, 12)


def test_one_graph_gives_the_same(weights) -> None:
    torch._dynamo.reset()
    compiled = session(weights, forward=llama.compiled)
    eager = session(weights)
    tokens = [run.prefill(PROMPTS) for run in (compiled, eager)]
    assert torch.equal(*tokens)
    compiled.capture()
    for _ in range(4):
        for run in (compiled, eager):
            run.step()
        torch.testing.assert_close(compiled.logits, eager.logits, rtol=2e-2, atol=5e-2)
        eager.tokens.copy_(compiled.tokens)
