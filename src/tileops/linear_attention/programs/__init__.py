"""TileLang programs of recurrences; imported only when a kernel makes its program."""

from tileops.linear_attention.programs.chunks import build_chunks
from tileops.linear_attention.programs.kept_chunks import build_kept_chunks
from tileops.linear_attention.programs.tokens import Recurrence, build_tokens

__all__ = ["Recurrence", "build_chunks", "build_kept_chunks", "build_tokens"]
