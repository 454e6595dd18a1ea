"""Launches that fill a tensor, as an operator.

An op without tensor inputs has no operator of its own, so that a compiler traces the body of its
kernel; and no compiler follows what TileLang has compiled. The kernel allocates its output in the
trace, and this operator, one node of the graph, writes to it. A graph names a kernel by a key, as
it names an op by one.
"""

from __future__ import annotations

import functools
import itertools
import os
import secrets
import weakref
from typing import TYPE_CHECKING, Any

import torch

from tileops.errors import TileOpsError

if TYPE_CHECKING:
    from tileops._core.dispatch.kernel import Kernel

_kernels: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
_run = secrets.token_hex(4)
_numbers = itertools.count()


def key_of(kernel: Kernel) -> str:
    """A new key of a kernel whose program takes one tensor, which it fills.

    No other process gives it, forked ones neither: a graph may be saved and loaded there.
    """
    _define()
    key = f"{type(kernel).__name__}#{_run}-{os.getpid():x}-{next(_numbers)}"
    _kernels[key] = kernel
    return key


def fill(output: torch.Tensor, key: str) -> None:
    """Launch the program of the kernel with this key on memory of any contents.

    Raises:
        TileOpsError: the kernel is gone.
    """
    torch.ops.tileops.fill(output, key)


def _launch(output: torch.Tensor, key: str) -> None:
    kernel = _kernels.get(key)
    if kernel is None:
        raise TileOpsError(
            f"no live kernel of this process has the key {key!r}: keep the op alive as long as the "
            "function that was compiled with it, and compile or export where that runs"
        )
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
