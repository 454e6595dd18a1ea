"""What a device can do, and which fraction of it a call reached.

A profile is a data file beside this module: the device's name as its driver reports it, the source
of the figures, and for the memory and each compute unit the theoretical rate and which share of it
was measured. A unit that nobody measured prices nothing: the reading stays blank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import torch

from tileops._core.spec.yaml12 import plain, read_yaml

MEMORY = "memory"


@dataclass(frozen=True)
class Rate:
    """Bytes or operations in a second.

    Args:
        theoretical: by the maker's word.
        calibration: the share of it that was measured; None where nobody measured.
    """

    theoretical: float
    calibration: float | None

    @property
    def effective(self) -> float | None:
        """The measured rate."""
        return None if self.calibration is None else self.theoretical * self.calibration


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
        rate = amount / seconds
        if not amount or rate <= self.rates[name].theoretical:
            return None
        return f"{name}: {rate:.3g} a second, above {self.rates[name].theoretical:.3g} in theory"


@cache
def profiles() -> Mapping[str, Profile]:
    """Every profile by the name of its device."""
    folder = files(__name__)
    found = [
        profile_of(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".yaml")
    ]
    return {profile.device: profile for profile in found}


def profile_of(text: bytes) -> Profile:
    """A profile as its file says."""
    data: dict[str, Any] = plain(read_yaml(text).root)
    rates = {MEMORY: _rate(data[MEMORY])}
    for unit in data.keys() - {"device", "source", MEMORY}:
        rates |= {f"{unit}.{kind}": _rate(written) for kind, written in data[unit].items()}
    return Profile(data["device"], data["source"], rates)


def _rate(written: Mapping[str, float]) -> Rate:
    return Rate(written["theoretical"], written.get("calibration"))


def profile_for(device: torch.device) -> Profile | None:
    """The profile of a device, if there is one."""
    if device.type != "cuda":
        return None
    return profiles().get(torch.cuda.get_device_name(device))
