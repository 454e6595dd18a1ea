"""What measured figures depend on, kept beside them."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

import tileops
from tileops.bench.clock import event_gap

PACKAGES = ("tileops", "torch", "tilelang")
_SMI = "driver_version,clocks.max.sm,power.limit"


def environment(device: torch.device, commit: str | None = None) -> dict[str, str | None]:
    """The device by name and state, and the versions of what ran on it; None for what is not known.

    On CUDA also what the clock takes off the time that events show, in microseconds.

    Args:
        device: where figures are measured.
        commit: the commit of the code; asked of git where absent.
    """
    versions = {package: _version(package) for package in PACKAGES}
    return {
        "device": device_name(device),
        "state": _state(device),
        "python": platform.python_version(),
        **versions,
        "event_gap": f"{event_gap() * 1e6:.2f} us" if device.type == "cuda" else None,
        "commit": commit or _output("git", "-C", str(_package()), "rev-parse", "--short", "HEAD"),
    }


def device_name(device: torch.device) -> str:
    """A device's name as its driver, or the system, reports it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _package() -> Path:
    return Path(tileops.__file__).parent


def _state(device: torch.device) -> str | None:
    """Driver, highest clock and power limit of a GPU; how many threads the CPU computes with."""
    if device.type != "cuda":
        return f"{torch.get_num_threads()} threads"
    found = _output("nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader")
    return None if found is None else found.splitlines()[torch.cuda.current_device()]


def _output(*command: str) -> str | None:
    """What a command prints; None where it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
