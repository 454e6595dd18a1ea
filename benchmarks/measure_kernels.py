"""Times the TileLang kernels on a CUDA device beside PyTorch, its compiler and cuBLAS.

    python benchmarks/measure_kernels.py --out FOLDER [--only WORD]

Device time by events, the L2 cache emptied before every launch, inputs rotated, all contestants of
a case in turns within one run; medians. Results are checked against float64 before and after. The
programs are compiled first, in parallel processes. Writes `kernels.json` and `kernels.txt`.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

if "TILELANG_CACHE_DIR" not in os.environ:  # shared with the compiling processes
    os.environ["TILELANG_CACHE_DIR"] = tempfile.mkdtemp(prefix="kernels-")
os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.bench import clock as bench_clock
from tileops.bench.environment import environment as bench_environment

ROUNDS, LAUNCHES, WARM_UP = 5, 20, 3
SETS = 3  # of inputs, used in rotation
EPS = 1e-6
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
BOUND = {F32: 2e-6, F16: 6e-4, BF16: 4e-3}  # relative error of one rounding

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Ours:
    """One of our kernels: constants and the entries of its configuration that differ."""

    kernel: str
    constants: tuple[Any, ...]
    config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def built(self) -> Any:
        """The kernel with its configuration."""
        from tileops.gemm import kernels as gemm
        from tileops.norm import kernels as norm

        kind = getattr(gemm if "Gemm" in self.kernel else norm, self.kernel)
        kernel = kind(*self.constants)
        if self.config:
            kernel.config = {**kernel.default_config, **self.config}
        return kernel


@dataclass(frozen=True)
class Case:
    """One problem: what is computed, how much work it is, and who computes it."""

    name: str
    dims: tuple[int, ...]
    dtype: torch.dtype
    unit: str
    work: float
    inputs: Callable[[], Inputs]
    expected: Callable[..., Tensor]
    ours: Mapping[str, Ours]
    others: Mapping[str, Callable[..., Tensor]]

    def __str__(self) -> str:
        short = str(self.dtype).removeprefix("torch.")
        return f"{self.name} {'x'.join(map(str, self.dims))} {short}"


def norm_case(rows: int, n: int, dtype: torch.dtype, *, weighted: bool = True) -> Case:
    """RMSNorm; work is the bytes of one read and one write of the matrix and the weight."""
    from tileops.norm.kernels import RMSNormCall, RMSNormOnChipKernel

    call = RMSNormCall(n, EPS, weighted, dtype, arch=90)
    on_chip = RMSNormOnChipKernel.refusal(call) is None
    if on_chip:
        kind, constants = "RMSNormOnChipKernel", (n, dtype, EPS, weighted)
        configs = [{}] + [{"lanes": lanes, "rows": 1} for lanes in (128, 256, 512)
                          if n // lanes <= 64 and lanes * 2 <= n]  # fmt: skip
    else:
        vector = math.gcd(16 // dtype.itemsize, n)
        kind, constants = "RMSNormStreamingKernel", (vector, dtype, EPS, weighted)
        configs = [{}, {"threads": 1024, "unroll": 2}, {"threads": 1024, "unroll": 4}]
    ours = {
        " ".join(f"{key}={value}" for key, value in config.items()) or "default": Ours(
            kind, constants, config
        )
        for config in configs
    }

    def inputs() -> Inputs:
        x = torch.randn(rows, n, device="cuda").to(dtype)
        return (x, torch.randn(n, device="cuda").to(dtype)) if weighted else (x, None)

    def norm(x: Tensor, weight: Tensor | None) -> Tensor:
        return F.rms_norm(x, (n,), weight, EPS)

    def expected(x: Tensor, weight: Tensor | None) -> Tensor:
        return norm(x.double(), None if weight is None else weight.double())

    work = (2 * rows * n + n * weighted) * dtype.itemsize
    name = "rms_norm" if weighted else "rms_norm without weight"
    others = {"torch": norm, "torch.compile": torch.compile(norm, dynamic=False)}
    return Case(name, (rows, n), dtype, "TB/s", work, inputs, expected, ours, others)


def gemm_case(m: int, n: int, k: int, layout: str, dtype: torch.dtype, *walks: Any) -> Case:
    """A product; work is its floating-point operations. `walks` are (tile, group, cluster)."""
    from tileops.gemm.kernels import TILES, GemmCall, GemmPipelinedKernel

    trans_a, trans_b = layout[0] == "T", layout[1] == "T"
    call = GemmCall(m, n, k, trans_a, trans_b, dtype, device=torch.device("cuda"))
    constants, _ = GemmPipelinedKernel.entry_for(call)
    ours = {"default": Ours("GemmPipelinedKernel", constants)}
    for place, group, cluster in walks:
        tile = TILES[place]
        label = f"{'x'.join(map(str, tile))} group={group} cluster={cluster}"
        ours[label] = Ours(
            "GemmPipelinedKernel",
            (*constants[:3], tile, constants[4]),
            {"group": group, "cluster": cluster},
        )

    def inputs() -> Inputs:
        a = torch.randn(*((k, m) if trans_a else (m, k)), device="cuda").to(dtype)
        return a, torch.randn(*((n, k) if trans_b else (k, n)), device="cuda").to(dtype)

    def product(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a.mT if trans_a else a, b.mT if trans_b else b)

    def expected(a: Tensor, b: Tensor) -> Tensor:
        return product(a.float(), b.float())

    others = {"cuBLAS": product}
    return Case(
        f"gemm {layout}", (m, n, k), dtype, "TFLOP/s", 2 * m * n * k, inputs, expected, ours, others
    )


def cases() -> Iterator[Case]:
    """What is measured."""
    yield norm_case(8192, 4096, BF16)
    yield norm_case(8192, 4096, F16)
    yield norm_case(8192, 4096, BF16, weighted=False)
    for rows in (2048, 128, 1):
        yield norm_case(rows, 4096, BF16)
    yield norm_case(2048, 8192, BF16)
    yield norm_case(2048, 16384, BF16)
    yield norm_case(4096, 4096, F32)
    yield norm_case(4096, 4097, BF16)
    yield norm_case(131072, 128, BF16)
    yield norm_case(512, 65536, BF16)
    walks = [(0, group, cluster) for group in (4, 8, 16, 32) for cluster in (1, 2)]
    yield gemm_case(4096, 4096, 7168, "NT", BF16, *walks)
    yield gemm_case(4096, 4096, 7168, "NT", F16, (0, 8, 2))
    for layout in ("NN", "TT", "TN"):
        yield gemm_case(4096, 4096, 7168, layout, BF16, (0, 8, 2))
    yield gemm_case(8192, 8192, 8192, "NT", BF16, *walks)
    tiles = [(place, 8, cluster) for place in range(4) for cluster in (1, 2)]
    for m, n, k in (
        (4096, 2112, 7168), (4096, 7168, 2048), (4096, 24576, 1536), (4096, 7168, 16384),
        (4097, 4104, 1000), (2048, 4096, 4096), (1024, 1024, 1024), (512, 4096, 4096),
        (128, 2112, 7168), (128, 7168, 2048), (64, 7168, 2048), (16, 4096, 7168),
    ):  # fmt: skip
        yield gemm_case(m, n, k, "NT", BF16, *tiles)
    yield gemm_case(1024, 1024, 1024, "NN", F16)


def build(ours: Ours) -> str | None:
    """Compile one program into the cache; the error's text when that fails."""
    try:
        ours.built.program()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def relative_error(result: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm; infinite where something is not a number."""
    error = (result.double() - expected.double()).norm() / expected.double().norm()
    return error.item() if error.isfinite() else math.inf


class Clock:
    """The bench's clock: times launches on the device, each with a cold L2 cache."""

    def microseconds(
        self, launch: Callable[..., Any], sets: list[Inputs], count: int
    ) -> list[float]:
        """Device time of each of `count` launches."""
        found = bench_clock.samples(
            lambda turn: launch(*sets[turn % len(sets)]), range(count), torch.device("cuda")
        )
        return [seconds * 1e6 for seconds in found]


def measure(case: Case, clock: Clock) -> dict[str, Any]:
    """Check and time every contestant of a case."""
    sets = [case.inputs() for _ in range(SETS)]
    expected = case.expected(*sets[0])
    launches = {f"ours, {label}": ours.built for label, ours in case.ours.items()}
    launches |= case.others
    times: dict[str, list[float]] = {}
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    for label, launch in launches.items():
        try:
            errors[label] = relative_error(launch(*sets[0]), expected)
            clock.microseconds(launch, sets, WARM_UP)
            times[label] = []
        except Exception as error:
            failed[label] = f"{type(error).__name__}: {error}"
    for _ in range(ROUNDS):
        for label, samples in times.items():
            samples.extend(clock.microseconds(launches[label], sets, LAUNCHES))
    for label in times:
        errors[label] = max(errors[label], relative_error(launches[label](*sets[0]), expected))
    return {
        "case": str(case),
        "unit": case.unit,
        "bound": BOUND[case.dtype],
        "contestants": {
            label: {
                "us": round(median(samples), 2),
                "spread_us": [round(min(samples), 2), round(max(samples), 2)],
                "rate": round(case.work / median(samples) / 1e6, 3),
                "error": errors[label],
                "right": errors[label] <= BOUND[case.dtype],
            }
            for label, samples in times.items()
        },
        "failed": failed,
    }


def line(result: Mapping[str, Any]) -> str:
    """One case as text: ours by default, the fastest of ours, and the others."""
    found = result["contestants"]
    ours = {label: item for label, item in found.items() if label.startswith("ours")}
    parts = [f"{result['case']:<34}"]
    if ours:
        fastest = min(ours, key=lambda label: ours[label]["us"])
        default = ours.get("ours, default", ours[fastest])
        parts.append(f"{default['us']:9.1f} us {default['rate']:8.2f} {result['unit']}")
        parts.append(f"fastest {fastest.removeprefix('ours, ')}: {ours[fastest]['us']:.1f} us")
        parts += [
            f"{label} {item['us']:.1f} us ({item['us'] / default['us']:.2f})"
            for label, item in found.items()
            if label not in ours
        ]
        parts += [f"WRONG {label} {item['error']:.1e}" for label, item in found.items()
                  if not item["right"]]  # fmt: skip
    parts += [f"FAILED {label}: {text[:120]}" for label, text in result["failed"].items()]
    return " | ".join(parts)


def goals(results: list[Mapping[str, Any]]) -> Iterator[str]:
    """Whether the figures that the project promises are met."""
    by_case = {result["case"]: result["contestants"] for result in results}
    norm = by_case.get("rms_norm 8192x4096 bfloat16", {}).get("ours, default")
    if norm:
        yield f"RMSNorm 8192x4096 bfloat16: {norm['rate']:.2f} TB/s, promised 3.3"
    product = by_case.get("gemm NT 4096x4096x7168 bfloat16", {})
    if "ours, default" in product and "cuBLAS" in product:
        ratio = product["cuBLAS"]["us"] / product["ours, default"]["us"]
        yield f"GEMM 4096x4096x7168 bfloat16: {ratio:.3f} of cuBLAS, promised 0.95"


def environment(commit: str) -> dict[str, str | None]:
    """What the figures depend on."""
    return {**bench_environment(torch.device("cuda"), commit), "date": time.strftime("%Y-%m-%d")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--only", default="", help="measure cases whose name holds this word")
    parser.add_argument("--commit", default="unknown", help="commit that is measured")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("kernels are timed on a CUDA device, and there is none")
    arguments.out.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in cases() if arguments.only in str(case)]
    specs = {repr(ours): ours for case in chosen for ours in case.ours.values()}
    begin = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        faults = list(pool.map(build, specs.values()))
    lines = [f"# {key}: {value}" for key, value in environment(arguments.commit).items()]
    lines.append(f"# {len(specs)} programs compiled in {time.perf_counter() - begin:.0f} s")
    lines += [f"# {name}: {fault}" for name, fault in zip(specs, faults, strict=True) if fault]
    print("\n".join(lines), flush=True)
    clock = Clock()
    results = []
    for case in chosen:
        results.append(measure(case, clock))
        lines.append(line(results[-1]))
        print(lines[-1], flush=True)
        report = {"environment": environment(arguments.commit), "results": results}
        (arguments.out / "kernels.json").write_text(json.dumps(report, indent=1) + "\n")
        (arguments.out / "kernels.txt").write_text("\n".join(lines) + "\n")
        torch.cuda.empty_cache()
    lines += [f"# {goal}" for goal in goals(results)]
    print("\n".join(lines[-2:]), flush=True)
    (arguments.out / "kernels.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
