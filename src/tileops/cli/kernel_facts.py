"""What the implementations of an op declare about themselves."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops._core.dispatch.table import ImplementationTable
    from tileops.kernels import Kernel


@dataclass(frozen=True)
class KernelFacts:
    """One implementation under one interface, as declared."""

    interface: str
    key: str
    kernel: str
    package: str
    devices: tuple[str, ...]
    archs: tuple[int, ...] | None
    general: bool
    preferred_over: tuple[str, ...]
    summary: str

    @property
    def rank(self) -> str:
        """Its place among the others, in words."""
        if self.general:
            return "after all others"
        return f"before {', '.join(self.preferred_over)}" if self.preferred_over else ""


def kernel_facts(table: ImplementationTable) -> list[KernelFacts]:
    """The facts of every implementation, by interface in the class's order."""
    return [
        _facts(interface, key, table.kernel_types[key])
        for interface, keys in table.keys_by_interface.items()
        for key in keys
    ]


def _facts(interface: str, key: str, kernel: type[Kernel]) -> KernelFacts:
    archs = kernel.supported_archs
    return KernelFacts(
        interface=interface,
        key=key,
        kernel=kernel.__name__,
        package=kernel.__module__.partition(".")[0],
        devices=tuple(sorted(kernel.devices)),
        archs=None if archs is None else tuple(sorted(archs)),
        general=kernel.general,
        preferred_over=tuple(sorted(kernel.preferred_over)),
        summary=inspect.cleandoc(vars(kernel).get("__doc__") or "").partition("\n")[0],
    )
