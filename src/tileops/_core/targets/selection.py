"""Which target serves an instance: the constructor's, the process default, or the detected one.

The selection is computed whole and assigned by the caller; nothing changes here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch

from tileops._core.plugins import FAILURES, described
from tileops._core.targets import loading, registry
from tileops._core.targets.registry import BUILTIN, Builder, Detect
from tileops.errors import (
    AmbiguousTargetError,
    BackendError,
    OpNotAvailableError,
    UnknownTargetError,
)

Rule = Literal["constructor", "process default", "detection"]


class Selection(NamedTuple):
    """A target's name (or `BUILTIN`), the builder that serves the op, and what named the target."""

    target: str
    builder: Builder | None
    rule: Rule


def select_target(
    op: str, asked: str | None, device: torch.device | None, *, composed: bool, needs_builder: bool
) -> Selection | None:
    """Select for an instance of `op` on the call device; None when there is nothing to go by.

    Args:
        op: name of the op class.
        asked: the constructor's `target`.
        device: the call device, None when no tensor, parameter or accelerator names one.
        composed: whether the composition is to run although a builder may be registered.
        needs_builder: whether the op has kernels of its own, so that nothing else can run it.

    Raises:
        UnknownTargetError: a named target is not registered.
        AmbiguousTargetError: several targets claim the device.
        BackendError: a detector raised.
        OpNotAvailableError: the target has no builder for an op that needs one.
    """
    found = named_target(asked, device, f"{op}: ")
    if found is None:
        return None
    target, rule = found
    if target == BUILTIN:
        return Selection(target, None, rule)
    if target not in registry.current.targets():
        raise UnknownTargetError(f"{op}: {registry.unknown_target(target)}{loading.hint()}")
    builder = None if composed else registry.current.builders.get((op, target))
    if builder is None and needs_builder:
        having = ", ".join(map(repr, registry.current.targets(op))) or "none"
        raise OpNotAvailableError(
            f"target {target!r} has no builder for {op}; targets that have one: {having}; "
            f"{target!r} has builders for {registry.builders_near(op, target)}; "
            f"there is no fall-back to the op's own body{loading.hint()}"
        )
    return Selection(target, builder, rule)


def named_target(
    asked: str | None, device: torch.device | None, owner: str = ""
) -> tuple[str, Rule] | None:
    """The name of the target for a call, and what names it; None when there is nothing to go by.

    Args:
        asked: the constructor's `target`.
        device: the call device.
        owner: precedes what errors say.

    Raises:
        AmbiguousTargetError: several targets claim the device.
        BackendError: a detector raised.
    """
    if asked is not None:
        return asked, "constructor"
    default = registry.current.default
    if default is not None:
        return default, "process default"
    if device is None:
        return None
    return detected(device, owner) or BUILTIN, "detection"


def detected(device: torch.device, owner: str = "") -> str | None:
    """The one target that claims a device, or None; `owner` precedes what errors say.

    Raises:
        AmbiguousTargetError: several targets claim it.
        BackendError: a detector raised.
    """
    detectors = registry.current.detectors
    claiming = [name for name in detectors if claims(name, detectors[name], device, owner)]
    if len(claiming) > 1:
        raise AmbiguousTargetError(
            f"{owner}several targets claim {device}: {', '.join(map(repr, sorted(claiming)))}; "
            f"pass target= to the constructor{loading.hint()}"
        )
    return claiming[0] if claiming else None


def claims(target: str, detect: Detect, device: torch.device, owner: str = "") -> bool:
    """Whether a target's detector claims a device; `owner` precedes what an error says.

    Raises:
        BackendError: the detector raised or exited.
    """
    try:
        return bool(detect(device))
    except FAILURES as error:
        raise BackendError(
            f"{owner}the detector of target {target!r} failed on {device}: {described(error)}"
            f"{loading.hint()}"
        ) from error
