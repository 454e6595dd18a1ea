"""TileLang programs of recurrences; imported only when a kernel makes its program."""

from tileops.linear_attention.programs.tokens import Recurrence, build_tokens

__all__ = ["Recurrence", "build_tokens"]
