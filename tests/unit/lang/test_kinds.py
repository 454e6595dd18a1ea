"""Kind relations, kind texts, and the dtype registry."""

from __future__ import annotations

import pytest

from tileops._core.lang import dtypes
from tileops._core.lang.faults import LanguageFault
from tileops._core.lang.kind_text import (
    parse_field_kind,
    parse_formal_kind,
    parse_index_kind,
    parse_kind,
)
from tileops._core.lang.kinds import (
    BOOL,
    DIM,
    DTYPE,
    INT,
    INTS,
    NEVER,
    NONE,
    SHAPE,
    STR,
    UNKNOWN,
    VALUE,
    AdtKind,
    DTypeKind,
    EnumKind,
    MaybeKind,
    SeqKind,
    UnionKind,
    fits,
    is_finite,
    is_opaque,
    join,
    join_all,
    overlap,
    union,
)

AB, ABC = EnumKind(frozenset("ab")), EnumKind(frozenset("abc"))
F16 = DTypeKind(frozenset({"float16"}))
F32 = DTypeKind(frozenset({"float32"}))
HALF_NAME = EnumKind(frozenset({"float16"}))
STORE = AdtKind("Store")
ALL = [
    BOOL, DIM, DTYPE, INT, INTS, NEVER, NONE, SHAPE, STR, UNKNOWN, VALUE, AB, ABC, F16, F32,
    HALF_NAME, STORE, MaybeKind(INT), MaybeKind(AB), SeqKind(INT, 2), UnionKind((INT, AB)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (DIM, INT),
        (INT, DIM),
        (INTS, SHAPE),
        (SHAPE, INTS),
        (SeqKind(DIM, 2), SHAPE),
        (AB, ABC),
        (F16, DTYPE),
        (HALF_NAME, F16),
        (AB, STR),
        (NONE, MaybeKind(INT)),
        (DIM, MaybeKind(INT)),
        (MaybeKind(DIM), MaybeKind(INT)),
        (UnionKind((INT, AB)), UnionKind((ABC, DIM))),
        (INT, UnionKind((AB, INT))),
        (NEVER, BOOL),
        (STORE, STORE),
        *((kind, VALUE) for kind in ALL if not isinstance(kind, MaybeKind)),
        *((kind, UNKNOWN) for kind in ALL),
        *((UNKNOWN, kind) for kind in ALL),
    ],
)
def test_fits(kind, wanted):
    assert fits(kind, wanted)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (BOOL, INT),
        (INT, BOOL),
        (ABC, AB),
        (DTYPE, F16),
        (AB, F16),
        (STR, AB),
        (VALUE, INT),
        (VALUE, STR),
        (MaybeKind(INT), INT),
        (MaybeKind(INT), VALUE),
        (NONE, INT),
        (MaybeKind(AB), MaybeKind(INT)),
        (UnionKind((INT, AB)), INT),
        (INT, UnionKind((AB, BOOL))),
        (INTS, INT),
        (SHAPE, SeqKind(DIM, 2)),
        (SeqKind(BOOL), INTS),
        (STORE, AdtKind("Other")),
    ],
)
def test_does_not_fit(kind, wanted):
    assert not fits(kind, wanted)


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (DIM, INT, INT),
        (AB, EnumKind(frozenset("c")), ABC),
        (F16, F32, DTypeKind(frozenset({"float16", "float32"}))),
        (F32, HALF_NAME, DTypeKind(frozenset({"float16", "float32"}))),
        (F16, DTYPE, DTYPE),
        (SeqKind(DIM, 2), SeqKind(INT, 2), SeqKind(INT, 2)),
        (SeqKind(DIM, 2), SeqKind(INT, 3), INTS),
        (INT, NONE, MaybeKind(INT)),
        (MaybeKind(DIM), INT, MaybeKind(INT)),
        (MaybeKind(DIM), NONE, MaybeKind(DIM)),
        (NONE, NONE, NONE),
        (NEVER, INT, INT),
        (UNKNOWN, INT, UNKNOWN),
        (INT, BOOL, None),
        (INT, VALUE, None),
        (INT, AB, None),
        (AB, F16, None),
        (SHAPE, DIM, None),
        (SHAPE, SeqKind(BOOL), None),
        (MaybeKind(INT), AB, None),
        (STORE, AdtKind("Other"), None),
    ],
)
def test_join(a, b, joined):
    assert join(a, b) == joined
    assert join(b, a) == joined


def test_join_of_several():
    assert join_all([DIM, INT, NONE]) == MaybeKind(INT)
    assert join_all([DIM, BOOL, INT]) is None
    assert join_all([]) == NEVER


