"""Memory whose contents show: what a kernel does not write is found by the tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def poisoned() -> Iterator[None]:
    """Fresh memory holds NaN, or the largest integer.

    Torch fills memory in its deterministic mode only. What has no deterministic form there, such as
    running sums on CUDA, is let through.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have a deterministic implementation")
            yield
    finally:
        torch.use_deterministic_algorithms(False)
