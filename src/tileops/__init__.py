"""TileOPs: operators for large language models, each described by a spec.

Importing this package loads the error classes and nothing else: no torch, no TileLang, no backend.
Every other name is found on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tileops.errors import (
    AmbiguousTargetError,
    BackendError,
    DispatchError,
    ManifestError,
    OpNotAvailableError,
    SignatureError,
    SignatureTypeError,
    TileOpsError,
    UnknownTargetError,
)

if TYPE_CHECKING:
    from tileops import attention as attention
    from tileops import backend as backend
    from tileops import convolution as convolution
    from tileops import elementwise as elementwise
    from tileops import fft as fft
    from tileops import gemm as gemm
    from tileops import kernels as kernels
    from tileops import linear_attention as linear_attention
    from tileops import manifest as manifest
    from tileops import moe as moe
    from tileops import norm as norm
    from tileops import ops as ops
    from tileops import pool as pool
    from tileops import quantization as quantization
    from tileops import reduction as reduction
    from tileops import rope as rope
    from tileops import sampling as sampling
    from tileops import sequence_modeling as sequence_modeling
    from tileops import transform as transform
    from tileops._core.op import Op

    __version__: str

__all__ = [
    "FAMILIES",
    "AmbiguousTargetError",
    "BackendError",
    "DispatchError",
    "ManifestError",
    "Op",
    "OpNotAvailableError",
    "SignatureError",
    "SignatureTypeError",
    "TileOpsError",
    "UnknownTargetError",
    "list_ops",
]

FAMILIES: tuple[str, ...] = (
    "norm",
    "elementwise",
    "reduction",
    "rope",
    "pool",
    "convolution",
    "transform",
    "fft",
    "sampling",
    "gemm",
    "quantization",
    "attention",
    "linear_attention",
    "sequence_modeling",
    "moe",
)
"""The public modules that hold op classes, one folder each."""

_MODULES = (*FAMILIES, "backend", "kernels", "manifest", "ops")


def list_ops(
    family: str | None = None, status: Literal["implemented", "spec-only"] | None = None
) -> list[str]:
    """Names of the known ops, sorted.

    Args:
        family: only ops of this family.
        status: only ops of this status.

    Returns:
        The names; none when nothing fits.
    """
    # A string keeps the import out of the graph: the machinery itself imports this package.
    specs = _module("tileops.manifest").specs()
    return sorted(
        name
        for name, spec in specs.items()
        if family in (None, spec.get("family")) and status in (None, spec.get("status"))
    )


def _module(name: str) -> Any:
    from importlib import import_module

    return import_module(name)


def _version() -> str:
    metadata = _module("importlib.metadata")
    try:
        return str(metadata.version("tileops"))
    except metadata.PackageNotFoundError as error:
        raise AttributeError("tileops is a checkout that is not installed: no version") from error


def __getattr__(name: str) -> Any:
    if name == "Op":
        return _module("tileops._core.op").Op
    if name in _MODULES:
        return _module(f"tileops.{name}")
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'tileops' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
