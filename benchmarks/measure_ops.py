"""Times memory-bound ops on a CUDA device beside PyTorch and its compiler.

    python benchmarks/measure_ops.py --out FOLDER [--only WORD] [--peers CSV]

Clock and report are those of `measure_kernels`. Ops run as users call them, with their default
configuration. What has to be compiled is compiled first, in parallel processes. Writes `ops.json`
and `ops.txt`. With `--peers`, a table of other libraries' times by op, case and dtype, each line
has the best of them.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

if "TILELANG_CACHE_DIR" not in os.environ:  # shared with the compiling processes
    os.environ["TILELANG_CACHE_DIR"] = tempfile.mkdtemp(prefix="ops-")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.environ["TILELANG_CACHE_DIR"] + "-inductor")
os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")

if str(Path(__file__).parent) not in sys.path:  # compiling processes import this file by its path
    sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.nn.functional as F
from measure_kernels import LAUNCHES, ROUNDS, SETS, WARM_UP, Clock, environment
from torch import Tensor

BF16, F16, F32, BOOL = torch.bfloat16, torch.float16, torch.float32, torch.bool
BOUND = {F32: 4e-6, F16: 8e-4, BF16: 8e-3}  # relative error of a rounding, of torch's own too
COPY = 4.28e12  # bytes a second that a copy of the device moves

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One call of an op.

    Args:
        op: name of the op without `FwdOp`.
        label: of the case in the table of peers.
        shapes: of the inputs.
        dtypes: of the inputs.
        other: the same by torch.
        settings: parameters of the op.
        moved: bytes that must be read and written; computed from inputs and result where 0.
    """

    op: str
    label: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    other: Function
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shapes = " ".join("x".join(map(str, shape)) or "()" for shape in self.shapes)
        dtype = str(self.dtypes[-1]).removeprefix("torch.")
        return f"{self.op} {self.label} {shapes} {dtype}"

    def inputs(self) -> tuple[Tensor, ...]:
        """Random inputs on the device."""
        made = []
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            x = torch.randn(shape, device="cuda")
            if dtype is BOOL:
                x = x > 0
            elif not dtype.is_floating_point:
                x = x * 100
            made.append(x.to(dtype))
        return tuple(made)

    def ours(self) -> Any:
        """The op."""
        import tileops

        return getattr(tileops.ops, f"{self.op}FwdOp")(**self.settings)


def unary(op: str, other: Function, **settings: Any) -> Iterator[Case]:
    """A function of one tensor of 4096² and 16384² elements."""
    for n, label in ((4096, "elementwise-16M"), (16384, "elementwise-256M")):
        yield Case(op, label, ((n, n),), (BF16,), other, settings)


def same(
    op: str, label: str, shapes: Any, dtype: torch.dtype, other: Function, **settings: Any
) -> Case:
    """A function of tensors of one dtype."""
    return Case(op, label, shapes, (dtype,) * len(shapes), other, settings)


HIDDEN, WHOLE, LARGE = (2048, 4096), (4096, 4096), (16384, 16384)


