"""What builders of targets take and their kernels return: the forms, and the faults."""

from __future__ import annotations

import pytest
import torch
from toys import add_op, pair

from tileops import backend


def serve(cls, target, build_kernel):
    backend.register_kernel_builder(op=cls.__name__, target=target, build_kernel=build_kernel)


def test_builder_that_is_called_otherwise_than_it_says():
    """The fault of a builder that cannot be called, and of none that fails by itself."""
    cls = add_op()
    serve(cls, "east", lambda x: x)
    with pytest.raises(TypeError) as caught:
        cls(target="east")(*pair())
    note, fault = caught.value.__notes__
    assert note == f"in the builder of target 'east' for {cls.__name__}"
    assert fault == "which cannot be called as (x, y, alpha=…): too many positional arguments"


def test_a_sequence_of_one_is_the_one_output():
    cls = add_op()
    for given in ([torch.ones(6)], (torch.ones(6),)):
        serve(cls, f"of_{type(given).__name__}", lambda x, y, given=given, **_: lambda x, y: given)
        assert cls(target=f"of_{type(given).__name__}")(*pair()) is given[0]


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_sequence_of_several_is_not_the_one_output(kind):
    cls = add_op()
    serve(cls, "east", lambda *_, **__: lambda x, y: kind((x, y)))
    with pytest.raises(TypeError, match="expected a tensor, got a sequence of 2; the kernel of"):
        cls(target="east")(*pair())
