"""Memory filled so that tests find what a kernel does not write."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def poisoned() -> Iterator[None]:
    """Fresh memory holds NaN, or the largest integer.

    Torch fills memory in its deterministic mode only. Functions without a deterministic form, such
    as running sums on CUDA, may run in it all the same.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have a deterministic implementation")
            yield
    finally:
        torch.use_deterministic_algorithms(False)
