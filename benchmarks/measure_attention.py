"""Times attention on a CUDA device beside torch's flash and cuDNN backends, all in one run.

    python benchmarks/measure_attention.py --out FOLDER [--only WORD] [--jobs N] [--budget SECONDS]

Clock and environment are those of `tileops bench`. Ops run as users call them; their programs are
compiled first, in parallel processes. Results are compared with the first of torch's backends that
serves. Where a call is bound by memory, its rate stands beside that of a copy in the same run.
Writes `attention.json` and `attention.txt`.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

if "TILELANG_CACHE_DIR" not in os.environ:  # shared with the compiling processes
    os.environ["TILELANG_CACHE_DIR"] = tempfile.mkdtemp(prefix="attention-")
os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tileops.bench.clock import samples
from tileops.bench.environment import environment

BF16, F16 = torch.bfloat16, torch.float16
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
BOUND = 2e-2  # relative difference of two results in 16 bits
ROUNDS, LAUNCHES = 4, 8

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One call.

    Args:
        name: what is computed.
        dims: the numbers that tell it from others.
        op: name of the op.
        params: of the op.
        inputs: makes the op's inputs.
        work: operations or bytes that the call takes.
        unit: of the work per microsecond, in millions.
        others: the same on the same inputs, by torch.
    """

    name: str
    dims: str
    op: str
    params: Mapping[str, Any]
    inputs: Callable[[], tuple[Any, ...]]
    work: float
    unit: str
    others: Mapping[str, Function] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name} {self.dims}"

    def ours(self) -> Any:
        """The op."""
        import tileops

        return getattr(tileops.ops, self.op)(**self.params)


