"""The closed table of built-ins: what each takes, what it gives, and how it meets symbolic sizes.

`BUILTINS` is the one place where a name of the language is tied to its function. Arguments are
given by position; optional ones also by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from tileops._core.lang import dtypes
from tileops._core.lang.declared import dataclass
from tileops._core.lang.kinds import (
    BOOL,
    DIM,
    DTYPE,
    INT,
    INTS,
    SHAPE,
    UNKNOWN,
    VALUE,
    AdtKind,
    DTypeKind,
    EnumKind,
    Kind,
    MaybeKind,
    NoneKind,
    SeqKind,
    UnionKind,
    alternatives,
    join,
    payload,
)
from tileops._core.lang.primitives import (
    attn,
    axes,
    conv,
    generators,
    lists,
    mhc,
    moe,
    pool,
    predicates,
    sampling,
    scalars,
    sizes,
)

Role: TypeAlias = Literal["primitive", "list", "generator", "predicate"]
"""Where a built-in may be called: `"list"` in generator arguments and rows only, `"generator"` in
`values`, `"predicate"` in `requires`, `"primitive"` elsewhere and as an argument of all of them."""

SymInt: TypeAlias = Literal["symbolic", "specialises", "plain"]
"""A built-in computes with symbolic sizes, fixes them, or takes plain values only."""


@dataclass(frozen=True)
class Parameter:
    """One argument.

    Args:
        name: its name.
        kind: the kind needed.
        optional: it may be left out, and given by name.
        construction: it must be known at construction.
        at_least: the smallest number in its domain.
    """

    name: str
    kind: Kind
    optional: bool = False
    construction: bool = False
    at_least: int | None = None


@dataclass(frozen=True)
class Builtin:
    """One member of the language's closed set of functions.

    Args:
        name: the name in expressions.
        role: where it may be called.
        function: what it computes. A predicate takes the contents first; a random generator takes
            `rng`.
        parameters: its arguments.
        result: the kind of the result, or how it follows from the kinds of the arguments.
        variadic: the last parameter takes one argument or more.
        symint: how it meets symbolic sizes.
        rank: of a generator's result, or of the contents a predicate reads; None for any.
        random: a generator that draws random numbers.
    """

    name: str
    role: Role
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    result: Kind | Callable[[Sequence[Kind]], Kind] = BOOL
    variadic: bool = False
    symint: SymInt = "plain"
    rank: int | None = None
    random: bool = False

    def parameter(self, position: int) -> Parameter | None:
        """The parameter that a positional argument goes to."""
        if self.variadic:
            position = min(position, len(self.parameters) - 1)
        return self.parameters[position] if position < len(self.parameters) else None

    def result_kind(self, arguments: Sequence[Kind]) -> Kind:
        """The kind of a call's result."""
        return self.result(arguments) if callable(self.result) else self.result


def _dim_if_all_dims(arguments: Sequence[Kind]) -> Kind:
    return DIM if all(kind == DIM for kind in arguments) else INT


def _dim_if_items_are(arguments: Sequence[Kind]) -> Kind:
    items = alternatives(arguments[0])
    return DIM if all(isinstance(k, SeqKind) and k.element == DIM for k in items) else INT


def _promoted(arguments: Sequence[Kind]) -> Kind:
    kind = arguments[0]
    names = dtypes.BITS if not isinstance(kind, DTypeKind | EnumKind) else _names(kind)
    return DTypeKind(frozenset(map(scalars.promote_int_to_float, names)))


def _coalesced(arguments: Sequence[Kind]) -> Kind:
    first, second = arguments
    if isinstance(first, NoneKind):
        return second
    return join(payload(first), second) or DTYPE


def _names(kind: DTypeKind | EnumKind) -> frozenset[str]:
    return kind.literals if isinstance(kind, EnumKind) else kind.members


_AXES = MaybeKind(UnionKind((INT, INTS)))
_PER_AXIS = MaybeKind(UnionKind((INT, SeqKind(MaybeKind(INT)))))
_NUMBER = UnionKind((INT, BOOL, VALUE))
_NUMBER_OR_DTYPE = UnionKind((INT, BOOL, VALUE, DTYPE))
_CATEGORY = EnumKind(frozenset({"bool", "int", "float", "complex"}))
_MODE = EnumKind(frozenset({"full", "noop", "reject"}))
_SIDE = EnumKind(frozenset({"start", "end"}))