def pointwise_cases() -> Iterator[Case]:
    """Flat and broadcast functions."""
    yield from unary("Silu", F.silu)
    yield from unary("Gelu", F.gelu)
    yield from unary("Neg", torch.neg)
    yield from unary("ClampScalar", lambda x: torch.clamp(x, -0.5, 0.5), min=-0.5, max=0.5)
    for name in ("Exp", "Sin", "Tanh", "Erf", "Sigmoid", "Log1p"):
        yield next(unary(name, getattr(torch, name.lower())))
    yield same("Abs", "elementwise-16M", (WHOLE,), F32, torch.abs)
    yield same("LogicalNot", "elementwise-16M", (WHOLE,), BOOL, torch.logical_not)
    yield same("LogicalNot", "elementwise-16M", (WHOLE,), F16, torch.logical_not)
    yield same("BitwiseNot", "elementwise-16M", (WHOLE,), torch.int64, torch.bitwise_not)
    yield same("BitwiseNot", "elementwise-256M", (LARGE,), torch.int32, torch.bitwise_not)
    channels = ((16, 256, 56, 56), (256, 1, 1))
    for dtype in (BF16, F32):
        yield same("Add", "hidden-state-prefill", (HIDDEN, HIDDEN), dtype, torch.add)
        yield same("Add", "cnn-feat-broadcast", channels, dtype, torch.add)
        yield same("Eq", "hidden-state-prefill", (HIDDEN, HIDDEN), dtype, torch.eq)
        yield same("Eq", "cnn-feat-broadcast", channels, dtype, torch.eq)
    yield same("Add", "bias", ((1024, 4096), (1, 4096)), BF16, torch.add)
    yield same("Add", "odd", ((4096, 4097), (1, 4097)), BF16, torch.add)
    yield same("Mul", "odd-column", ((4096, 4097), (4096, 1)), BF16, torch.mul)
    yield same("Mul", "column", ((8192, 4096), (8192, 1)), BF16, torch.mul)
    for dtype in (BOOL, BF16, F32):
        shapes = (HIDDEN, HIDDEN)
        yield same("LogicalAnd", "hidden-state-prefill", shapes, dtype, torch.logical_and)
    yield same("LogicalAnd", "cnn-feat-broadcast", channels, BOOL, torch.logical_and)
    yield same("BitwiseOr", "hidden-state-prefill", (HIDDEN, HIDDEN), torch.int64, torch.bitwise_or)
    yield same(
        "BitwiseXor", "hidden-state-prefill", (HIDDEN, HIDDEN), torch.int32, torch.bitwise_xor
    )
    yield same("Pow", "hidden-state-prefill", (HIDDEN, HIDDEN), BF16, torch.pow)
    yield same("Remainder", "hidden-state-prefill", (HIDDEN, HIDDEN), BF16, torch.remainder)
    yield same("FloorDivide", "hidden-state-prefill", (HIDDEN, HIDDEN), BF16, torch.floor_divide)
    for shape, label in ((WHOLE, "elementwise-16M"), (LARGE, "elementwise-256M")):
        yield Case("Where", label, (shape,) * 3, (BOOL, BF16, BF16), torch.where)
        fill = lambda x, m: x.masked_fill(m, 0.0)  # noqa: E731
        yield Case("MaskedFillScalar", label, (shape,) * 2, (BF16, BOOL), fill)
        yield same("ClampTensor", label, (shape,) * 3, BF16, torch.clamp)
    yield Case("MaskedFillScalar", "elementwise-16M", (WHOLE,) * 2, (F32, BOOL), fill)
    yield same("Prelu", "cnn-feat-per-channel", ((16, 256, 56, 56), (256,)), F16, F.prelu)


def gated_cases() -> Iterator[Case]:
    """Gated functions."""
    for op, function, dtype, label in (
        ("SiluAndMul", F.silu, F16, "llama-8b-swiglu-prefill"),
        ("GeluAndMul", F.gelu, BF16, "ffn-gelu-prefill"),
        ("GeluTanhAndMul", lambda x: F.gelu(x, approximate="tanh"), F16, "ffn-gelu-tanh-prefill"),
    ):

        def gate(x: Tensor, function: Function = function) -> Tensor:
            n = x.shape[1] // 2
            return function(x[:, :n]) * x[:, n:]

        yield same(op, label, ((2048, 28672),), dtype, gate)


