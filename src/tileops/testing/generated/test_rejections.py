"""Calls that no op may accept end in one error that names what is wrong."""

from __future__ import annotations

import pytest
import torch

from tileops._core.spec.model import TensorInput
from tileops.errors import SignatureError, SignatureTypeError
from tileops.testing.calling import buffer, class_of, construct, inputs, parameters, spec_of
from tileops.testing.refusals import served


class Stranger:
    """A value of a type that no parameter takes."""


def foreign_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a dtype that no op takes."""
    return torch.zeros(tensor.shape, dtype=torch.uint32)


def test_a_foreign_dtype_is_refused_by_name(op: str) -> None:
    call = served(op)[0]
    for name, tensor in inputs(call).items():
        with pytest.raises(SignatureError) as raised:
            construct(call)(**{**inputs(call), name: foreign_dtype(tensor)})
        assert raised.value.declaration.startswith(f"inputs.{name}.dtype"), name
        assert (raised.value.op, raised.value.phase) == (op, "call")


def test_a_missing_tensor_is_refused_by_name(op: str) -> None:
    call = served(op)[-1]
    for name, tensor in spec_of(op).signature.inputs.items():
        if name not in call.tensors or tensor.optional is True:
            continue
        others = {key: value for key, value in inputs(call).items() if key != name}
        for given in (others, {**others, name: None}):
            with pytest.raises(SignatureError, match=name) as raised:
                construct(call)(**given)
            assert raised.value.phase == "call"


def test_a_surplus_argument_is_refused(op: str) -> None:
    call = served(op)[0]
    names = list(spec_of(op).signature.inputs)
    ordered = [inputs(call).get(name) for name in names]
    with pytest.raises(SignatureTypeError):
        construct(call)(*ordered, *[torch.zeros(1)] * 2)
    with pytest.raises(SignatureTypeError, match="stranger"):
        construct(call)(**inputs(call), stranger=torch.zeros(1))


def test_what_is_no_tensor_is_refused_by_name(op: str) -> None:
    call = served(op)[0]
    for name in inputs(call):
        with pytest.raises(SignatureTypeError, match=name):
            construct(call)(**{**inputs(call), name: [1.0]})


def test_two_devices_are_refused(op: str) -> None:
    call = served(op)[-1]
    given = inputs(call)
    if len(given) < 2:
        return
    last = list(given)[-1]
    with pytest.raises(SignatureError, match="device"):
        construct(call)(**{**given, last: given[last].to("meta")})


def test_wrong_extents_end_in_a_signature_error_or_a_result(op: str) -> None:
    call = served(op)[0]
    if any(drawn.contents is not None for drawn in call.tensors.values()):
        return  # extents that contents must agree with are the caller's promise
    for name, tensor in inputs(call).items():
        longer = [
            torch.zeros([n + (i == axis) for i, n in enumerate(tensor.shape)], dtype=tensor.dtype)
            for axis in range(tensor.dim())
        ]
        for wrong in (tensor[None], tensor.reshape(-1)[:0], *longer):
            try:
                construct(call)(**{**inputs(call), name: wrong})
            except SignatureError as error:
                assert error.op == op


def test_gaps_are_refused_where_memory_is_declared_to_have_none(op: str) -> None:
    for call in served(op)[:4]:
        for name, tensor in inputs(call).items():
            view = torch.stack((tensor, tensor), -1)[..., 0]
            if not spec_of(op).signature.inputs[name].contiguous or view.is_contiguous():
                continue
            with pytest.raises(SignatureError, match="contiguous") as raised:
                construct(call)(**{**inputs(call), name: view})
            assert raised.value.declaration.startswith(f"inputs.{name}"), name


def once(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the form of a tensor whose items all lie in one place."""
    return (
        tensor.reshape(-1)[:1].expand(tensor.numel()).as_strided(tensor.shape, [0] * tensor.dim())
    )


def test_an_input_that_is_written_and_overlaps_itself_is_refused(op: str) -> None:
    for call in served(op)[:4]:
        given = inputs(call)
        for name in call.written:
            if given[name].numel() > 1:
                with pytest.raises(SignatureError, match=r"overlaps itself|contiguous") as raised:
                    construct(call)(**{**given, name: once(given[name])})
                assert raised.value.declaration.startswith(f"inputs.{name}"), name


def test_a_buffer_that_does_not_suit_is_refused(op: str) -> None:
    for call in served(op):
        for out in buffer(call).values():
            wrong = [foreign_dtype(out), out[None], out.to("meta")]
            for spoilt in wrong + [once(out)] * (out.numel() > 1):
                with pytest.raises(SignatureError, match="out") as raised:
                    construct(call)(**inputs(call), out=spoilt)
                assert (raised.value.op, raised.value.phase) == (op, "call")


def test_a_parameter_of_a_foreign_type_is_refused_by_name(op: str) -> None:
    call = served(op)[0]
    for name, param in spec_of(op).signature.params.items():
        if isinstance(param, TensorInput):
            continue
        with pytest.raises(SignatureTypeError, match=f"params.{name}") as raised:
            class_of(op)(**{**parameters(call), name: Stranger()})
        assert (raised.value.op, raised.value.phase) == (op, "construction")


def test_constructor_arguments_that_do_not_bind_are_refused(op: str) -> None:
    call = served(op)[0]
    with pytest.raises(SignatureTypeError, match="stranger"):
        class_of(op)(**parameters(call), stranger=1)
    for name, param in spec_of(op).signature.params.items():
        if not isinstance(param, TensorInput) and not param.has_default:
            others = {key: value for key, value in parameters(call).items() if key != name}
            with pytest.raises(SignatureTypeError, match=name):
                class_of(op)(**others)