def _int(name: str, at_least: int | None = None) -> Parameter:
    return Parameter(name, INT, at_least=at_least)


def _fixed(name: str, kind: Kind, at_least: int | None = None) -> Parameter:
    """An argument that construction knows."""
    return Parameter(name, kind, construction=True, at_least=at_least)


def _symbolic(
    name: str,
    function: Callable[..., Any],
    result: Kind | Callable[[Sequence[Kind]], Kind],
    *parameters: Parameter,
) -> Builtin:
    """A primitive that computes with symbolic sizes."""
    return Builtin(name, "primitive", function, parameters, result, symint="symbolic")


def _plain(
    name: str,
    function: Callable[..., Any],
    result: Kind | Callable[[Sequence[Kind]], Kind],
    *parameters: Parameter,
) -> Builtin:
    """A primitive of plain values."""
    return Builtin(name, "primitive", function, parameters, result)


def _generator(
    name: str, function: Callable[..., Any], rank: int | None, *parameters: Parameter
) -> Builtin:
    return Builtin(name, "generator", function, parameters, INTS, rank=rank)


def _random(name: str, function: Callable[..., Any], rank: int, *parameters: Parameter) -> Builtin:
    return Builtin(name, "generator", function, parameters, INTS, rank=rank, random=True)


def _predicate(
    name: str, function: Callable[..., Any], rank: int | None, *parameters: Parameter
) -> Builtin:
    return Builtin(name, "predicate", function, parameters, BOOL, rank=rank)


_L = Parameter("L", INTS)
_OFFSETS = Parameter("offsets", INTS)
_SHAPE = Parameter("shape", SHAPE)
_ITEMS = Parameter("items", INTS)
_DEFAULT = Parameter("default", MaybeKind(INT), optional=True)
_DIM = _fixed("dim", _AXES)
_DTYPE = Parameter("d", DTYPE)
_LAYOUT = Parameter("layout", AdtKind("MGroupedLayout"))
_ROWS = _int("rows", 0)
_WINDOW = (
    _int("length"),
    _int("kernel", 1),
    _int("stride", 1),
    _int("padding"),
    _int("dilation", 1),
)

