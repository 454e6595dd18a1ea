"""Reading kinds as specs write them: of indices, of family formals, of ADT fields."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tileops._core.lang.cursor import Cursor
from tileops._core.lang.dtypes import BITS, is_registered
from tileops._core.lang.kinds import (
    BOOL,
    DIM,
    INT,
    INTS,
    SHAPE,
    AdtKind,
    BoolKind,
    DimKind,
    DTypeKind,
    EnumKind,
    IntKind,
    Kind,
    MaybeKind,
    payload,
)
from tileops._core.lang.spelling import suggest

_PLAIN: dict[str, Kind] = {
    "Int": INT,
    "int": INT,
    "Dim": DIM,
    "Bool": BOOL,
    "bool": BOOL,
    "Shape": SHAPE,
}


def parse_kind(text: str, adts: Collection[str] = ()) -> Kind:
    """Any kind that has a text; `adts` are the names of the algebraic types.

    Raises:
        LanguageFault: the text is no kind.
    """
    return _parse(text, adts, lambda kind: True, "")


def parse_index_kind(text: str) -> Kind:
    """The kind of an index: `Dim`, `Shape`, `DType[…]` or `Seq[Int]`.

    Raises:
        LanguageFault: the text is none of these.
    """
    wanted = "an index is a Dim, a Shape, a DType[…] or a Seq[Int]"
    return _parse(
        text, (), lambda kind: kind in (DIM, SHAPE, INTS) or isinstance(kind, DTypeKind), wanted
    )


def parse_formal_kind(text: str, adts: Collection[str] = ()) -> Kind:
    """The kind of a family's formal: anything but a dtype.

    Raises:
        LanguageFault: the text is no such kind.
    """
    return _parse(text, adts, _is_formal, "a formal is never a dtype")


def _is_formal(kind: Kind) -> bool:
    return not isinstance(payload(kind), DTypeKind | MaybeKind)


def parse_field_kind(text: str) -> Kind:
    """The kind of an ADT field: `Dim`, `Int`, `Bool` or an enum.

    Raises:
        LanguageFault: the text is none of these.
    """
    wanted = "a field is a Dim, an Int, a Bool or an enum"
    return _parse(
        text, (), lambda kind: isinstance(kind, IntKind | DimKind | BoolKind | EnumKind), wanted
    )


def _parse(text: str, adts: Collection[str], admitted: Callable[[Kind], bool], wanted: str) -> Kind:
    parser = _KindParser(text, adts)
    kind = parser.kind()
    parser.finish()
    if not admitted(kind):
        raise parser.fault(wanted, 0)
    return kind


class _KindParser(Cursor):
    """One method per form of kind text."""

    def __init__(self, text: str, adts: Collection[str]) -> None:
        super().__init__(text)
        self._adts = adts

    def kind(self) -> Kind:
        if self.token.type == "string":
            return EnumKind(frozenset(self._members(self._literal)))
        token = self.expect_name("a kind")
        if token.text == "Seq":
            return self._sequence()
        if token.text == "DType":
            return self._dtypes()
        if token.text == "Maybe":
            self.expect("[")
            with self.nested():
                inner = self.kind()
            self.expect("]")
            return MaybeKind(inner)
        if token.text in _PLAIN:
            return _PLAIN[token.text]
        if token.text in self._adts:
            return AdtKind(token.text)
        raise self.fault(f"unknown kind {token.text}", token.start)

    def _sequence(self) -> Kind:
        self.expect("[")
        element = self.expect_name("Int")
        if element.text not in ("Int", "int"):
            raise self.fault("the items of a Seq are Int", element.start)
        self.expect("]")
        return INTS

    def _dtypes(self) -> Kind:
        self.expect("[")
        names = self._members(self._dtype)
        self.expect("]")
        return DTypeKind(frozenset(names))

    def _members(self, member: Callable[[], str]) -> list[str]:
        """One or more members separated by `|`, none of them twice."""
        found: list[str] = []
        while True:
            start = self.token.start
            found.append(member())
            if found[-1] in found[:-1]:
                raise self.fault(f"{found[-1]} is listed twice", start)
            if not self.accept("|"):
                return found

    def _literal(self) -> str:
        if self.token.type != "string":
            raise self.unexpected("expected a quoted literal")
        token = self.advance()
        if token.text[1:-1] == "_":
            raise self.fault("'_' is the pattern for anything, not a literal", token.start)
        return token.text[1:-1]

    def _dtype(self) -> str:
        token = self.expect_name("a dtype")
        if not is_registered(token.text):
            raise self.fault(
                f"{token.text} is not a registered dtype{suggest(token.text, BITS)}", token.start
            )
        return token.text
