"""The operators of every op: schema, fakes, layouts, export, extents that vary, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tileops.testing.calling import class_of, construct, inputs, results, spec_of
from tileops.testing.compiling import (
    COMPILATIONS,
    Graphs,
    Holder,
    arguments,
    assert_like_eager,
    called,
    copies_of_layout,
    makes_ops_of_extents,
    operator_arguments,
    operator_of,
    operators_below,
    overload,
    proof_calls,
    uses_float8,
)
from tileops.testing.drawing import DrawnCall, drawn
from tileops.testing.refusals import served, unrefused
from tileops.testing.shrinking import resized_calls, shrunk_rows

EXTENTS = 10
"""How many calls with different extents are made."""


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    """Nothing compiled before is found."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_operators_exist_exactly_where_tensors_come_in(op: str) -> None:
    spec, names = spec_of(op), class_of(op).compile_op_names
    assert bool(names) == (bool(spec.signature.inputs) and spec.composition is None)
    for name in names:
        assert overload(name).name() == name


def test_every_operator_has_its_proof(bounded: str) -> None:
    """The calls that are compiled cold reach each operator of the class."""
    reached = {operator_of(construct(call), arguments(call)) for call in proof_calls(bounded)}
    assert reached == set(class_of(bounded).compile_op_names)


def test_every_workload_row_has_a_small_form(op: str) -> None:
    assert [name for name, call in shrunk_rows(op).items() if call is None] == []


WITHOUT_VALUES = ("test_autograd_registration", "test_faketensor")
"""What opcheck can say of float8, whose values torch cannot compare, and of NaN."""


def test_operators_pass_opcheck(bounded: str) -> None:
    """On every workload row, shrunk, and on every branch; equal calls are checked once."""
    checked: list[DrawnCall] = []
    wholly = set()
    for call in unrefused((*shrunk_rows(bounded).values(), *drawn(bounded))):
        if call in checked:
            continue
        instance, given = construct(call), positive(arguments(call))
        name = operator_of(instance, given)
        if name in wholly and call not in shrunk_rows(bounded).values():
            continue
        checked.append(call)
        values = results(bounded, instance(**copies_of_layout(given)))
        compares = not uses_float8(call) and not any(map(holds_nan, values))
        torch.library.opcheck(
            overload(name),
            operator_arguments(instance, given),
            test_utils="ALL" if compares else WITHOUT_VALUES,
        )
        wholly |= {name} if compares or all(map(uses_float8, served(bounded))) else set()
    assert wholly == set(class_of(bounded).compile_op_names)


