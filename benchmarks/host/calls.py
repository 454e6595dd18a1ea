"""Warm calls, beside the calls that they are made of and those that they stand in for.

For each op: its entry called directly; an operator of `torch.library.Library` that does nothing;
one whose body is the entry; one of `torch.library.custom_op` that does nothing; the matching
function of PyTorch; and the op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tileops.elementwise import SiluAndMulFwdOp
from tileops.gemm import GemmFwdOp
from tileops.norm import RMSNormFwdOp

Functions = dict[str, Callable[[], Any]]

KEY = "Subject#00000000-0"
"""As long as the key by which an operator finds its op."""

_libraries: list[torch.library.Library] = []


class Subject(NamedTuple):
    """An op, the arguments of its call, and PyTorch's function for the same."""

    op: Any
    arguments: tuple[Tensor, ...]
    function: Callable[..., Any]

    @property
    def entry(self) -> Callable[..., Any]:
        """What the op's body calls, once it has been called."""
        (entry,) = set(self.op._entries_by_call.values())
        return entry


def subjects(device: str) -> dict[str, Subject]:
    """What is measured, called once."""
    width, dtype = (64, torch.float32) if device == "cpu" else (1024, torch.bfloat16)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=dtype, device=device)

    x, weight, gated, matrix = draw(4, width), draw(width), draw(4, 2 * width), draw(8, width)
    found = {
        "RMSNormFwdOp": Subject(
            RMSNormFwdOp((width,)),
            (x, weight),
            lambda x, weight: functional.rms_norm(x, (width,), weight),
        ),
        "SiluAndMulFwdOp": Subject(
            SiluAndMulFwdOp(), (gated,), lambda x: functional.silu(x[:, :width]) * x[:, width:]
        ),
        "GemmFwdOp": Subject(GemmFwdOp(), (x, matrix), functional.linear),
    }
    for subject in found.values():
        subject.op(*subject.arguments)
    return found


def functions_of(subject: Subject) -> Functions:
    """The calls that are compared, by name; `base` is the entry, then the empty operator."""
    op, arguments, function = subject
    entry = subject.entry
    empty, inside, custom = _operators(len(arguments), op(*arguments), entry)

    def base() -> None:
        entry(*arguments)
        empty(*arguments, KEY)

    return {
        "entry": lambda: entry(*arguments),
        "library": lambda: empty(*arguments, KEY),
        "base": base,
        "inside": lambda: inside(*arguments, KEY),
        "custom_op": lambda: custom(*arguments, KEY),
        "torch": lambda: function(*arguments),
        "op": lambda: op(*arguments),
    }


def _operators(count: int, result: Tensor, entry: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Operators of so many tensors: an empty one, one that runs the entry, one of `custom_op`.

    The last returns nothing, since it may not return the same tensor twice.
    """
    library = torch.library.Library("measured", "FRAGMENT")
    number = len(_libraries)
    _libraries.append(library)
    listed = ", ".join(f"Tensor t{place}" for place in range(count))
    bodies = {f"empty{number}": lambda *_: result, f"inside{number}": lambda *a: entry(*a[:-1])}
    for name, body in bodies.items():
        library.define(f"{name}({listed}, str key) -> Tensor")
        library.impl(name, body, "CompositeExplicitAutograd")
    custom = torch.library.custom_op(
        f"measured::custom{number}",
        lambda *_: None,
        mutates_args=(),
        schema=f"({listed}, str key) -> ()",
    )
    return [*(getattr(torch.ops.measured, name).default for name in bodies), custom]
