"""The libraries that ops are compared with, and how each tells its version."""

from __future__ import annotations

from importlib import metadata

import torch

from tileops.bench.baselines import library


def installed(*packages: str) -> str | None:
    """The version of the first of these packages that is installed."""
    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def cublas() -> str | None:
    """The version of cuBLAS as packaged, else that of the CUDA that torch was built for."""
    if torch.version.cuda is None:
        return None
    return installed("nvidia-cublas", "nvidia-cublas-cu12") or f"of CUDA {torch.version.cuda}"


def cudnn() -> str | None:
    """The version of the cuDNN that torch calls."""
    version = torch.backends.cudnn.version()
    return None if version is None else str(version)


library("torch", lambda: torch.__version__)
library("cublas", cublas, ("cuda",))
library("cudnn", cudnn, ("cuda",))
library("liger", lambda: installed("liger-kernel"), ("cuda",), "liger-kernel")
