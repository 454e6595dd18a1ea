"""A call spec says what its fields can be."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from tileops._core.spec.registry import specs
from tileops.testing.calling import class_of

SPECS = tuple(specs())  # before tests make others of them


def stated() -> Iterator[tuple[type, str]]:
    """Call specs that name a function, each with the function of an op that uses it."""
    for op in SPECS:
        cls = class_of(op)
        for interface in cls.interfaces.values():
            if "function" in getattr(interface.request, "__dataclass_fields__", {}):
                yield interface.request, cls.function


def test_functions_are_listed_where_a_call_spec_names_one() -> None:
    found = set(stated())
    assert len({request for request, _ in found}) > 4
    for request, function in found:
        assert f'`"{function}"`' in inspect.getdoc(request), f"{request.__name__}: {function}"
