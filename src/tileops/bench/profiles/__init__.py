"""What a device can do, and which fraction of it a call reached.

A profile is a data file: the device's name as its driver reports it, the source of the figures, and
for the memory and each compute unit the theoretical rate and which share of it was measured, or the
measured rate alone. A unit that nobody measured prices nothing: the reading stays blank. Profiles
beside this module ship; what `measured_file` names was measured on this machine and comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any

import torch

from tileops._core.dispatch.tuning import cache_folder
from tileops._core.spec.yaml12 import YamlFault, plain, read_yaml
from tileops.bench.environment import device_name
from tileops.errors import TileOpsError

MEMORY = "memory"
_LONGEST = 200
"""Characters of a device's name in that of a file."""
_ON_CPU = {"tensor_core": "matrix", "cuda_core": "vector"}


class ProfileFault(TileOpsError, ValueError):
    """A file that holds no profile."""


@dataclass(frozen=True)
class Rate:
    """Bytes or operations in a second.

    Args:
        theoretical: as the maker states it; None where that is not known.
        effective: as measured; None where nobody measured.
    """

    theoretical: float | None
    effective: float | None


@dataclass(frozen=True)
class Reading:
    """A measured time beside the least that the device allows.

    Args:
        bound: that least time, in seconds.
        limit: what sets it: `memory`, or a compute unit.
        efficiency: the bound over the measured time.
        excess: the rate above the theoretical one that the time implies, in words: the roofline
            counts too much; None where there is none.
    """

    bound: float
    limit: str
    efficiency: float
    excess: str | None


@dataclass(frozen=True)
class Profile:
    """The rates of one device.

    Args:
        device: its name as the driver reports it.
        source: where the figures come from.
        rates: by `memory` or `unit.type`.
    """

    device: str
    source: str
    rates: Mapping[str, Rate]

    def reading(self, flops: int, moved: int, unit: str, seconds: float) -> Reading | None:
        """Set a time against the limits.

        Args:
            flops: operations of the call.
            moved: bytes of the call.
            unit: the compute unit that prices the operations.
            seconds: the measured time.

        Returns:
            None where a rate that is needed was not measured.
        """
        work = {MEMORY: moved, unit: flops}
        bounds: dict[str, float] = {}
        for name, amount in work.items():
            effective = self.rates[name].effective if name in self.rates else None
            if amount and effective is None:
                return None
            bounds[name] = amount / effective if effective else 0.0
        limit = max(bounds, key=lambda name: bounds[name])
        found = (self._excess(name, amount, seconds) for name, amount in work.items())
        excess = next(filter(None, found), None)
        return Reading(bounds[limit], limit, bounds[limit] / seconds, excess)

    def _excess(self, name: str, amount: int, seconds: float) -> str | None:
        if not amount:
            return None
        rate, most = amount / seconds, self.rates[name].theoretical
        if most is None or rate <= most:
            return None
        return f"{name}: {rate:.3g} a second, above {most:.3g} in theory"


@cache
def profiles() -> Mapping[str, Profile]:
    """Every profile by the name of its device."""
    folder = files(__name__)
    found = [
        profile_of(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".yaml")
    ]
    return {profile.device: profile for profile in found}


def profile_of(text: bytes) -> Profile:
    """A profile as its file says.

    Raises:
        ProfileFault: it says something else.
    """
    try:
        data: dict[str, Any] = plain(read_yaml(text).root)
        rates = {MEMORY: _rate(data[MEMORY])}
        for unit in data.keys() - {"device", "source", MEMORY}:
            rates |= {f"{unit}.{kind}": _rate(written) for kind, written in data[unit].items()}
        return Profile(str(data["device"]), str(data["source"]), rates)
    except KeyError as error:
        raise ProfileFault(f"no profile of a device: {error} is missing") from error
    except (YamlFault, TypeError, ValueError, AttributeError) as error:
        raise ProfileFault(f"no profile of a device: {error}") from error


def _rate(written: Mapping[str, float]) -> Rate:
    theoretical, share = written.get("theoretical"), written.get("calibration")
    if theoretical is None:
        return Rate(None, _above_none(written["measured"]))
    return Rate(
        _above_none(theoretical), None if share is None else _above_none(theoretical * share)
    )


def _above_none(rate: float) -> float:
    """A rate that something can be divided by."""
    if not 0 < rate < inf:
        raise ValueError(f"{rate} is no rate")
    return rate


def measured_file(device: str) -> Path:
    """The file of the profile that was measured on this machine.

    Args:
        device: the device's name.
    """
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")[:_LONGEST]
    return cache_folder() / "profiles" / f"{name}.yaml"


def profile_for(device: torch.device) -> Profile | None:
    """The profile of a device, if there is one.

    Raises:
        ProfileFault: what was measured here is damaged.
    """
    return profile_named(device_name(device))


def profile_named(device: str) -> Profile | None:
    """The profile of a device of this name: as measured here, else the one that ships.

    Raises:
        ProfileFault: what was measured here is damaged.
    """
    file = measured_file(device)
    if not file.is_file():
        return profiles().get(device)
    try:
        return profile_of(file.read_bytes())
    except ProfileFault as fault:
        hint = "`tileops doctor --measure` writes it anew"
        raise ProfileFault(f"{file}: {fault}; {hint}") from fault


def unit_text(unit: str, device: str) -> str:
    """A compute unit for people: a CPU has no cores of a GPU, only the rates that they stand for.

    Args:
        unit: `memory` or `unit.type`.
        device: the device as torch names it.
    """
    kind, _, dtype = unit.partition(".")
    return f"{_ON_CPU[kind]} {dtype}" if device == "cpu" and kind in _ON_CPU else unit


def doubt(efficiency: float, excess: str | None) -> str:
    """What to think of a call that is faster than its limit; empty for one that is not.

    Args:
        efficiency: the fraction of the limit.
        excess: the rate above the theoretical one, if there is any.
    """
    if excess:
        return f"the roofline counts too much, {excess}"
    if efficiency <= 1:
        return ""
    return "above what was measured of the device: a cache held the data, or its limits are stale"


def unknown_limits(device: torch.device) -> str | None:
    """How to learn the limits of a device; None where they are known, or cannot be measured."""
    if device.type not in {"cpu", "cuda"} or profile_for(device) is not None:
        return None
    option = "" if device.type == "cpu" else f" --device {device}"
    return f"limits of this device are unknown: `tileops doctor --measure{option}` finds them"
