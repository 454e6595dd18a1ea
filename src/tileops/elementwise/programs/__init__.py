"""TileLang programs of the pointwise ops; imported only when a kernel makes its program."""

from tileops.elementwise.programs.broadcast import build_pointwise_broadcast
from tileops.elementwise.programs.dropout import build_dropout
from tileops.elementwise.programs.generative import build_alibi, build_sinusoidal
from tileops.elementwise.programs.pointwise import Element, build_gated, build_pointwise_flat

__all__ = [
    "Element",
    "build_alibi",
    "build_dropout",
    "build_gated",
    "build_pointwise_broadcast",
    "build_pointwise_flat",
    "build_sinusoidal",
]
