"""An implemented op has a class: the one test that fails where it has none."""

from __future__ import annotations

from tileops._core.validate.code import find_class
from tileops.testing.calling import spec_of


def test_the_op_has_a_class(named: str) -> None:
    found = find_class(spec_of(named))
    assert not isinstance(found, str), f"{named} is implemented, but {found}"
