"""What it takes to run one kernel on the emulated device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tileops.kernels import Kernel


@dataclass(frozen=True)
class Case:
    """A kernel with constants, and inputs on which it is compared with a reference.

    Args:
        name: distinguishes the cases of a kernel.
        kernel: the kernel's class.
        constants: arguments of its constructor.
        inputs: makes the arguments of `forward` from a seeded generator.
        expected: the result from the same arguments in float64, or a tuple of results.
        config: entries that differ from the default configuration.
        contains: what the generated source must hold.
        writes: whether the first input is written.
        absolute: tolerated absolute error, where a result is a sum of rounded terms; a tuple has
            one for each result.
    """

    name: str
    kernel: type[Kernel]
    constants: tuple[Any, ...]
    inputs: Callable[[torch.Generator], tuple[Tensor | float | None, ...]]
    expected: Callable[..., Any]
    config: Mapping[str, Any] = field(default_factory=dict)
    contains: tuple[str, ...] = ()
    writes: bool = False
    absolute: float | tuple[float, ...] | None = None

    def __str__(self) -> str:
        return f"{self.kernel.__name__}-{self.name}"

    def build(self) -> Kernel:
        """The kernel, with its configuration set."""
        kernel = self.kernel(*self.constants)
        if self.config:
            kernel.config = {**kernel.default_config, **self.config}
        return kernel
