"""Accepted calls of every op: values, effects, layouts, emptiness, meta tensors, counts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import prod

import pytest
import torch
from torch import Tensor

from tileops import Op
from tileops._core.lang.dtypes import BITS
from tileops.backend import BUILTIN
from tileops.testing.calling import (
    assert_close,
    buffer,
    class_of,
    construct,
    expected,
    inputs,
    parameters,
    placed,
    results,
    same,
    spec_of,
)
from tileops.testing.drawing import DrawnCall, drawn, drawn_empty
from tileops.testing.refusals import served, unrefused


def entries(op: Op) -> list[object]:
    """Everything that an op has built."""
    return [entry for interface in op.interfaces for entry in op.built_entries(interface).values()]


def bits(tensor: Tensor) -> Tensor:
    """The bytes of a contiguous tensor."""
    return tensor.reshape(-1).view(torch.uint8)


def test_some_call_is_drawn(op: str) -> None:
    assert served(op), f"{len(drawn(op))} calls, all of them refused by the target"


def test_values_equal_the_reference(op: str) -> None:
    for call in served(op):
        given = inputs(call)
        wanted = expected(call, given)
        assert_close(call, given, construct(call)(**given), wanted)


def test_automatic_mixed_precision_changes_nothing(op: str) -> None:
    for call in served(op)[:4]:
        given = inputs(call)
        wanted = expected(call, given)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            returned = construct(call)(**given)
        assert_close(call, given, returned, wanted)


@pytest.mark.parametrize("default", [torch.float64, torch.float16])
def test_the_default_dtype_changes_nothing(op: str, default: torch.dtype) -> None:
    for call in served(op)[:4]:
        arguments, given = parameters(call), inputs(call)
        wanted = expected(call, given)
        before = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            returned = class_of(op)(**arguments)(**given)
        finally:
            torch.set_default_dtype(before)
        assert_close(call, given, returned, wanted)


def test_positional_and_named_arguments_agree(op: str) -> None:
    call = served(op)[0]
    instance, given = construct(call), inputs(call)
    ordered = [given.get(name) for name in spec_of(op).signature.inputs]
    by_position = results(op, instance(*copy.deepcopy(ordered)))
    for first, second in zip(by_position, results(op, instance(**given)), strict=True):
        assert same(first, second)


def test_only_written_inputs_change(op: str) -> None:
    for call in served(op):
        given = inputs(call)
        before = {name: tensor.clone() for name, tensor in given.items()}
        versions = {name: tensor._version for name, tensor in given.items()}
        instance = construct(call)
        instance(**given)
        assert set(instance.last_call.written) == set(call.written), call
        for name in given.keys() - set(call.written):
            assert given[name]._version == versions[name], f"{call}: {name} was written"
            assert torch.equal(bits(given[name]), bits(before[name])), f"{call}: {name} changed"


def test_results_are_the_callers_tensors_exactly_where_declared(op: str) -> None:
    for call in served(op):
        given = inputs(call)
        returned = results(op, construct(call)(**given))
        storages = {tensor.untyped_storage().data_ptr() for tensor in given.values()}
        for output, found in zip(spec_of(op).signature.outputs.values(), returned, strict=True):
            if output.alias in call.written:
                assert found is given[output.alias], f"{call}: {output.name}"
            elif found is not None and found.numel():
                assert found.is_contiguous(), f"{call}: {output.name}"
                assert found.untyped_storage().data_ptr() not in storages, f"{call}: {output.name}"


def test_results_go_into_the_buffer_that_is_passed(op: str) -> None:
    for call in served(op):
        given, out = inputs(call), buffer(call)
        if not out:
            continue
        wanted = expected(call, given)
        instance = construct(call)
        returned = instance(**given, **out)
        assert instance.last_call.has_out
        assert any(found is out["out"] for found in results(op, returned)), call
        assert_close(call, given, returned, wanted)


def interleaved(tensor: Tensor) -> Tensor:
    """A view of every second element of memory."""
    return torch.stack((tensor, torch.zeros_like(tensor)), -1)[..., 0]


def transposed(tensor: Tensor) -> Tensor:
    """A view whose memory runs along the axes backwards."""
    axes = tuple(reversed(range(tensor.dim())))
    return tensor.permute(axes).contiguous().permute(axes)


@pytest.mark.parametrize("layout", [interleaved, transposed])
def test_strides_do_not_matter(op: str, layout: Callable[[Tensor], Tensor]) -> None:
    for call in served(op):
        given = inputs(call)
        wanted = expected(call, given)
        declared = spec_of(op).signature.inputs
        views = {n: t if declared[n].contiguous else layout(t) for n, t in given.items()}
        assert_close(call, views, construct(call)(**views), wanted)


def test_expanded_inputs_are_read(op: str) -> None:
    for call in served(op)[:4]:
        given = inputs(call)
        for name, tensor in given.items():
            if name in call.written or call.tensors[name].contents is not None or not tensor.dim():
                continue
            flat = tensor[:1].expand(tensor.shape)
            changed = {**given, name: flat.clone()}
            wanted = expected(call, changed)
            if not spec_of(op).signature.inputs[name].contiguous:
                views = {**given, name: flat}
                assert_close(call, views, construct(call)(**views), wanted)


def test_nothing_runs_where_everything_written_is_empty(op: str) -> None:
    for call in unrefused(drawn_empty(op)):
        given = inputs(call)
        writes = [call.tensors[name] for name in call.written] + list(call.outputs.values())
        instance = construct(call)
        if all(0 in tensor.shape for tensor in writes):
            returned = results(op, instance(**given))
            assert not entries(instance), call
            shapes = [tuple(found.shape) for found in returned if found is not None]
            assert shapes == [output.shape for output in call.outputs.values()]
        else:
            wanted = expected(call, given)
            assert_close(call, given, instance(**given), wanted)


def test_meta_tensors_give_shapes_and_build_nothing(op: str) -> None:
    for call in served(op):
        if not call.tensors:
            continue
        instance = construct(call)
        returned = instance(**placed(call, "meta"))
        found = [tensor for tensor in results(op, returned) if tensor is not None]
        for tensor, output in zip(found, call.outputs.values(), strict=True):
            assert tensor.device.type == "meta"
            assert tuple(tensor.shape) == output.shape
            assert tensor.dtype == getattr(torch, output.dtype)
        assert not entries(instance)
        assert instance.serving_target is None
        assert instance.last_call.device == torch.device("meta")


def test_explain_builds_nothing_and_tells_what_the_call_then_builds(op: str) -> None:
    for call in served(op)[:3]:
        instance = construct(call)
        report = instance.explain(**inputs(call))
        assert report.error is None, report
        assert (entries(instance), instance.serving_target) == ([], None)
        instance(**inputs(call))
        assert report.target == instance.serving_target
        if report.target != BUILTIN:
            continue
        told = {
            (step.interface, name)
            for step in report.interfaces
            for key, name, _ in step.candidates
            if key == step.key
        }
        built = {
            (interface, kernel_type.__name__)
            for interface in instance.interfaces
            for kernel_type, _ in instance.built_entries(interface)
        }
        assert told <= built if report.end else told == built, report


def traffic(call: DrawnCall) -> int:
    """Bytes when every tensor moves once, a written input twice."""
    declared = spec_of(call.op).signature
    total = 0
    for name, tensor in {**call.tensors, **call.outputs}.items():
        size = -(-prod(tensor.shape) * BITS[tensor.dtype] // 8)
        if name in call.outputs:
            total += 0 if declared.outputs[name].alias in call.written else size
        else:
            reads = not (name in call.written and declared.inputs[name].write_only)
            total += size * (reads + (name in call.written))
    return total


def test_roofline_counts_each_tensor_once(op: str) -> None:
    roofline = spec_of(op).roofline
    assert roofline is not None
    exact = roofline.func is None and roofline.bytes is None
    for call in served(op):
        instance = construct(call)
        instance(**inputs(call))
        flops, moved = instance.eval_roofline()
        assert flops >= 0
        assert 0 <= moved <= traffic(call)
        assert moved == traffic(call) or not exact, call
        assert instance.roof_key().partition(".")[0] in {"cuda_core", "tensor_core"}


def test_roofline_of_empty_calls_is_a_number(op: str) -> None:
    for call in unrefused(drawn_empty(op)):
        instance = construct(call)
        instance(**inputs(call))
        flops, moved = instance.eval_roofline()
        assert flops >= 0
        assert 0 <= moved <= traffic(call)


def test_a_copy_of_the_instance_gives_the_same(op: str) -> None:
    call = served(op)[0]
    instance = construct(call)
    twin = copy.deepcopy(instance)
    first, second = (results(op, served(**inputs(call))) for served in (instance, twin))
    for one, other in zip(first, second, strict=True):
        assert same(one, other)


def test_parameters_are_kept_as_given(op: str) -> None:
    """Lists as tuples; values of classes that may change as copies."""
    for call in served(op):
        instance = construct(call)
        for name, value in parameters(call).items():
            held = getattr(instance, name)
            given = tuple(value) if isinstance(value, list) else value
            kept = held is given or isinstance(given, Tensor) or held == given
            assert kept or (type(held) is type(given) and vars(held) == vars(given))