def row_cases() -> Iterator[Case]:
    """Reductions and softmax of rows, norms."""
    last = {"dim": -1}
    for op, other in (
        ("Sum", torch.sum), ("Amax", torch.amax), ("Prod", torch.prod), ("Argmax", torch.argmax),
        ("Std", torch.std), ("VarMean", torch.var_mean), ("LogSumExp", torch.logsumexp),
    ):  # fmt: skip
        for shape, label in ((HIDDEN, "hidden-state-reduce"), ((64, 32768), "long-seq-reduce"),
                             ((8192, 4096), "large"), ((4, 102400), "lm-head")):  # fmt: skip

            def rows(x: Tensor, other: Function = other) -> Any:
                return other(x, -1)

            yield same(op, label, (shape,), BF16, rows, **last)
    yield same("Sum", "odd", ((8192, 4097),), BF16, lambda x: x.sum(-1), **last)
    yield same("Sum", "whole", ((8192, 4096),), BF16, torch.sum)
    yield same("Amax", "whole", ((8192, 4096),), BF16, torch.amax)
    yield same("Prod", "columns", ((8192, 4096),), BF16, lambda x: x.prod(0), dim=0)
    cube, outer = ((4, 128, 4096),), (0, 2)
    for op, other in (
        ("Sum", torch.sum), ("Amax", torch.amax), ("Var", torch.var), ("LogSumExp", torch.logsumexp)
    ):  # fmt: skip

        def columns(x: Tensor, other: Function = other) -> Tensor:
            return other(x, 0)

        def outside(x: Tensor, other: Function = other) -> Tensor:
            return other(x, outer)

        yield same(op, "columns", ((8192, 4096),), BF16, columns, dim=0)
        yield same(op, "channels", ((16, 256, 3136),), BF16, outside, dim=outer)
        yield same(op, "3d-multidim-reduce", cube, F16, outside, dim=outer)
    yield same("Argmax", "columns", ((2048, 4096),), BF16, lambda x: x.argmax(0), dim=0)
    yield same("Sum", "narrow", ((1 << 20, 24),), BF16, lambda x: x.sum(0), dim=0)
    norm = lambda x: torch.linalg.vector_norm(x, 2, -1)  # noqa: E731
    yield same("VectorNorm", "hidden-state-l2", (HIDDEN,), F16, norm, **last)
    yield same("All", "mask-validation-32k", ((32, 32768),), BOOL, lambda x: x.all(-1), **last)
    yield same("CountNonzero", "sparsity-hidden", (HIDDEN,), BF16,
               lambda x: torch.count_nonzero(x, -1), **last)  # fmt: skip
    for op, other in (("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax)):
        for shape, label in (
            ((32, 32, 4096), "attn-weights-4k"),
            ((32, 32, 32768), "attn-weights-32k"),
            ((8192, 4096), "large"),
            ((4, 102400), "lm-head-logits"),
            ((64, 32768), "64-rows"),
            ((256, 102400), "sampling"),
        ):

            def soft(x: Tensor, other: Function = other) -> Tensor:
                return other(x, -1)

            yield same(op, label, (shape,), BF16, soft, **last)
    yield same("Cumsum", "hidden-state-scan", (HIDDEN,), BF16, lambda x: x.cumsum(-1))
    yield same("Cumsum", "long-seq-scan", ((64, 32768),), BF16, lambda x: x.cumsum(-1))


def norm_cases() -> Iterator[Case]:
    """Norms of rows."""
    for rows, n in ((2048, 4096), (2048, 8192), (2048, 16384), (8192, 4096)):

        def add_rms(x: Tensor, r: Tensor, w: Tensor, n: int = n) -> tuple[Tensor, Tensor]:
            total = x + r
            return F.rms_norm(total, (n,), w, 1e-6), total

        def add_layer(x: Tensor, r: Tensor, w: Tensor, b: Tensor, n: int = n) -> Any:
            total = x + r
            return F.layer_norm(total, (n,), w, b, 1e-5), total

        def layer(x: Tensor, w: Tensor, b: Tensor, n: int = n) -> Tensor:
            return F.layer_norm(x, (n,), w, b, 1e-5)

        matrix, vector = (rows, n), (n,)
        three, four = (matrix, matrix, vector), (matrix, matrix, vector, vector)
        yield same("FusedAddRMSNorm", "prefill", three, BF16, add_rms)
        yield same("FusedAddLayerNorm", "prefill", four, BF16, add_layer)
        yield same(
            "LayerNorm", "prefill", (matrix, vector, vector), BF16, layer, normalized_shape=[n]
        )


def rope_cases() -> Iterator[Case]:
    """Rotary embeddings, beside the rotation with ready tables."""
    angle = torch.arange(4096, device="cuda")[:, None] * 10000.0 ** (
        -torch.arange(0, 128, 2, device="cuda") / 128
    )
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]

    def rotated(x: Tensor) -> Tensor:
        c, s = cos[: x.shape[1]], sin[: x.shape[1]]
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)

    for shape in ((2, 2048, 32, 128), (2, 4096, 32, 128), (1, 1, 32, 128)):
        yield same("RoPE", "neox-2d", (shape,), BF16, rotated, input_layout="2d")


def cases() -> Iterator[Case]:
    """What is measured."""
    yield from rope_cases()
    yield from norm_cases()
    yield from row_cases()
    yield from gated_cases()
    yield from pointwise_cases()


def warm(place: int) -> str | None:
    """Compile what a case needs into the caches; the error's text when that fails."""
    case = list(cases())[place]
    try:
        inputs = case.inputs()
        case.ours()(*inputs)
        torch.compile(case.other, dynamic=False)(*inputs)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{case}: {type(error).__name__}: {error}"
    return None


