"""What the demo reads: its built-in sentences, or those of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tileops.demo.errors import DemoInputError

BUILT_IN_SENTENCES: tuple[str, ...] = (
    "How can I make a matrix product faster on a GPU?",
    "Tiling keeps the operands of a GEMM in shared memory while the tensor cores are busy.",
    "Attention over long sequences is bound by memory traffic unless the scores stay on chip.",
    "The cat slept on the warm windowsill all afternoon.",
    "A good sourdough needs flour, water, salt and patience.",
    "Graphics processors reach their peak only when data arrives as fast as it is used.",
    "The train to the coast leaves at seven and takes two hours.",
    "Compilers reorder loops so that values are reused while they are still in cache.",
)
"""The first asks, the others are ranked by how near they come to it; their lengths differ."""


def read_sentences(path: Path) -> tuple[str, ...]:
    """Sentences of a text file, one a line; blank lines are left out.

    Args:
        path: a UTF-8 text file.

    Returns:
        The sentences in file order.

    Raises:
        DemoInputError: the file cannot be read, is not UTF-8 or holds no sentence.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DemoInputError(f"{path}: not UTF-8 text ({error.reason})") from error
    except OSError as error:
        raise DemoInputError(f"{path}: {error.strerror or error}") from error
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not found:
        raise DemoInputError(f"{path}: holds no sentence")
    return found


def check_sentences(sentences: Sequence[str]) -> None:
    """Refuse what cannot be ranked: fewer than two sentences, or a blank one.

    Args:
        sentences: the query first, then what is ranked against it.

    Raises:
        DemoInputError: there are fewer than two, or one is blank.
    """
    for position, sentence in enumerate(sentences, 1):
        if not sentence.strip():
            raise DemoInputError(f"sentence {position} is blank")
    if len(sentences) < 2:
        raise DemoInputError(
            f"the first sentence is ranked against the others: two are needed, got {len(sentences)}"
        )