@pytest.mark.parametrize("a", ALL, ids=str)
def test_relations_agree(a):
    for b in ALL:
        assert overlap(a, b) == overlap(b, a)
        if fits(a, b) and NONE not in (a, b):
            assert overlap(a, b) or MaybeKind in (type(a), type(b))
        joined = join(a, b)
        if joined is not None and VALUE not in (a, b):
            assert fits(a, joined)
            assert fits(b, joined)


@pytest.mark.parametrize(
    ("a", "b"),
    [(INT, BOOL), (INT, AB), (AB, EnumKind(frozenset("c"))), (F16, F32), (SHAPE, INT),
     (SeqKind(INT, 2), SeqKind(INT, 3)), (SHAPE, SeqKind(BOOL)), (BOOL, STR), (STORE, INT)],
)  # fmt: skip
def test_kinds_without_a_common_value(a, b):
    assert not overlap(a, b)


def test_unions_are_flat_and_merged():
    assert union([INT, UnionKind((AB, INT)), ABC]) == UnionKind((INT, ABC))
    assert union([F16, F32]) == DTypeKind(frozenset({"float16", "float32"}))
    assert union([INT]) == INT
    assert union([]) == NEVER


def test_finite_and_opaque_kinds():
    assert [k for k in (BOOL, AB, STORE, MaybeKind(AB), INT, DTYPE, STR) if is_finite(k)] == [
        BOOL, AB, STORE, MaybeKind(AB)
    ]  # fmt: skip
    opaque = (VALUE, STR, MaybeKind(VALUE), UnionKind((VALUE, STR)))
    assert all(map(is_opaque, opaque))
    assert not any(map(is_opaque, (INT, NEVER, MaybeKind(INT), UnionKind((INT, VALUE)))))


KIND_TEXTS = {
    "Dim": DIM,
    "Int": INT,
    "int": INT,
    "Bool": BOOL,
    "bool": BOOL,
    "Shape": SHAPE,
    "Seq[Int]": INTS,
    "Seq[ int ]": INTS,
    "DType[float16 | bool]": DTypeKind(frozenset({"float16", "bool"})),
    "'a' | 'b'": AB,
    "Store": STORE,
    "Maybe[Int]": MaybeKind(INT),
    "Maybe['a' | 'b']": MaybeKind(AB),
}


@pytest.mark.parametrize("text", KIND_TEXTS)
def test_kind_text(text):
    assert parse_kind(text, {"Store"}) == KIND_TEXTS[text]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Dimension", "unknown kind Dimension"),
        ("DType[float17]", "float17 is not a registered dtype; did you mean 'float16'?"),
        ("DType[]", "expected a dtype"),
        ("DType[int8 | int8]", "int8 is listed twice"),
        ("'a' | 'a'", "a is listed twice"),
        ("'a' | b", "expected a quoted literal, found `b`"),
        ("'_'", "'_' is the pattern for anything, not a literal"),
        ("Seq[Dim]", "the items of a Seq are Int"),
        ("Seq", "expected `[`, but the text ends"),
        ("Dim Dim", "expected the end"),
        ("", "expected a kind, but the text ends"),
        ("Maybe[" * 400 + "Int", "nested more than"),
    ],
)
def test_malformed_kind_text(text, message):
    with pytest.raises(LanguageFault) as caught:
        parse_kind(text)
    assert message in caught.value.message


def test_each_place_admits_its_own_kinds():
    parsers = {
        parse_index_kind: ({"Dim", "Shape", "DType[int8]", "Seq[Int]"}, "an index is"),
        lambda text: parse_formal_kind(text, {"Store"}): (
            {"Int", "Dim", "Bool", "Shape", "Seq[Int]", "'a'", "Store", "Maybe[Store]"},
            "a formal is never",
        ),
        parse_field_kind: ({"Dim", "Int", "int", "Bool", "bool", "'a'"}, "a field is"),
    }
    texts = ["Dim", "Shape", "DType[int8]", "Seq[Int]", "Int", "int", "Bool", "bool", "'a'"]
    texts += ["Maybe[Int]", "Maybe[DType[int8]]", "Maybe[Maybe[Int]]"]
    for parse, (admitted, message) in parsers.items():
        for text in texts:
            is_formal = "formal" in message and text in ("int", "bool", "Maybe[Int]")
            if text in admitted or is_formal:
                parse(text)
            else:
                with pytest.raises(LanguageFault, match=message):
                    parse(text)


def test_dtype_registry():
    assert sum(bits == 8 for bits in dtypes.BITS.values()) == 9
    assert dtypes.BITS["complex128"] == 128
    assert {dtypes.category(name) for name in dtypes.BITS} == {"bool", "int", "float", "complex"}
    assert dtypes.category("bool") == "bool"
    assert dtypes.is_registered("float4_e2m1fn_x2")
    assert not dtypes.is_registered("float17")
    assert dtypes.int_range("int8") == (-128, 127)
    assert dtypes.int_range("uint16") == (0, 65535)
    assert dtypes.name_of("float16") is None
