"""What the tests of compiled calls share: which calls to compile, by which operator, and graphs.

An op's *proof* is a cold compilation of a call for each of its operators and for each way of
passing its optional tensors; `proof_calls` picks them, so nothing is written down per op.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops import Op
from tileops._core.boundary.naming import NAMESPACE, operator_name
from tileops._core.op.walk import each_once
from tileops._core.signature.discriminants import OUT
from tileops.testing.calling import (
    buffer,
    construct,
    inputs,
    outcome,
    results,
    same,
    spec_of,
)
from tileops.testing.choice import runnable_ops
from tileops.testing.drawing import DrawnCall
from tileops.testing.refusals import served

COMPILATIONS = 1
"""How many times one instance is compiled for calls of all extents."""


class Graphs:
    """A compiler backend that keeps what each graph calls and passes the graph on.

    Args:
        backend: compiles the graph; None runs it as it is.
    """

    def __init__(self, backend: str | None = None) -> None:
        self.calls: list[list[str]] = []
        self._compile = backend and torch._dynamo.lookup_backend(backend)

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Tensor]) -> Any:
        """Compile a graph, as Dynamo asks."""
        self.calls.append(called(graph.graph))
        return self._compile(graph, examples) if self._compile else graph


def called(graph: torch.fx.Graph) -> list[str]:
    """What a graph calls, as `namespace::name`; taking results out of a tuple does not count."""
    names = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    return [
        name.removesuffix(".default").replace(".", "::", 1)
        for name in names
        if "getitem" not in name
    ]


class Holder(torch.nn.Module):
    """A module that holds ops and calls each on arguments of its own."""

    def __init__(self, *ops: Op) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, *given: Mapping[str, Tensor]) -> list[Any]:
        """The result of each op."""
        return [op(**arguments) for op, arguments in zip(self.ops, given, strict=True)]


def bounded_ops(names: Iterable[str] | None) -> list[str]:
    """Those of the chosen ops that have operators.

    Args:
        names: as for `chosen_ops`.
    """
    chosen = runnable_ops(None if names is None else list(names))
    return [op for op in chosen if spec_of(op).has_boundary]


def arguments(call: DrawnCall) -> dict[str, Tensor]:
    """The tensors of a call by name, `out` where the call's branch has it."""
    return inputs(call) | {name: tensor.zero_() for name, tensor in buffer(call).items()}


def operators_below(op: Op) -> set[str]:
    """The operators of the ops that a composite holds, and of those that these hold."""
    return {name for part in each_once(op) if part is not op for name in part.compile_op_names}


def makes_ops_of_extents(instance: Op, call: DrawnCall) -> bool:
    """Whether a call makes an op of a composite: it then decides by extents what it consists of."""
    if instance._spec.composition is None:
        return False
    held = operators_below(instance)
    instance(**arguments(call))
    return operators_below(instance) != held


def operator_of(op: Op, given: Mapping[str, Any]) -> str:
    """The operator of the branch that a call takes."""
    maybe = [p.name for p in op._call_parameters if p.role != "execution" and not p.required]
    branch = op._signature.effect_branch(op, {name: name in given for name in maybe})
    return f"{NAMESPACE}::{operator_name(op._spec, branch)}"


def overload(name: str) -> torch._ops.OpOverload:
    """The registered operator of a name."""
    namespace, _, operator = name.partition("::")
    found: torch._ops.OpOverload = getattr(getattr(torch.ops, namespace), operator).default
    return found


def operator_arguments(op: Op, given: Mapping[str, Tensor]) -> tuple[Any, ...]:
    """The arguments of a call as its operator takes them."""
    names = list(op._spec.signature.inputs) + [OUT] * (OUT in given)
    execution = [p.default for p in op._call_parameters if p.role == "execution"]
    return (*(given.get(name) for name in names), *execution, op._instance_key)


def proof_calls(op: str) -> list[DrawnCall]:
    """A call for each operator and each set of tensors passed, in a dtype torch computes with."""
    found: dict[Any, DrawnCall] = {}
    for call in sorted(served(op), key=uses_float8):
        given = arguments(call)
        found.setdefault((operator_of(construct(call), given), tuple(given)), call)
    return list(found.values())


def uses_float8(call: DrawnCall) -> bool:
    """Whether a call has float8 tensors, which few of torch's own functions take."""
    return any("float8" in tensor.dtype for tensor in call.tensors.values())


def prove(op: str, backend: str) -> set[str]:
    """Compile an op cold for each call of its proof; the operators that graphs then held.

    Raises:
        AssertionError: a graph is not the operator alone, or something differs from eager.
    """
    proven = set()
    for call in proof_calls(op):
        torch._dynamo.reset()
        instance, graphs = construct(call), Graphs(backend)
        wanted = operator_of(instance, arguments(call))
        compiled = torch.compile(instance, fullgraph=True, backend=graphs)
        assert_like_eager(call, compiled, arguments(call))
        assert graphs.calls == [[wanted]], f"{call}: the graphs call {graphs.calls}"
        proven.add(wanted)
    return proven


def assert_like_eager(call: DrawnCall, compiled: Any, given: Mapping[str, Tensor]) -> None:
    """The call does what an eager call does: results, strides, writes, which object is returned.

    Args:
        call: says what the op is and what it writes.
        compiled: the compiled op.
        given: the arguments; written ones are written.
    """
    eager = copies_of_layout(given)
    returned, wanted = compiled(**given), construct(call)(**eager)
    for one, other in zip(
        outcome(call, given, returned), outcome(call, eager, wanted), strict=True
    ):
        assert same(one, other), f"{call}: the outcomes differ"
    for one, other in zip(results(call.op, returned), results(call.op, wanted), strict=True):
        assert one is None or other is None or one.stride() == other.stride(), f"{call}: strides"
        assert place_of(one, given) == place_of(other, eager), f"{call}: not the caller's tensor"
    for name in given.keys() - set(call.written) - {OUT}:
        assert same(given[name], eager[name]), f"{call}: {name} was written"


def place_of(tensor: Tensor | None, given: Mapping[str, Tensor]) -> str | None:
    """The argument that a result is, or None."""
    return next((name for name, argument in given.items() if argument is tensor), None)


def copies_of_layout(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same data in other memory, with the same strides and offsets."""
    made = {}
    for name, tensor in given.items():
        storage = tensor.untyped_storage().clone()
        made[name] = torch.empty(0, dtype=tensor.dtype).set_(
            storage, tensor.storage_offset(), tensor.shape, tensor.stride()
        )
    return made
