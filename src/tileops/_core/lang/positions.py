"""What an expression may read and call at one place of a spec."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Literal

from tileops._core.lang.declared import dataclass
from tileops._core.lang.kinds import Kind
from tileops._core.lang.members import AdtFields
from tileops._core.lang.spelling import suggest


@dataclass(frozen=True)
class Position:
    """One place of a spec, as the kind checker sees it.

    Args:
        names: the kind of a readable name, None for any other.
        barred: why a declared name is not readable here, None for any other.
        tensors: what `present` may test beside readable names of kind `Maybe`: tensors, outputs,
            and `out` where some output is buffered.
        sizes: whether `bytes` may measure the tensors.
        root: what the whole expression must be: any expression, or a call of a generator or a
            predicate. In the latter two, lists of lengths may be written as calls.
        adts: the fields of each constructor of each algebraic type.
        readable: all readable names, for hints; none where nobody asks for them.
    """

    names: Callable[[str], Kind | None]
    barred: Callable[[str], str | None] = lambda name: None
    tensors: Collection[str] = ()
    sizes: bool = False
    root: Literal["expression", "generator", "predicate"] = "expression"
    adts: Mapping[str, AdtFields] = field(default_factory=dict)
    readable: Callable[[], Collection[str]] = tuple

    def is_declared(self, name: str) -> bool:
        """Whether the spec declares `name`, readable here or not."""
        known = self.names(name) is not None or self.barred(name) is not None
        return known or name in self.tensors

    def undeclared(self, name: str, also: Collection[str] = ()) -> str:
        """That the spec does not declare `name`, in words, with the one perhaps meant.

        Args:
            name: the name.
            also: what could stand there beside readable names.
        """
        return f"{name} is not declared{suggest(name, [*self.readable(), *also])}"
