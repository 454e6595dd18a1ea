"""A device program before it is compiled.

Builders return a `Program`; a kernel compiles it on its first launch, tests lower it without a
device. Nothing here knows what a program computes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tilelang

os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")  # a first call prints nothing
# Nor does a second instance of an op, whose program is found in memory.
logging.getLogger("tilelang.cache.kernel_cache").addFilter(
    lambda record: "memory cache" not in record.getMessage()
)

GUARDED = {"tl.disable_safe_memory_legalize": True}
"""Settings of a program that guards every access itself.

TileLang's own guards split vector accesses, so such programs switch them off and keep no net.
"""

FAST = {**GUARDED, "tl.enable_fast_math": True}
"""Settings of such a program that may use approximate exponentials and divisions: its results are
rounded to 16 bits, far above their error."""


def target(arch: int) -> dict[str, str]:
    """The target of an architecture, with the instructions that only it has (`sm_90a`)."""
    return {"kind": "cuda", "arch": f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"}


@dataclass(frozen=True)
class Program:
    """What TileLang traced, with the pass settings under which it may be lowered.

    Args:
        function: the traced `prim_func`; every tensor, outputs included, is a parameter.
        settings: pass settings by name.
    """

    function: Any
    settings: Mapping[str, Any] = field(default_factory=dict)

    def compile(self, arch: int) -> Callable[..., None]:
        """Compiles for one architecture.

        Args:
            arch: 10 · major + minor of the compute capability.

        Returns:
            A callable that takes the program's tensors in order and launches on the current
            stream.
        """
        compiled = tilelang.compile(
            self.function,
            out_idx=None,
            execution_backend="tvm_ffi",
            target=target(arch),
            pass_configs=dict(self.settings),
        )
        return _launcher(compiled)


def _launcher(compiled: tilelang.JITKernel) -> Callable[..., None]:
    """The function that all wrappers of a compiled program end in.

    They count arguments and make outputs, which programs here do not have; the function itself
    tests what it is given. Without them a launch takes some microseconds less of the host.
    """
    loaded = compiled.adapter.get_exportable_executable()
    is_new = isinstance(loaded, tilelang.tvm.runtime.Executable)  # else read from the cache
    launch: Callable[..., None] = (loaded.jit() if is_new else loaded).main
    return launch
