"""What measured figures depend on, kept beside them."""

from __future__ import annotations

import platform
from importlib import metadata

import torch

PACKAGES = ("tileops", "torch", "tilelang")


def environment(device: torch.device) -> dict[str, str | None]:
    """The device by name, and the versions of what ran on it; None for what is not installed."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = platform.processor() or platform.machine()
    versions = {package: _version(package) for package in PACKAGES}
    return {"device": name, "python": platform.python_version(), **versions}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