def positive(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """No number below 0, of which some ops make NaN."""
    return {name: t.abs() if t.is_floating_point() else t for name, t in given.items()}


def holds_nan(result: Tensor | None) -> bool:
    return result is not None and bool(result.isnan().any())


def offset(tensor: Tensor) -> Tensor:
    """A view that begins one element into its memory."""
    return torch.cat((tensor.reshape(-1)[:1], tensor.reshape(-1)))[1:].view(tensor.shape)


def strided(tensor: Tensor) -> Tensor:
    """A view of every second element."""
    return torch.stack((tensor, tensor), -1)[..., 0]


def expanded(tensor: Tensor) -> Tensor:
    """A view whose leading axis repeats one row."""
    return tensor[:1].expand(tensor.shape) if tensor.dim() and len(tensor) > 1 else tensor


@pytest.mark.parametrize("layout", [offset, strided, expanded])
def test_layouts_compile_like_eager_calls(bounded: str, layout: Callable[[Tensor], Tensor]) -> None:
    """Contents that mean something, and tensors that may not overlap themselves, keep theirs."""
    declared = spec_of(bounded).signature.inputs
    call = proof_calls(bounded)[0]
    given = arguments(call)
    for name, tensor in given.items():
        fixed = name not in declared or declared[name].values is not None
        if layout is expanded and (fixed or name in call.written):
            continue
        if layout is offset or (name in declared and not declared[name].contiguous):
            given[name] = layout(tensor)
    compiled = torch.compile(construct(call), fullgraph=True, backend="aot_eager")
    assert_like_eager(call, compiled, given)


def test_exported_modules_hold_the_operator(bounded: str) -> None:
    for call in proof_calls(bounded):
        instance, given = construct(call), arguments(call)
        program = torch.export.export(Holder(instance), (given,), strict=False)
        assert operator_of(instance, given) in called(program.graph)
        module = program.module()
        assert_like_eager(call, lambda module=module, **given: module(given)[0], arguments(call))


MARKS: dict[str, Any] = {
    "dynamic": None,
    "marked": torch._dynamo.mark_dynamic,
    "unbacked": torch._dynamo.decorators.mark_unbacked,
}
"""How a compiler is told that axes vary; None for all that may."""


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_one_graph_serves_all_extents(op: str, mark: Any) -> None:
    if not spec_of(op).signature.inputs:
        return
    resized = resized_calls(op, EXTENTS)
    assert len(resized) == EXTENTS
    calls = tuple(unrefused(resized))
    if not calls or makes_ops_of_extents(construct(calls[0]), calls[0]):
        return
    instance, graphs = construct(calls[0]), Graphs()
    compiled = torch.compile(
        instance, fullgraph=True, backend=graphs, dynamic=None if mark else True
    )
    varying = axes_that_vary(calls)
    for call in calls:
        given = inputs(call)
        for name, axes in varying.items() if mark else ():
            mark(given[name], axes)
        compiled(**given)
    assert len(graphs.calls) == COMPILATIONS


def test_composites_trace_into_the_operators_of_their_ops(op: str) -> None:
    """Whatever a call makes is made by then; a first call says that it must be made."""
    if spec_of(op).composition is None:
        return
    for call in proof_calls(op):
        torch._dynamo.reset()
        instance, fresh, graphs = construct(call), construct(call), Graphs("aot_eager")
        instance(**arguments(call))
        if len(instance.held_delegates()) > len(fresh.held_delegates()):
            with pytest.raises(RuntimeError, match="call the op once before it is compiled"):
                torch.compile(fresh, fullgraph=True, backend="eager")(**arguments(call))
        compiled = torch.compile(instance, fullgraph=True, backend=graphs)
        assert_like_eager(call, compiled, arguments(call))
        (calls,) = graphs.calls
        ours = {name for name in calls if name.startswith("tileops::")}
        assert ours <= operators_below(instance)
        assert ours or not instance.held_delegates()


def axes_that_vary(calls: tuple[DrawnCall, ...]) -> dict[str, list[int]]:
    """The axes of each input that have different lengths in different calls."""
    found = {}
    for name in inputs(calls[0]):
        lengths = zip(*(call.tensors[name].shape for call in calls), strict=True)
        found[name] = [axis for axis, each in enumerate(lengths) if len(set(each)) > 1]
    return found


def floats(call: DrawnCall) -> dict[str, Tensor]:
    """The inputs that derivatives may be taken of."""
    return {
        name: tensor
        for name, tensor in inputs(call).items()
        if tensor.is_floating_point() and name not in call.written
    }


def test_a_gradient_that_nothing_computes_is_refused(bounded: str) -> None:
    call = proof_calls(bounded)[0]
    if spec_of(bounded).backward is not None or not floats(call):
        return
    leaves = {name: tensor.requires_grad_() for name, tensor in floats(call).items()}
    given = {**arguments(call), **leaves}
    instance = construct(call)
    operator = overload(operator_of(instance, given))
    with pytest.raises(RuntimeError, match="requires grad, but the spec names no backward op"):
        instance(**given)
    with pytest.raises(RuntimeError, match="requires grad, but the spec names no backward op"):
        operator(*operator_arguments(instance, given))  # as an exported graph does
    with torch.no_grad():
        for result in results(bounded, instance(**given)):
            assert result is None or not result.requires_grad


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_tangents_are_refused(bounded: str) -> None:
    call = proof_calls(bounded)[0]
    primals = floats(call)
    if not primals or uses_float8(call):
        return
    instance, others = construct(call), arguments(call)

    def function(*tensors: Tensor) -> object:
        return instance(**{**others, **dict(zip(primals, tensors, strict=True))})

    values = tuple(primals.values())
    with pytest.raises(RuntimeError, match="forward-mode"):
        torch.func.jvp(function, values, values)


def test_vmap_is_refused(bounded: str) -> None:
    call = proof_calls(bounded)[0]
    if uses_float8(call):
        return
    batched = {name: torch.stack((tensor, tensor)) for name, tensor in arguments(call).items()}
    instance = construct(call)
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda given: instance(**given))(batched)
