"""Tokens a second of `examples/llama.py` beside the same model by torch, compiled, in one run.

    python benchmarks/measure_llama.py --out FOLDER [--size 8b] [--batch 1,16] [--prompt 1024]

First the logits of every step are compared with those of the float32 model, of both models. Then
all requests read prompts of one length, and every model answers: its steps run as one CUDA graph
each, greedy sampling included, and are timed in turns. Both are compiled a layer at a time, each
layer one graph; our programs are made before, in parallel processes. Writes `llama.json` and
`llama.txt`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

if "TILELANG_CACHE_DIR" not in os.environ:  # shared with the compiling processes
    os.environ["TILELANG_CACHE_DIR"] = tempfile.mkdtemp(prefix="llama-")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.environ["TILELANG_CACHE_DIR"] + "-inductor")
os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")

import torch
from torch import Tensor

if "llama" not in sys.modules:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
    sys.path.insert(0, str(Path(__file__).parent))

from llama import (
    SIZES,
    Cache,
    Config,
    Llama,
    Ops,
    Sampler,
    Session,
    largest_difference,
    random_weights,
)
from llama_torch import TorchLlama

from tileops.bench.environment import environment

PAGE, ROUNDS = 64, 3
LIMIT = 5e-2  # relative difference of logits in bfloat16


def session_of(config: Config, weights: Any, requests: int, rows: int, longest: int) -> Session:
    """Ours for so many requests of so many rows."""
    model = Llama(config, weights, page=PAGE, longest=longest)
    cache = Cache(config, requests, rows, torch.bfloat16, "cuda", PAGE)
    return Session(model, cache, Sampler(requests, "cuda"))


def pieces(config: Config, requests: int, length: int) -> dict[str, Callable[[], Any]]:
    """Calls that together make every program of a decoder with so many requests."""
    ops = Ops.of(config, PAGE, length)
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    hidden, inner = config.hidden, config.inner

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, device="cuda").bfloat16()

    def attend(tokens: int) -> Tensor:
        cache = Cache(replace(config, layers=1), requests, length + 8, torch.bfloat16, "cuda", PAGE)
        rows = (drawn(requests * tokens, n, config.head_dim)
                for n in (config.heads, config.kv_heads, config.kv_heads))  # fmt: skip
        starts = torch.arange(requests + 1, device="cuda").int() * tokens
        one = torch.ones(1, device="cuda")
        attention = ops.decode if tokens == 1 else ops.prefill
        pages = cache.keys[0], cache.values[0]
        return attention(*rows, *pages, one, one, starts, cache.lengths, cache.table)

    def multiply(m: int, n: int, k: int) -> Callable[[], Any]:
        return lambda: ops.gemm(drawn(m, k), drawn(n, k))

    def norms() -> None:
        for m in (requests, requests * length):
            ops.norm(drawn(m, hidden), drawn(hidden))
            ops.add_norm(drawn(m, hidden), drawn(m, hidden), drawn(hidden))
            ops.gate(drawn(m, 2 * inner))

    weights = [(q + 2 * kv, hidden), (hidden, q), (2 * inner, hidden), (hidden, inner)]
    products = {f"{m} x {n} x {k}": multiply(m, n, k)
                for m in (requests, 112, requests * length) for n, k in weights}  # fmt: skip
    return {
        "prefill": lambda: attend(length),
        "decode": lambda: attend(1),
        "norms": norms,
        "choice": lambda: Sampler(requests, "cuda")(drawn(requests, config.vocabulary)),
        "head": multiply(requests, config.vocabulary, hidden),
        **products,
    }


def warm(task: tuple[str, int, int, str]) -> str | None:
    """Make the programs of one piece, or compile one layer of both models; the error's text."""
    size, requests, length, piece = task
    config = replace(SIZES[size], layers=1)
    try:
        if piece == "layer":
            measure(config, random_weights(config, torch.bfloat16, "cuda"), requests, length, 1)
        else:
            pieces(config, requests, length)[piece]()
        torch.cuda.synchronize()
    except Exception as error:
        return f"{task}: {type(error).__name__}: {error}"
    return None


def prepare(size: str, batches: Sequence[int], length: int, jobs: int) -> list[str]:
    """Fill the caches of compiled programs in parallel processes; the errors."""
    tasks = [
        (size, requests, length, piece)
        for requests in (2, *batches)
        for piece in pieces(SIZES[size], requests, length)
    ]
    layers = [(size, requests, length, "layer") for requests in batches]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        return [fault for part in (tasks, layers) for fault in pool.map(warm, part) if fault]


def agreement(config: Config, weights: Any, steps: int) -> dict[str, float]:
    """How far both models' logits are from the float32 model's."""
    wide = TorchLlama(config, {name: part.float() for name, part in weights.items()})
    prompts = [list(range(1, 100)), list(range(7, 20))]
    session = session_of(config, weights, len(prompts), 128, 99)
    worst, answers = largest_difference(session, prompts, steps, wide.logits)
    narrow = TorchLlama(config, weights)
    texts = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
    pairs = [(narrow.logits(text), wide.logits(text)) for text in map(torch.tensor, texts)]
    torchs = max(((a.float() - b).norm() / b.norm()).item() for a, b in pairs)
    return {"ours": worst, "torch": torchs}


