"""Error classes: each holds the facts as data and renders its own text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

__all__ = [
    "AmbiguousTargetError",
    "BackendError",
    "DispatchError",
    "ManifestError",
    "OpNotAvailableError",
    "SignatureError",
    "SignatureTypeError",
    "TileOpsError",
    "UnknownTargetError",
]

Phase = Literal["construction", "call"]


class TileOpsError(Exception):
    """Base of every error that TileOPs raises on purpose."""


class ManifestError(TileOpsError, ValueError):
    """A spec that cannot be loaded, registered or used."""


class SignatureError(TileOpsError, ValueError):
    """A construction or a call that the signature rejects.

    Args:
        op: name of the spec.
        phase: `"construction"` or `"call"`.
        path: field path of the declaration without its leading `signature.`, or `""`.
        text: the declaration as written, or `None` when the path alone names it.
        fault: what was expected and the actual value.
        bindings: what was known so far, each as `name=value from where`.
        origin: file and line of the spec, or the origin of a registered mapping.
    """

    def __init__(
        self,
        op: str,
        phase: Phase,
        path: str,
        text: str | None,
        fault: str,
        *,
        bindings: Sequence[str] = (),
        origin: str | None = None,
    ) -> None:
        self.op = op
        self.phase: Phase = phase
        self.declaration = path if text is None else f'{path} "{text}"'
        self.fault = fault
        self.bindings = tuple(bindings)
        self.origin = origin
        super().__init__(op, phase, path, text, fault)

    def __str__(self) -> str:
        joint = " " if self.fault.startswith("does not hold") else ": "
        subject = f"{_in_one_line(self.declaration)}{joint}" if self.declaration else ""
        lines = [f"{self.op} ({self.phase}): {subject}{self.fault}"]
        if self.bindings:
            lines.append("  bound so far: " + "; ".join(self.bindings))
        if self.origin:
            lines.append(f"  declared in {self.origin}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_signature_error, (type(self), self.args, self.bindings, self.origin)


def _in_one_line(text: str) -> str:
    """A text whose declaration may be written over several lines, where blanks mean nothing."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def _rebuild_signature_error(
    kind: type[SignatureError], args: tuple[Any, ...], bindings: Sequence[str], origin: str | None
) -> SignatureError:
    return kind(*args, bindings=bindings, origin=origin)


class SignatureTypeError(SignatureError, TypeError):
    """A value of the wrong Python type, a missing argument, or a result that is no tensor."""


def candidate_lines(candidates: Sequence[tuple[str, str, str]]) -> list[str]:
    """A line per candidate of a selection: key, class, verdict."""
    return [f"{key} ({cls}): {verdict}" for key, cls, verdict in candidates]


def installing(extra: str) -> str:
    """The command that brings an extra: for who has the package, and for who has a clone."""
    return f"`pip install 'tileops[{extra}]'`, in a clone `pip install -e '.[{extra}]'`"


class DispatchError(TileOpsError, ValueError):
    """No implementation serves a call, or several do and none is preferred.

    Args:
        message: what went wrong, without the candidates.
        candidates: `(key, class name, reason)` for every key of the interface; the reason of a
            candidate that was accepted is `"accepted"`.
        facts: the call spec's non-default fields, rendered.
    """

    def __init__(
        self, message: str, candidates: Sequence[tuple[str, str, str]] = (), facts: str = ""
    ) -> None:
        self.message = message
        self.candidates = tuple(candidates)
        self.facts = facts
        super().__init__(message, self.candidates, facts)

    def __str__(self) -> str:
        lines = [self.message, *(f"  {line}" for line in candidate_lines(self.candidates))]
        if self.facts:
            lines.append(f"  call: {self.facts}")
        return "\n".join(lines)


class OpNotAvailableError(TileOpsError, RuntimeError):
    """The device has no implementation, an interface is unknown, or a target has no builder."""


class BackendError(TileOpsError, RuntimeError):
    """A registration or a target selection that cannot be honoured."""


class AmbiguousTargetError(BackendError):
    """Several targets claim one device."""


class UnknownTargetError(BackendError):
    """A named target that nothing registered."""
