"""What a warm eager call costs on the host, beside the calls that it is made of.

For each op: its entry called directly, an operator of `torch.library.Library` that does nothing,
one of `torch.library.custom_op`, the matching function of PyTorch, and the op. The excess is the
op's time less the entry's and the empty operator's. Times are the least of many short runs, taken
in turn, so that a busy machine disturbs them little. Run from the repository:
`PYTHONPATH=src python benchmarks/measure_calls.py`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tileops.elementwise import SiluAndMulFwdOp
from tileops.gemm import GemmFwdOp
from tileops.norm import RMSNormFwdOp

REPEATS = 2000
CALLS = 10
COLUMNS = ("entry", "library", "custom_op", "torch", "op", "excess")


def least(functions: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds of one call of each function."""
    found = dict.fromkeys(functions, float("inf"))
    for _ in range(REPEATS):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                function()
            found[name] = min(found[name], (time.perf_counter() - start) / CALLS * 1e6)
    return found


def empty_operators(count: int, result: Tensor) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Operators of so many tensors that compute nothing: one of each kind.

    That of `custom_op` returns nothing either, since it may not return the same tensor twice.
    """
    library = torch.library.Library("measured", "FRAGMENT")
    listed = ", ".join(f"Tensor t{number}" for number in range(count))
    name = f"empty{len(_libraries)}"
    library.define(f"{name}({listed}, str key) -> Tensor")
    library.impl(name, lambda *_: result, "CompositeExplicitAutograd")
    custom = torch.library.custom_op(
        f"measured::{name}_custom",
        lambda *_: None,
        mutates_args=(),
        schema=f"({listed}, str key) -> ()",
    )
    operator = getattr(torch.ops.measured, name).default
    _libraries.append(library)
    return operator, custom


_libraries: list[torch.library.Library] = []


def cases() -> dict[str, tuple[Any, tuple[Tensor, ...], Callable[..., Any]]]:
    """An op, its arguments and PyTorch's function, by name."""
    x, weight, gated, matrix = (torch.randn(*s) for s in ((4, 64), (64,), (4, 128), (8, 64)))
    return {
        "RMSNormFwdOp": (
            RMSNormFwdOp((64,)),
            (x, weight),
            lambda x, weight: functional.rms_norm(x, (64,), weight),
        ),
        "SiluAndMulFwdOp": (
            SiluAndMulFwdOp(),
            (gated,),
            lambda x: functional.silu(x[:, :64]) * x[:, 64:],
        ),
        "GemmFwdOp": (GemmFwdOp(), (x, matrix), functional.linear),
    }


def main() -> None:
    """Print a line per op."""
    torch.set_num_threads(1)
    gc.disable()
    print(f"{'microseconds':16}" + "".join(f"{column:>11}" for column in COLUMNS))
    for name, (op, arguments, function) in cases().items():
        result = op(*arguments)
        (entry,) = op._entries_by_call.values()
        library, custom = empty_operators(len(arguments), result)
        times = least({
            "entry": lambda e=entry, a=arguments: e(*a),
            "library": lambda o=library, a=arguments: o(*a, "key"),
            "custom_op": lambda o=custom, a=arguments: o(*a, "key"),
            "torch": lambda f=function, a=arguments: f(*a),
            "op": lambda o=op, a=arguments: o(*a),
        })  # fmt: skip
        times["excess"] = times["op"] - times["entry"] - times["library"]
        print(f"{name:16}" + "".join(f"{times[column]:11.2f}" for column in COLUMNS))


if __name__ == "__main__":
    main()