class TorchSession:
    """The compiled model by torch: greedy steps of equally long requests, as one CUDA graph."""

    def __init__(self, config: Config, weights: Any, requests: int, rows: int) -> None:
        self.model = TorchLlama(config, weights)
        self.model.compile_layers()
        self.model.reserve(requests, rows)
        self.tokens = torch.zeros(requests, 1, dtype=torch.int64, device="cuda")
        self.position = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.graph: torch.cuda.CUDAGraph | None = None

    def prefill(self, prompts: Tensor) -> None:
        """Read the prompts `[B, S]`."""
        self.tokens.copy_(self.model.prefill(prompts).argmax(-1, keepdim=True))
        self.position.fill_(prompts.shape[1])

    def _run(self) -> None:
        self.tokens.copy_(self.model.step(self.tokens, self.position).argmax(-1, keepdim=True))
        self.position += 1

    def capture(self) -> None:
        """Make steps replays."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._run()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._run()

    def step(self) -> None:
        """Read the last tokens, choose the next."""
        assert self.graph is not None
        self.graph.replay()


def seconds(run: Callable[[], Any], count: int = 1) -> float:
    """Of each of `count` runs, on the device."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(count):
        run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / 1e3 / count


def measure(config: Config, weights: Any, requests: int, length: int, steps: int) -> dict[str, Any]:
    """Tokens a second of prompts and of answers, by both models."""
    rows = length + (ROUNDS + 1) * steps + 8
    generator = torch.Generator().manual_seed(requests)
    prompts = torch.randint(config.vocabulary, (requests, length), generator=generator)
    listed: Sequence[Sequence[int]] = prompts.tolist()
    begin = time.perf_counter()
    ours = session_of(config, weights, requests, rows, length)
    for layer in ours.forward.layers:
        layer.compile(fullgraph=True, dynamic=False)
    other = TorchSession(config, weights, requests, rows)
    on_device = prompts.cuda()

    def read_ours() -> None:
        ours.cache.lengths.zero_()
        ours.prefill(listed)

    readers = {"ours": read_ours, "torch": lambda: other.prefill(on_device)}
    reading: dict[str, float] = {}
    for name, read in readers.items():
        read()  # compiles
        reading[name] = requests * length / seconds(read)
    ours.capture()
    other.capture()
    built = time.perf_counter() - begin
    writers = {"ours": ours.step, "torch": other.step}
    times: dict[str, list[float]] = {name: [] for name in writers}
    for _ in range(ROUNDS):
        for name, write in writers.items():
            times[name].append(seconds(write, steps))
    return {
        "requests": requests,
        "prompt": length,
        "prompt tokens/s": {name: round(rate) for name, rate in reading.items()},
        "tokens/s": {name: round(requests / median(t), 1) for name, t in times.items()},
        "ms a step": {name: round(1e3 * median(t), 3) for name, t in times.items()},
        "seconds to build": round(built, 1),
    }


def line(result: dict[str, Any]) -> str:
    """One row as text."""
    rates, prompt = result["tokens/s"], result["prompt tokens/s"]
    return (
        f"{result['requests']:3d} requests, prompts of {result['prompt']}: "
        f"{rates['ours']:9.1f} tokens/s, torch {rates['torch']:9.1f} "
        f"({rates['ours'] / rates['torch']:.3f}); prompts {prompt['ours']} tokens/s, torch "
        f"{prompt['torch']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--size", choices=SIZES, default="8b")
    parser.add_argument("--batch", default="1,16", help="numbers of requests")
    parser.add_argument("--prompt", type=int, default=1024, help="tokens of a prompt")
    parser.add_argument("--steps", type=int, default=32, help="of each of the rounds")
    parser.add_argument("--jobs", type=int, default=12, help="processes that compile")
    parser.add_argument("--commit", default="unknown", help="commit that is measured")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("the decoder is timed on a CUDA device, and there is none")
    arguments.out.mkdir(parents=True, exist_ok=True)
    config, batches = SIZES[arguments.size], [int(n) for n in arguments.batch.split(",")]
    begin = time.perf_counter()
    faults = prepare(arguments.size, batches, arguments.prompt, arguments.jobs)
    made = time.perf_counter() - begin
    weights = random_weights(config, torch.bfloat16, "cuda")
    about = environment(torch.device("cuda"), arguments.commit)
    lines = [f"# {key}: {value}" for key, value in about.items()]
    lines += [f"# programs made in {made:.0f} s", *(f"# {fault}" for fault in faults)]
    print("\n".join(lines), flush=True)
    results: list[dict[str, Any]] = []
    apart = agreement(config, weights, 6)
    torch.cuda.empty_cache()
    lines.append(f"# logits, difference from float32: ours {apart['ours']:.1e}, torch "
                 f"{apart['torch']:.1e}, limit {LIMIT:.0e}")  # fmt: skip
    print(lines[-1], flush=True)
    for requests in batches:
        torch._dynamo.reset()
        results.append(measure(config, weights, requests, arguments.prompt, arguments.steps))
        lines.append(line(results[-1]))
        print(lines[-1], flush=True)
        report = {"environment": about, "size": arguments.size, "logits": apart,
                  "results": results}  # fmt: skip
        (arguments.out / "llama.json").write_text(json.dumps(report, indent=1) + "\n")
        (arguments.out / "llama.txt").write_text("\n".join(lines) + "\n")
    return int(apart["ours"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
