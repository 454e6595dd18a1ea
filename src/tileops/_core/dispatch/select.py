"""Choosing one implementation for one call: availability, then applicability, then preference.

The outcome keeps every candidate with the reason for which it was passed over, whether or not the
choice succeeded; errors, reports and the command line render that same list. Neither declaration
order nor any number decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tileops._core.dispatch.call_spec import CallSpec
from tileops._core.dispatch.kernel import Kernel
from tileops._core.dispatch.table import ImplementationTable
from tileops._core.lang.values import shown

Outcome = Literal["chosen", "unavailable", "unserved", "ambiguous"]


@dataclass(frozen=True)
class Candidate:
    """One implementation as the choice saw it; `reason` is None when it serves the call."""

    key: str
    kernel_type: type[Kernel]
    reason: str | None
    fits_device: bool

    @property
    def row(self) -> tuple[str, str, str]:
        """Key, class name and verdict."""
        return self.key, self.kernel_type.__name__, self.reason or "accepted"


@dataclass(frozen=True)
class Choice:
    """The outcome of a selection.

    `unavailable`: nothing runs on the device, or the device is unknown. `unserved`: something
    runs there, nothing serves the call. `ambiguous`: several serve it and none beats the others;
    `unbeaten` names them.
    """

    interface: str
    call: CallSpec
    candidates: tuple[Candidate, ...]
    unbeaten: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """How the selection ended."""
        if len(self.unbeaten) == 1:
            return "chosen"
        if self.unbeaten:
            return "ambiguous"
        return "unserved" if any(c.fits_device for c in self.candidates) else "unavailable"

    @property
    def key(self) -> str | None:
        """The key chosen, or None."""
        return self.unbeaten[0] if len(self.unbeaten) == 1 else None

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Key, class name and verdict of every candidate."""
        return tuple(candidate.row for candidate in self.candidates)


def choose(table: ImplementationTable, interface: str, call: CallSpec) -> Choice:
    """Select among the interface's implementations for `call`.

    Raises:
        TypeError: a `refusal` returns neither None nor a reason.
    """
    candidates = tuple(
        judge(key, table.kernel_types[key], call) for key in table.keys_by_interface[interface]
    )
    serving = [candidate for candidate in candidates if candidate.reason is None]
    return Choice(interface, call, candidates, _unbeaten(table, serving))


def judge(key: str, cls: type[Kernel], call: CallSpec) -> Candidate:
    """An implementation as a choice for `call` sees it.

    Raises:
        TypeError: `refusal` returns neither None nor a reason.
    """
    fits, reason = _availability(cls, call)
    if reason is None:
        reason = _refusal(cls, call)
    return Candidate(key, cls, reason, fits)


def _refusal(cls: type[Kernel], call: CallSpec) -> str | None:
    reason: object = cls.refusal(call)
    if reason is None or (isinstance(reason, str) and reason):
        return reason
    raise TypeError(f"{cls.__name__}.refusal returned {shown(reason)}, expected None or a reason")


def _availability(cls: type[Kernel], call: CallSpec) -> tuple[bool, str | None]:
    """Whether the class runs on the device's type, and why it is not available there."""
    if call.device is None and not call.stated_device_facts:
        return False, "the device is unknown"
    if call.device is not None and call.device.type not in cls.devices:
        return False, f"runs on {', '.join(sorted(cls.devices))}, not on {call.device.type}"
    archs = cls.supported_archs
    if archs is not None and call.arch not in archs:
        supported = ", ".join(map(str, sorted(archs)))
        return True, f"supports the architectures {supported}, not {call.arch}"
    return True, None


def _unbeaten(table: ImplementationTable, serving: Sequence[Candidate]) -> tuple[str, ...]:
    """The serving keys that no serving key beats."""

    def beats(one: Candidate, other: Candidate) -> bool:
        if other.kernel_type.general and not one.kernel_type.general:
            return True
        return other.key in table.preferred_over[one.key]

    return tuple(
        candidate.key
        for candidate in serving
        if not any(beats(other, candidate) for other in serving)
    )
