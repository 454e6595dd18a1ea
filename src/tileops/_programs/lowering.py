"""Lowering instead of compiling: programs become CUDA source, without a device or its compiler."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock, patch

import tilelang
from tilelang import tvm
from tilelang.transform.pass_config import normalize_pass_configs

from tileops._programs.program import target


@contextmanager
def lowering(arch: int) -> Iterator[list[str]]:
    """While it lasts, TileLang lowers what it is asked to compile, in whatever way it is asked.

    What stands for a compiled program answers anything and launches nothing.

    Args:
        arch: 10 · major + minor of the compute capability.

    Yields:
        The sources of the programs, in the order in which they were asked for.
    """
    sources: list[str] = []
    chosen = tvm.target.Target(target(arch))

    def lowered(
        func: Any, *_: object, pass_configs: Mapping[str, Any] | None = None, **__: object
    ) -> Any:
        settings = normalize_pass_configs(pass_configs)
        with tvm.transform.PassContext(opt_level=3, config=settings), chosen:
            sources.append(tilelang.lower(func, target=chosen).kernel_source)
        return MagicMock(get_kernel_source=lambda: sources[-1])

    # The attribute of the package is a decorator of the same name.
    with patch.object(importlib.import_module("tilelang.jit"), "cached", lowered):
        yield sources
