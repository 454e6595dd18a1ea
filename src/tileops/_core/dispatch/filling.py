"""Launches that fill a tensor, as an operator.

An op without tensor inputs has no operator of its own, so that a compiler traces the body of its
kernel; and no compiler follows what TileLang has compiled. The kernel allocates its output in the
trace, and this operator, one node of the graph, writes to it. A graph names a kernel by a key, as
it names an op by one.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from tileops._core import instances
from tileops._core.devices import as_current

if TYPE_CHECKING:
    from tileops._core.dispatch.kernel import Kernel


def key_of(kernel: Kernel) -> str:
    """A new key of a kernel whose program takes one tensor, which it fills."""
    _define()
    return instances.register(kernel)


def fill(output: torch.Tensor, key: str) -> None:
    """Launch the program of the kernel with this key on memory of any contents.

    Raises:
        TileOpsError: the kernel is gone.
    """
    torch.ops.tileops.fill(output, key)


def _launch(output: torch.Tensor, key: str) -> None:
    """Run the program where the tensor is: no other tensor of the call says where."""
    kernel: Kernel = instances.find(key)
    with as_current(output.device):
        kernel.program()(output)


def _traced(output: torch.Tensor, key: str) -> None:
    """Nothing is returned, and nothing is known of what is written."""


@functools.cache
def _define() -> Any:
    """The library that holds the operator, made with the first kernel that fills."""
    library = torch.library.Library("tileops", "FRAGMENT")
    library.define("fill(Tensor(a!) output, str key) -> ()")
    library.impl("fill", _launch, "CompositeExplicitAutograd")
    torch.library.register_fake("tileops::fill", _traced, lib=library, _stacklevel=0)
    return library
