"""The op classes of all families under one name.

`tileops.ops.RMSNormFwdOp` is `tileops.norm.RMSNormFwdOp`. The names are those of the implemented
in-tree specs, so no list is kept here; a family is imported when one of its classes is asked for.
Type checkers, which run nothing, are shown the families instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tileops._core.spec import registry

if TYPE_CHECKING:
    from tileops._core.op import Op
    from tileops.attention import *  # noqa: F403
    from tileops.convolution import *  # noqa: F403
    from tileops.elementwise import *  # noqa: F403
    from tileops.fft import *  # noqa: F403
    from tileops.gemm import *  # noqa: F403
    from tileops.linear_attention import *  # noqa: F403
    from tileops.moe import *  # noqa: F403
    from tileops.norm import *  # noqa: F403
    from tileops.pool import *  # noqa: F403
    from tileops.quantization import *  # noqa: F403
    from tileops.reduction import *  # noqa: F403
    from tileops.rope import *  # noqa: F403
    from tileops.sampling import *  # noqa: F403
    from tileops.sequence_modeling import *  # noqa: F403
    from tileops.transform import *  # noqa: F403


def _families() -> dict[str, str]:
    """Name of each implemented in-tree op, and its family."""
    specs = (registry.lookup(name) for name in registry.specs())
    return {
        spec.name: spec.family
        for spec in specs
        if spec and spec.in_tree and spec.family and spec.status == "implemented"
    }


_FAMILY_OF = _families()

__all__ = sorted(_FAMILY_OF)


def __getattr__(name: str) -> type[Op]:
    family = _FAMILY_OF.get(name)
    if family is None:
        raise AttributeError(f"module 'tileops.ops' has no attribute {name!r}")
    found: type[Op] = getattr(import_module(f"tileops.{family}"), name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
