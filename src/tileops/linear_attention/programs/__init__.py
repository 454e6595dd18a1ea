"""TileLang programs of recurrences; imported only when a kernel makes its program."""

from tileops.linear_attention.programs.chunk_systems import CHUNK, FACTORS, MATRICES
from tileops.linear_attention.programs.chunks import build_chunks
from tileops.linear_attention.programs.tokens import Recurrence, build_tokens

__all__ = ["CHUNK", "FACTORS", "MATRICES", "Recurrence", "build_chunks", "build_tokens"]
