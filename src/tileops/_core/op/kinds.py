"""Kinds of calls: what the check found for calls between which it makes no difference."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tileops._core.locks import make_lock
from tileops._core.runtime.likeness import Test, likeness, never, unmade

if TYPE_CHECKING:
    from tileops._core.runtime.record import CallFacts, SignatureCall

MOST_KINDS = 4096
"""How many kinds of calls an instance remembers; the oldest is dropped first."""

_keeping = make_lock()


class Kind:
    """What is known of the calls of one kind.

    Where such calls follow one another, two tests tell them, and their results, by a look; threads
    may exchange these at any time.

    Attributes:
        record: the record where all such calls have the same, else None.
        facts: what the check found.
        admits: passed by inputs that make a call of this kind; by those of the call before.
        fulfils: passed by new outputs of the promised form.
    """

    __slots__ = ("admits", "facts", "fulfils", "record")

    admits: Test
    fulfils: Test

    def __init__(self, record: SignatureCall | None, facts: CallFacts) -> None:
        self.record, self.facts = record, facts
        self.forget()

    def tell_by(self, inputs: tuple[Any, ...]) -> None:
        """Tell calls by inputs like these."""
        self.fulfils = unmade
        self.admits = likeness(*inputs)

    def forget(self) -> None:
        """Leave calls to be told by their key."""
        self.admits = self.fulfils = never


NO_KIND = Kind(None, None)  # type: ignore[arg-type]
"""Stands for the kind of the latest call before there is one."""


def keep(known: dict[Any, Kind], key: tuple[Any, ...], kind: Kind) -> None:
    """Keep a kind under its key, unless a symbolic size makes it no key.

    A finaliser that calls ops may change the table between any two steps.
    """
    with _keeping, suppress(TypeError, RuntimeError):
        if key not in known and len(known) >= MOST_KINDS:
            known.pop(next(iter(known)), None)
        known[key] = kind