def draw(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


def by_backends(function: Function) -> dict[str, Function]:
    """The function under each of torch's backends."""

    def under(backend: SDPBackend) -> Function:
        def run(*inputs: Any) -> Any:
            with sdpa_kernel([backend]):
                return function(*inputs)

        return run

    return {label: under(backend) for label, backend in BACKENDS.items()}


def attend(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> Tensor:
    """Attention of `[B, S, H, D]` by torch."""
    rows = (part.transpose(1, 2) for part in (q, k, v))
    out = F.scaled_dot_product_attention(*rows, is_causal=is_causal, enable_gqa=True)
    return out.transpose(1, 2)


def dense(
    batch: int,
    rows: int,
    columns: int,
    heads: tuple[int, int],
    width: int,
    is_causal: bool = True,
    dtype: torch.dtype = BF16,
) -> Case:
    """A batch of equally long requests."""
    op = "GroupedQueryAttentionDenseFwdOp"
    count, kv_count = heads
    halved = 2 if is_causal and rows > 1 else 1
    flops = 4.0 * batch * count * rows * columns * width / halved
    moved = 2.0 * dtype.itemsize * batch * columns * kv_count * width
    decoding = rows == 1

    def inputs() -> tuple[Tensor, ...]:
        q = draw(batch, rows, count, width, dtype=dtype)
        return q, *(draw(batch, columns, kv_count, width, dtype=dtype) for _ in "kv")

    kind = "decode" if decoding else f"prefill {'causal' if is_causal else 'full'}"
    name = str(dtype).removeprefix("torch.")
    return Case(
        kind,
        f"B{batch} S{columns} H{count}/{kv_count} D{width} {name}",
        op,
        {"is_causal": is_causal},
        inputs,
        moved if decoding else flops,
        "TB/s" if decoding else "TFLOP/s",
        by_backends(lambda q, k, v: attend(q, k, v, is_causal and not decoding)),
    )


def paged_decode(batch: int, keys: int, page: int, heads: tuple[int, int], width: int) -> Case:
    """One new token of each request; beside attention over gathered pages."""
    count, kv_count = heads
    entries = -(-keys // page)

    def inputs() -> tuple[Tensor, ...]:
        table = torch.randperm(batch * entries, device="cuda").view(batch, entries).int()
        pages = (draw(batch * entries * page, kv_count, width) for _ in "kv")
        rows = (draw(batch, n, width) for n in (count, kv_count, kv_count))
        one = torch.ones(1, device="cuda")
        starts = torch.arange(batch + 1, device="cuda").int()
        return *rows, *pages, one, one, starts, torch.full_like(starts[1:], keys - 1), table

    def gathered(q, k, v, k_pages, v_pages, *rest):  # type: ignore[no-untyped-def]
        table = rest[-1].long()
        held = [
            part.view(-1, page, kv_count, width)[table].flatten(1, 2) for part in (k_pages, v_pages)
        ]
        for part, new in zip(held, (k, v), strict=True):
            part[:, keys - 1] = new
        return attend(q[:, None], *held, False)[:, 0]

    return Case(
        "paged decode",
        f"B{batch} S{keys} page {page} H{count}/{kv_count} D{width}",
        "GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp",
        {"page_size": page, "max_seqlen_q": 1},
        inputs,
        4.0 * batch * keys * kv_count * width,
        "TB/s",
        by_backends(gathered),
    )


def varlen(lengths: tuple[int, ...], heads: tuple[int, int], width: int, left: int = -1) -> Case:
    """Packed causal requests; beside a call of torch's for each of them, where none is hidden."""
    count, kv_count = heads
    seen = sum(sum(min(i + 1, left + 1) if left >= 0 else i + 1 for i in range(n)) for n in lengths)

    def inputs() -> tuple[Tensor, ...]:
        starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
        rows = (draw(sum(lengths), n, width) for n in (count, kv_count, kv_count))
        return *rows, starts, starts

    def one_by_one(q: Tensor, k: Tensor, v: Tensor, *starts: Tensor) -> Tensor:
        parts = zip(*(part.split(list(lengths)) for part in (q, k, v)), strict=True)
        return torch.cat([attend(*(x[None] for x in part), True)[0] for part in parts])

    return Case(
        "varlen causal",
        f"{'+'.join(map(str, lengths))} H{count}/{kv_count} D{width} left {left}",
        "GroupedQueryAttentionVarlenFwdOp",
        {"window_size_left": left},
        inputs,
        4.0 * count * width * seen,
        "TFLOP/s",
        by_backends(one_by_one) if left < 0 else {},
    )


def paged_prefill(cached: int, new: int, batch: int, heads: tuple[int, int], width: int) -> Case:
    """New tokens behind cached ones; beside attention over keys in a row, without appending."""
    count, kv_count = heads
    keys, page = cached + new, 64
    entries = -(-keys // page)

    def inputs() -> tuple[Tensor, ...]:
        table = torch.randperm(batch * entries, device="cuda").view(batch, entries).int()
        pages = (draw(batch * entries * page, kv_count, width) for _ in "kv")
        rows = (draw(batch * new, n, width) for n in (count, kv_count, kv_count))
        one = torch.ones(1, device="cuda")
        starts = torch.arange(batch + 1, device="cuda").int() * new
        return *rows, *pages, one, one, starts, torch.full_like(starts[1:], cached), table

    return Case(
        "paged prefill",
        f"B{batch} {new} on {cached} H{count}/{kv_count} D{width}",
        "GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp",
        {"page_size": page, "max_seqlen_q": new},
        inputs,
        4.0 * batch * count * width * new * (cached + (new + 1) / 2),
        "TFLOP/s",
    )


def latent(batch: int, entries: int, heads: int, width: int) -> Case:
    """One query of each request over a latent cache; beside two products and a softmax."""
    scale = (width + 64) ** -0.5

    def inputs() -> tuple[Tensor, ...]:
        queries = draw(batch, heads, width), draw(batch, heads, 64)
        return *queries, draw(batch, entries, 1, width), draw(batch, entries, 1, 64)

    def products(q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
        k, k_pe = k[:, :, 0], k_pe[:, :, 0]
        scores = torch.baddbmm(q_pe @ k_pe.mT, q, k.mT)
        return torch.softmax(scores * scale, -1) @ k

    return Case(
        "latent decode",
        f"B{batch} S{entries} H{heads} D{width}+64",
        "MultiHeadLatentAttentionDecodeWithKVCacheFwdOp",
        {},
        inputs,
        2.0 * batch * heads * entries * (2 * width + 64),
        "TFLOP/s",
        {"products": products},
    )


def cases() -> Iterator[Case]:
    """What is measured."""
    llama = 32, 8
    for width, heads in ((128, llama), (64, llama), (256, (16, 4))):
        for batch, length in ((4, 2048), (4, 4096), (1, 16384)):
            for is_causal in (True, False):
                yield dense(batch, length, length, heads, width, is_causal)
    yield varlen((4096,) * 4, llama, 128)
    yield varlen((512,) * 16, llama, 128)
    yield varlen((100, 3000, 17, 8000, 1, 900, 2500, 60), llama, 128)
    yield varlen((2048,) * 4, llama, 128, 1024)
    yield varlen((4096,) * 4, (16, 4), 256)
    yield paged_prefill(0, 4096, 4, llama, 128)
    yield paged_prefill(32768, 1024, 8, llama, 128)
    yield paged_prefill(32768, 1024, 8, llama, 256)
    yield latent(32, 4096, 128, 512)
    yield latent(128, 16384, 128, 512)
    yield latent(16, 4096, 128, 128)
    yield latent(32, 4096, 128, 128)
    yield latent(8, 32768, 128, 128)
    yield paged_decode(8, 32768, 64, llama, 128)
    yield paged_decode(64, 4096, 16, llama, 128)
    yield paged_decode(64, 4096, 64, llama, 128)
    yield dense(8, 1, 32768, llama, 128)
    yield dense(1, 1, 131072, llama, 128)
    yield dense(32, 1, 4096, llama, 128)
    yield dense(8, 1, 4096, (128, 8), 128)
    yield dense(16, 1, 16384, (16, 4), 64)
    yield dense(8, 1, 16384, (16, 4), 256)
    for keys in (1024, 4096, 16384, 65536):
        yield dense(1, 1, keys, (32, 4), 128)
    for is_causal in (True, False):
        yield dense(8, 512, 512, llama, 128, is_causal)


def builds() -> dict[str, Case]:
    """A case of each program: batches, lengths and numbers of requests share one."""
    found: dict[str, Case] = {}
    for case in cases():
        static = " ".join(re.findall(r"(?:H\d+(?:/\d+)?|D[\d+]+|page \d+|b?float16)", case.dims))
        shown = {k: v for k, v in case.params.items() if k != "max_seqlen_q"}
        found.setdefault(f"{case.name} {static} {shown}", case)
    return found


def warm(build: str) -> str | None:
    """Compile a program into the caches; the error's text when that fails."""
    case = builds()[build]
    try:
        case.ours()(*case.inputs())
        torch.cuda.synchronize()
    except Exception as error:
        return f"{case}: {type(error).__name__}: {error}"
    return None


def relative_error(result: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm; infinite where something is not a number."""
    error = (result.double() - expected.double()).norm() / expected.double().norm()
    return error.item() if error.isfinite() else math.inf


def microseconds(launch: Function, inputs: tuple[Tensor, ...], count: int) -> list[float]:
    """Device time of each of `count` launches, each with a cold L2 cache."""
    found = samples(lambda _: launch(*inputs), range(count), torch.device("cuda"))
    return [seconds * 1e6 for seconds in found]


def measure(case: Case) -> dict[str, Any]:
    """Check and time all contestants of a case in turns."""
    inputs = case.inputs()
    launches = {"ours": case.ours(), **case.others}
    results: dict[str, Tensor] = {}
    failed: dict[str, str] = {}
    times: dict[str, list[float]] = {}
    for label, launch in launches.items():
        try:
            results[label] = launch(*inputs).clone()
            microseconds(launch, inputs, 2)
            times[label] = []
        except Exception as error:
            failed[label] = f"{type(error).__name__}: {str(error)[:200]}"
    for _ in range(ROUNDS):
        for label, found in times.items():
            found.extend(microseconds(launches[label], inputs, LAUNCHES))
    other = next((label for label in results if label != "ours"), None)
    error = relative_error(results["ours"], results[other]) if other and "ours" in results else None
    return {
        "case": str(case),
        "unit": case.unit,
        "us": {label: round(median(found), 2) for label, found in times.items()},
        "rate": {label: round(case.work / median(t) / 1e6, 3) for label, t in times.items()},
        "difference": error,
        "right": error is None or error <= BOUND,
        "failed": failed,
    }


def line(result: Mapping[str, Any], copy: float) -> str:
    """One case as text."""
    times, parts = result["us"], [f"{result['case']:<48}"]
    if "ours" in times:
        parts.append(f"{times['ours']:9.1f} us {result['rate']['ours']:8.2f} {result['unit']}")
        if result["unit"] == "TB/s":
            parts.append(f"{result['rate']['ours'] / copy:.2f} of a copy")
        parts += [
            f"{label} {us:.1f} us ({us / times['ours']:.3f})"
            for label, us in times.items()
            if label != "ours"
        ]
    if not result["right"]:
        parts.append(f"WRONG {result['difference']:.1e}")
    parts += [f"FAILED {label}: {text[:100]}" for label, text in result["failed"].items()]
    return " | ".join(parts)


def copy_rate() -> float:
    """Terabytes a second that a copy within the device reads and writes."""
    source = torch.zeros(1 << 30, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / median(microseconds(target.copy_, (source,), 10)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--only", default="", help="measure cases whose text holds this word")
    parser.add_argument("--commit", default="unknown", help="commit that is measured")
    parser.add_argument("--jobs", type=int, default=6, help="processes that compile")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which to stop")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("attention is timed on a CUDA device, and there is none")
    begin = time.perf_counter()
    arguments.out.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in cases() if arguments.only in str(case)]
    needed = [build for build, case in builds().items() if arguments.only in str(case)]
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        faults = [fault for fault in pool.map(warm, needed) if fault]
    copy = copy_rate()
    about = environment(torch.device("cuda"), arguments.commit)
    lines = [f"# {key}: {value}" for key, value in about.items()]
    lines += [f"# compiled in {time.perf_counter() - begin:.0f} s", f"# copy {copy:.2f} TB/s"]
    lines += [f"# {fault}" for fault in faults]
    print("\n".join(lines), flush=True)
    results = []
    for case in chosen:
        if time.perf_counter() - begin > arguments.budget:
            lines.append(f"# not measured in time: {case} and what follows")
            break
        results.append(measure(case))
        lines.append(line(results[-1], copy))
        print(lines[-1], flush=True)
        torch.cuda.empty_cache()
    report = {"environment": about, "copy TB/s": copy, "results": results}
    (arguments.out / "attention.json").write_text(json.dumps(report, indent=1) + "\n")
    (arguments.out / "attention.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
