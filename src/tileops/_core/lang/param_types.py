"""Types of ordinary parameters: a union of members, read from text.

A member tells which Python objects and which YAML values it takes. A value is converted to the
form that expressions see by the first member, in written order, that accepts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tileops._core.lang.cached import cached_property
from tileops._core.lang.cursor import Cursor
from tileops._core.lang.declared import dataclass
from tileops._core.lang.dtypes import BITS, is_registered
from tileops._core.lang.kinds import NONE, Kind, MaybeKind, union
from tileops._core.lang.members import (
    Accepted,
    AdtFields,
    AdtMember,
    BoolMember,
    DTypeMember,
    FloatMember,
    IntMember,
    LiteralMember,
    Member,
    NoneMember,
    NumberMember,
    ObjectMember,
    Refused,
    Resolver,
    SequenceMember,
    StrMember,
    Verdict,
)
from tileops._core.lang.spelling import suggest
from tileops._core.lang.values import shown, shown_with_type


@dataclass(frozen=True)
class ParamType:
    """The declared type of a parameter.

    Args:
        text: the type as written.
        members: the alternatives, in written order.
    """

    text: str
    members: tuple[Member, ...]

    @cached_property
    def kind(self) -> Kind:
        """The kind of the parameter's values."""
        inner = union(member.kind for member in self.members if not isinstance(member, NoneMember))
        if not self.admits_none:
            return inner
        return NONE if len(self.members) == 1 else MaybeKind(inner)

    @property
    def admits_none(self) -> bool:
        """Whether `None` is a value."""
        return any(isinstance(member, NoneMember) for member in self.members)

    def accept(self, value: object, resolver: Resolver) -> Verdict:
        """The form in which expressions see a Python value, or why no member takes it."""
        return self._first(value, (member.accept(value, resolver) for member in self.members))

    def from_yaml(self, value: object, adts: Mapping[str, AdtFields]) -> Verdict:
        """The form in which expressions see a value read from YAML, or why no member takes it."""
        return self._first(value, (member.from_yaml(value, adts) for member in self.members))

    def _first(self, value: object, verdicts: Iterable[Verdict]) -> Verdict:
        """The first verdict that accepts, else the first that gives a reason of its own."""
        refused: list[Refused] = []
        for verdict in verdicts:
            if isinstance(verdict, Accepted):
                return verdict
            refused.append(verdict)
        reasoned = next((each for each in refused if each.reason), None)
        return reasoned or self._refused(value, any(each.type_fits for each in refused))

    def _refused(self, value: object, type_fits: bool) -> Refused:
        got = shown(value) if type_fits else shown_with_type(value)
        return Refused(type_fits, f"expected {self._expected()}, got {got}")

    def _expected(self) -> str:
        """What the members take, the literals and the dtypes each listed once."""
        literals = sorted(repr(m.literal) for m in self.members if isinstance(m, LiteralMember))
        dtypes = sorted(m.name for m in self.members if isinstance(m, DTypeMember) and m.name)
        parts: list[str] = []
        for member in self.members:
            part = member.expected
            if isinstance(member, LiteralMember):
                part = f"one of {', '.join(literals)}" if len(literals) > 1 else literals[0]
            elif isinstance(member, DTypeMember) and member.name:
                part = f"one of {', '.join(dtypes)}" if len(dtypes) > 1 else dtypes[0]
            if part not in parts:
                parts.append(part)
        return " or ".join(parts)


def parse_param_type(text: str, adts: Collection[str] = ()) -> ParamType:
    """The type of a parameter; `adts` are the names of the algebraic types.

    Raises:
        LanguageFault: the text is no type, or names an unknown algebraic type.

    Example:
        >>> str(parse_param_type("int | tuple[int, int]").kind)
        'Int | Seq[Int] of 2'
    """
    parser = _TypeParser(text, adts)
    members = parser.members()
    parser.finish()
    has_int = any(isinstance(member, IntMember) for member in members)
    return ParamType(
        text,
        tuple(FloatMember(has_int) if isinstance(m, FloatMember) else m for m in members),
    )


_PLAIN: dict[str, Member] = {
    "int": IntMember(),
    "bool": BoolMember(),
    "float": FloatMember(takes_bool=False),
    "Number": NumberMember(),
    "str": StrMember(),
    "dict": ObjectMember("dict"),
}


class _TypeParser(Cursor):
    """One method per form of type text."""

    def __init__(self, text: str, adts: Collection[str]) -> None:
        super().__init__(text)
        self._adts = adts

    def members(self) -> list[Member]:
        found = [self._member()]
        while self.accept("|"):
            found.append(self._member())
        return found

    def _member(self) -> Member:
        if self.token.type == "string":
            return self._literal()
        if self.accept("None"):
            return NoneMember()
        token = self.expect_name("a type")
        if token.text in ("list", "tuple"):
            return self._sequence(token.text)
        if self.at("."):
            return self._dotted(token.text)
        if token.text in _PLAIN:
            return _PLAIN[token.text]
        if is_registered(token.text):
            return DTypeMember(token.text)
        if token.text in self._adts:
            return AdtMember(token.text)
        hint = suggest(token.text, (*_PLAIN, "list", "tuple", *BITS, *self._adts))
        raise self.fault(f"unknown type {token.text}{hint}", token.start)

    def _literal(self) -> Member:
        token = self.advance()
        literal = token.text[1:-1]
        if literal == "_":
            raise self.fault("'_' is the pattern for anything, not a literal", token.start)
        return LiteralMember(literal)

    def _dotted(self, first: str) -> Member:
        parts = [first]
        while self.accept("."):
            parts.append(self.expect_name("a name").text)
        name = ".".join(parts)
        return DTypeMember(None) if name == "torch.dtype" else ObjectMember(name)

    def _sequence(self, container: str) -> Member:
        self.expect("[")
        elements = [self._element()]
        is_open = container == "list"
        while not is_open and self.accept(","):
            if self.accept("."):
                self.expect(".")
                self.expect(".")
                is_open = True
            elif not self.at("]"):
                elements.append(self._element())
        if is_open and len(elements) > 1:
            raise self.fault("`...` follows one element type")
        self.expect("]")
        return SequenceMember(container == "list", tuple(elements), is_open)

    def _element(self) -> bool:
        """Whether the element type at the cursor, `int` or `int | None`, admits None."""
        token = self.token
        if self.advance().text != "int":
            raise self.fault("the items of a list or tuple are `int` or `int | None`", token.start)
        return self.accept("|") and bool(self.expect("None"))
