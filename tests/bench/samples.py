"""Results as a bench on a GPU would have written them, made up for tests."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from tileops.bench.published import COLUMNS
from tileops.bench.results import Results

H200 = {
    "device": "NVIDIA H200", "state": "580.1, 1980 MHz, 700 W", "python": "3.12.3", "tileops": None,
    "torch": "2.11.0", "tilelang": "0.1.15", "commit": "abc",
}  # fmt: skip


def timing(median: float) -> dict[str, Any]:
    return {"median": median, "low": median * 0.98, "high": median * 1.02, "calls": 50}


def other(name: str, median: float | None, state: str = "right") -> dict[str, Any]:
    return {
        "name": name,
        "version": "2.11.0",
        "state": state,
        "reason": None if median else "it is <b>not</b> the same\nat all",
        "timing": timing(median) if median else None,
        "graph": None,
    }


def row(op: str, case: str, median: float = 1e-5, **changes: Any) -> dict[str, Any]:
    """A row that is right, but for what is changed."""
    made = {
        "op": op, "family": "norm", "case": case, "device": "cuda:0", "state": "right",
        "reason": None, "bindings": {"T": "bfloat16", "normalized_shape": "[4096]"},
        "tensors": {"x": "bfloat16[2048, 4096]", "weight": "bfloat16[4096]",
                    "output": "bfloat16[2048, 4096]"},
        "flops": 33_554_432, "bytes": 33_554_432, "unit": "cuda_core.fp32", "target": "builtin",
        "kernels": ["RMSNormOnChipKernel"], "timing": timing(median), "host": timing(2e-5),
        "graph": timing(median), "against": ["torch"], "environment": 0,
        "reading": {"bound": 7.8e-6, "limit": "memory", "efficiency": 7.8e-6 / median,
                    "excess": None},
        "others": [other("torch", 2e-5), other("liger", None, "wrong")],
    }  # fmt: skip
    return {**made, **changes}


def published_table(path: Path, *rows: dict[str, Any]) -> Path:
    """A record of published times with these rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for each in rows:
            table.writerow({**each, "dims": json.dumps(each["dims"])})
    return path


UNTIMED = {"timing": None, "host": None, "graph": None, "reading": None, "others": []}


def results() -> Results:
    """Rows of two families: faster, slower, alone, wrong and left out."""
    product = {"family": "gemm", "unit": "tensor_core.bf16", "kernels": ["GemmPipelinedKernel"]}
    wrong = {**UNTIMED, "state": "wrong", "reason": "AssertionError: 3 < 4 & more\nand so on"}
    left = {**UNTIMED, "state": "left out", "reason": "too large"}
    return Results(
        [H200],
        [
            row("RMSNormFwdOp", "prefill-bfloat16"),
            row("RMSNormFwdOp", "decode-bfloat16", 4e-5),
            row("GemmFwdOp", "square-bfloat16", 3e-5, flops=20_000_000_000, **product),
            row("GemmFwdOp", "alone-bfloat16", 9e-5, **product, others=[]),
            row("GemmFwdOp", "wrong-bfloat16", **wrong),
            row("GemmFwdOp", "large-bfloat16", **left),
        ],
    )


TOYS = """
import torch.nn.functional as F
from tileops.bench.baselines import baseline, library

for name in ("good", "bad", "lazy", "idle"):
    library(name, lambda: "1")

@baseline("good", "RMSNormFwdOp")
def good(op, x, weight):
    return F.rms_norm(x, op.normalized_shape, weight, 1e-6)

@baseline("bad", "RMSNormFwdOp")
def bad(op, x, weight):
    return good(op, x, weight) + 1

@baseline("lazy", "RMSNormFwdOp")
def lazy(op, x, weight):
    raise NotImplementedError("not today")
"""
"""A module of a folder of comparisons: right, wrong, not today, and without the op."""