# fmt: off
_PRIMITIVES = (
    replace(_symbolic("broadcast", sizes.broadcast, SHAPE, _SHAPE), variadic=True),
    _symbolic("reduced", axes.reduced, SHAPE,
              _SHAPE, _DIM, _fixed("keepdim", BOOL), Parameter("mode", _MODE)),
    _symbolic("valid_axes", axes.valid_axes, BOOL, _DIM, _int("rank")),
    _symbolic("unique_axes", axes.unique_axes, BOOL, _DIM, _int("rank")),
    _symbolic("per_axis", axes.per_axis, INT,
              _fixed("v", _PER_AXIS), _fixed("i", INT, 0), _fixed("n", INT, 1),
              Parameter("fallback", MaybeKind(INT), optional=True)),
    _symbolic("ceil_div", sizes.ceil_div, _dim_if_all_dims, _int("a"), _int("b", 1)),
    _symbolic("prod", sizes.prod, _dim_if_items_are, _ITEMS),
    _symbolic("sum", sizes.sum, _dim_if_items_are, _ITEMS),
    _symbolic("max", sizes.max, INT, _ITEMS, _DEFAULT),
    _symbolic("min", sizes.min, INT, _ITEMS, _DEFAULT),
    _symbolic("all", sizes.all, BOOL, Parameter("items", SeqKind(BOOL))),
    _symbolic("conv.out", conv.out, INT, *_WINDOW),
    _symbolic("pool.out", pool.out, DIM, *_WINDOW, _fixed("ceil_mode", BOOL)),
    _symbolic("moe.capacity", moe.capacity, DIM,
              replace(_LAYOUT, construction=True), _ROWS, _int("experts", 0)),
    replace(_plain("mhc.expansion", mhc.expansion, DIM, _int("q", 3)), symint="specialises"),
    _plain("len", sizes.len, DIM, Parameter("items", SeqKind(UNKNOWN))),
    _plain("promote_int_to_float", scalars.promote_int_to_float, _promoted, _DTYPE),
    _plain("coalesce_dtype", scalars.coalesce_dtype, _coalesced,
           Parameter("m", MaybeKind(DTYPE)), _DTYPE),
    _plain("category", scalars.category, _CATEGORY, Parameter("value", _NUMBER_OR_DTYPE)),
    _plain("representable", scalars.representable, BOOL, Parameter("value", _NUMBER), _DTYPE),
)
_LISTS = (
    Builtin("balanced_sizes", "list", lists.balanced_sizes,
            (_int("total", 0), _int("count", 1)), INTS),
    Builtin("repeat", "list", lists.repeat, (_int("value"), _int("count", 0)), INTS),
)
_GENERATORS = (
    _generator("as_tensor", generators.as_tensor, 1, _L),
    _generator("prefix_sum", generators.prefix_sum, 1, _L),
    _generator("exclusive_prefix_sum", generators.exclusive_prefix_sum, 1, _L),
    _generator("padded_exclusive_prefix_sum", generators.padded_exclusive_prefix_sum, 1,
               _L, _int("pad", 1)),
    _generator("chunk_indices", generators.chunk_indices, 2, _L, _int("c", 1)),
    _generator("chunk_offsets", generators.chunk_offsets, 1, _L, _int("c", 1)),
    _generator("token_indices", generators.token_indices, 2, _L),
    _generator("packed_positions", generators.packed_positions, 1, _L),
    _generator("key_windows", generators.key_windows, 1,
               _L, _int("first", 0), _int("n", 0), Parameter("side", _SIDE)),
    _generator("full", generators.full, None, Parameter("shape", INTS), _int("v")),
    _generator("moe.layout_metadata", moe.layout_metadata, 1, _LAYOUT, _ROWS, _int("experts", 1)),
    _random("paged_block_table", sampling.paged_block_table, 2,
            _int("batch", 0), _int("width", 1), _int("pool", 1)),
    _random("topk_ids", sampling.topk_ids, 2, _ROWS, _int("k", 1), _int("experts", 1)),
    _random("sample_indices", sampling.sample_indices, 1, _int("n", 0), _int("hi", 0)),
    _random("nsa_block_counts", sampling.nsa_block_counts, 2,
            _int("tokens", 1), _int("heads", 1), _int("selected", 1)),
    _random("nsa_block_indices", sampling.nsa_block_indices, 3,
            _L, _int("block", 1), _int("selected", 1), _int("heads", 1)),
    _random("causal_topk_indices", sampling.causal_topk_indices, 4,
            _int("batch", 1), _int("rows", 1), _int("heads", 1), _int("k", 1), _int("keys", 1),
            _int("start", 0), _int("stride", 1)),
)
_PREDICATES = (
    _predicate("prefix_offsets", predicates.prefix_offsets, 1, _int("total")),
    _predicate("max_segment", predicates.max_segment, 1, _int("bound")),
    _predicate("in_range", predicates.in_range, None, _int("lo"), _int("hi")),
    _predicate("sums_to", predicates.sums_to, 1, _int("total")),
    _predicate("exclusive_prefix_of", predicates.exclusive_prefix_of, 1,
               Parameter("lengths", INTS)),
    _predicate("chunk_offsets_of", predicates.chunk_offsets_of, 1, _OFFSETS, _int("c", 1)),
    _predicate("indices_within", predicates.indices_within, 2, _OFFSETS),
    _predicate("attn.paged_fits", attn.paged_fits, 1, Parameter("cu", INTS), _int("cap")),
    _predicate("moe.layout_valid", moe.layout_valid, 1, _LAYOUT, _ROWS, _int("experts", 0)),
)
# fmt: on

BUILTINS: Mapping[str, Builtin] = MappingProxyType(
    {builtin.name: builtin for builtin in (*_PRIMITIVES, *_LISTS, *_GENERATORS, *_PREDICATES)}
)
"""Every built-in by its name."""

NAMESPACES = frozenset(name.partition(".")[0] for name in BUILTINS if "." in name)
"""The prefixes of built-ins that serve one family."""
