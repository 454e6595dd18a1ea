"""What a device can do, measured here: the rate of a copy, and of products in each dtype.

Rates are the best of several runs: a ceiling is what the device can do, not what it does on a busy
day. A unit whose product this torch does not have on the device is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tileops.bench.clock import Launch, samples
from tileops.bench.environment import environment
from tileops.bench.profiles import MEMORY, measured_file

RUNS, SECONDS = 10, 1.0
"""How often a unit is run at most, and about how long."""
COPIED = {"cpu": 1 << 27, "cuda": 1 << 31}
"""Bytes that are copied: more than any cache holds."""
EDGE = {"cpu": 1024, "cuda": 8192}
"""Rows and columns of the factors."""

WIDE = "cuda_core.fp32"
"""The unit of plain float32."""

Product = Callable[[torch.device], Launch]


def ceilings(
    device: torch.device, tell: Callable[[float, float], object] = lambda _done, _total: None
) -> dict[str, float]:
    """Bytes or operations a second, by `memory` or `unit.type`.

    Args:
        device: a CPU or a CUDA device. What a CPU does in a narrow type it may do in float32.
        tell: told how many units are measured, and of how many.
    """
    tell(0, 1 + len(PRODUCTS))
    found = {MEMORY: 2 * COPIED[device.type] / _best(_copy(device), device)}
    work = 2 * EDGE[device.type] ** 3
    for number, (unit, product) in enumerate(PRODUCTS.items(), 1):
        tell(number, 1 + len(PRODUCTS))
        try:
            found[unit] = work / _best(product(device), device)
        except (RuntimeError, AttributeError, NotImplementedError):
            continue
    return found if device.type == "cuda" else _widened(found)


def _widened(found: dict[str, float]) -> dict[str, float]:
    """Rates of a CPU, where a kernel may widen its operands: none is below that of float32."""
    least = found[WIDE]
    return {name: rate if name == MEMORY else max(rate, least) for name, rate in found.items()}


def write_profile(device: torch.device, rates: Mapping[str, float]) -> Any:
    """Keep measured rates as the profile of a device, and say in which file.

    Args:
        device: the device.
        rates: as `ceilings` gives them.
    """
    around = environment(device)
    units: dict[str, dict[str, float]] = {}
    for name, rate in rates.items():
        if name != MEMORY:
            unit, _, kind = name.partition(".")
            units.setdefault(unit, {})[kind] = rate
    lines = [f"device: {around['device']}", "source: >-", "  measured on this machine, the best of"]
    lines[-1] += f" up to {RUNS} runs: copies, and products in each dtype; {around['state']}, "
    lines[-1] += f"torch {around['torch']}"
    lines.append(f"memory: {{measured: {rates[MEMORY]:.4e}}}")
    for unit, kinds in units.items():
        lines.append(f"{unit}:")
        lines += [f"  {kind}: {{measured: {rate:.4e}}}" for kind, rate in kinds.items()]
    file = measured_file(str(around["device"]))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def _best(launch: Launch, device: torch.device) -> float:
    launch(0)
    first = samples(launch, range(1), device)
    count = max(1, min(RUNS, int(SECONDS / first[0])))
    return min(first + samples(launch, range(count), device))


def _copy(device: torch.device) -> Launch:
    source = torch.ones(COPIED[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda turn: target.copy_(source)


def _factors(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    shape = (EDGE[device.type],) * 2
    left, right = (torch.randn(shape, device=device) for _ in range(2))
    return left.to(dtype), right.to(dtype)


def _plain(dtype: torch.dtype, precision: str = "highest") -> Product:
    """A product; float32 is rounded to tf32 by the precision `high`, where the device can."""

    def product(device: torch.device) -> Launch:
        left, right = _factors(device, dtype)

        def launch(turn: int) -> None:
            with _precision(precision):
                torch.mm(left, right)

        return launch

    return product


@contextmanager
def _precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _fp8(device: torch.device) -> Launch:
    left, right = _factors(device, torch.float8_e4m3fn)
    one = torch.ones((), device=device)
    return lambda turn: torch._scaled_mm(
        left, right.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _int8(device: torch.device) -> Launch:
    left, right = (torch.randint(-9, 9, (EDGE[device.type],) * 2, device=device) for _ in range(2))
    a, b = left.to(torch.int8), right.to(torch.int8).t()
    return lambda turn: torch._int_mm(a, b)


PRODUCTS: Mapping[str, Product] = {
    "tensor_core.bf16": _plain(torch.bfloat16),
    "tensor_core.fp16": _plain(torch.float16),
    "tensor_core.tf32": _plain(torch.float32, "high"),
    "tensor_core.fp8": _fp8,
    "tensor_core.int8": _int8,
    WIDE: _plain(torch.float32),
}
"""How each unit is kept busy. A CPU has no such units; the names stand for its rate by dtype."""