def several(results: Any) -> tuple[Tensor, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def exact(case: Case, inputs: tuple[Tensor, ...]) -> Any:
    """The result by torch from the same inputs in float64: its own 16-bit loops may round often."""
    wide = [item.double() if item.is_floating_point() else item for item in inputs]
    return case.other(*wide)


def relative_distance(result: Tensor, wanted: Tensor) -> float:
    """Norm of the difference over the norm, of elements that are finite or differ."""
    wide = wanted.to(result.dtype).double()
    same = (result == wide) | (result.isnan() & wide.isnan())
    distance = torch.where(same, 0.0, result.double() - wide).norm()
    error = distance / torch.where(wide.isfinite(), wide, 0.0).norm().clamp_min(1e-30)
    return error.item() if error.isfinite() else math.inf


def error_of(results: Any, expected: Any) -> float:
    """The largest relative error among the results; of places and truths the part that differs."""
    found = 0.0
    for result, wanted in zip(several(results), several(expected), strict=True):
        if result.is_floating_point():
            found = max(found, relative_distance(result, wanted))
        else:
            found = max(found, (result != wanted).double().mean().item())
    return found


def measure(case: Case, clock: Clock) -> dict[str, Any]:
    """Check and time all contestants of a case in turns."""
    size = sum(math.prod(shape) * dtype.itemsize
               for shape, dtype in zip(case.shapes, case.dtypes, strict=True))  # fmt: skip
    sets = [case.inputs() for _ in range(SETS if size < 1 << 30 else 1)]
    launches = {"ours": case.ours(), "torch": case.other,
                "torch.compile": torch.compile(case.other, dynamic=False)}  # fmt: skip
    times: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    expected, wanted = case.other(*sets[0]), exact(case, sets[0])
    error = math.nan
    for label, launch in launches.items():
        try:
            results = launch(*sets[0])
            if label == "ours":
                error = error_of(results, wanted)
            clock.microseconds(launch, sets, WARM_UP)
            times[label] = []
        except Exception as fault:
            failed[label] = f"{type(fault).__name__}: {fault}"
    for _ in range(ROUNDS):
        for label, samples in times.items():
            samples.extend(clock.microseconds(launches[label], sets, LAUNCHES))
    moved = size + sum(item.numel() * item.element_size() for item in several(expected))
    kernels = sorted({kind.__name__ for name in launches["ours"].interfaces
                      for kind, _ in launches["ours"].built_entries(name)})  # fmt: skip
    return {
        "case": str(case), "op": case.op, "label": case.label, "kernels": kernels,
        "dtype": str(case.dtypes[-1]).removeprefix("torch."), "bytes": moved, "error": error,
        "right": error <= BOUND.get(several(expected)[0].dtype, 1e-3),
        "us": {label: round(median(samples), 2) for label, samples in times.items()},
        "failed": failed,
    }  # fmt: skip


def line(result: Mapping[str, Any], peers: Mapping[Any, float]) -> str:
    """One case as text."""
    us = result["us"]
    parts = [f"{result['case']:<64}"]
    if "ours" in us:
        rate = result["bytes"] / us["ours"] / 1e6
        parts.append(f"{us['ours']:8.1f} us {rate:5.2f} TB/s {rate / COPY * 1e14:3.0f}%")
        others = {name: value for name, value in us.items() if name != "ours"}
        best = min(others.values(), default=math.nan)
        parts.append(f"x{best / us['ours']:5.2f}")
        parts += [f"{name} {value:.1f}" for name, value in others.items()]
    peer = peers.get((result["op"], result["label"], result["dtype"]))
    if peer is not None:
        parts.append(f"peer {peer:.1f}")
    parts.append(" ".join(result["kernels"]))
    if not result["right"]:
        parts.append(f"WRONG {result['error']:.1e}")
    parts += [f"FAILED {label}: {text[:160]}" for label, text in result["failed"].items()]
    return " | ".join(parts)


def read_peers(path: Path | None) -> dict[Any, float]:
    """Best published time in microseconds by op, case and dtype."""
    if path is None:
        return {}
    found = {}
    with path.open() as table:
        for row in csv.DictReader(table):
            times = [float(row[key]) for key in ("peer_tileops_ms", "best_other_ms") if row[key]]
            label = row["case"].removesuffix("-" + row["dtype"])
            found[row["op"].removesuffix("FwdOp"), label, row["dtype"]] = 1e3 * min(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument(
        "--only", default="", help="measure cases whose name matches this regular expression"
    )
    parser.add_argument("--commit", default="unknown", help="commit that is measured")
    parser.add_argument("--peers", type=Path, help="table of other libraries' times")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("ops are timed on a CUDA device, and there is none")
    arguments.out.mkdir(parents=True, exist_ok=True)
    peers = read_peers(arguments.peers)
    chosen = {i: case for i, case in enumerate(cases()) if re.search(arguments.only, str(case))}
    begin = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        faults = [fault for fault in pool.map(warm, chosen) if fault]
    lines = [f"# {key}: {value}" for key, value in environment(arguments.commit).items()]
    lines.append(f"# {len(chosen)} cases compiled in {time.perf_counter() - begin:.0f} s")
    lines += [f"# {fault[:300]}" for fault in faults]
    print("\n".join(lines), flush=True)
    clock, results = Clock(), []
    for case in chosen.values():
        torch._dynamo.reset()
        results.append(measure(case, clock))
        lines.append(line(results[-1], peers))
        print(lines[-1], flush=True)
        (arguments.out / "ops.json").write_text(json.dumps(results, indent=1) + "\n")
        (arguments.out / "ops.txt").write_text("\n".join(lines) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
