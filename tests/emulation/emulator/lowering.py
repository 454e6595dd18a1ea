"""Lowers a program for Hopper and reads what its host function does: tensor maps, launches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tilelang
from tilelang import tvm
from tvm import tirx

from tileops._programs.program import Program, target

_TENSOR_MAP = "__tvm_tensormap_create_tiled"
_KERNEL = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^;{]*)\);'
)
_ROLES = ("tir.cluster_dim_", "blockIdx.", "threadIdx.")


@dataclass(frozen=True)
class Launch:
    """One kernel launch of the host function, with expressions of its parameters and extents.

    Args:
        kernel: name of the kernel.
        arguments: an expression per kernel parameter.
        extents: expressions by launch role, such as `"blockIdx.x"`.
        shared: bytes of dynamic shared memory.
    """

    kernel: str
    arguments: tuple[Any, ...]
    extents: Mapping[str, Any]
    shared: Any


@dataclass(frozen=True)
class TensorMap:
    """One tensor map that the host function makes: its name and the encoder's arguments."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Lowered:
    """A lowered program.

    Args:
        function: the traced function, whose parameters a call binds.
        source: the generated CUDA source.
        parameters: of each kernel, its C parameters.
        steps: tensor maps and launches in the order of the host function.
    """

    function: Any
    source: str
    parameters: Mapping[str, tuple[str, ...]]
    steps: tuple[Launch | TensorMap, ...]

    @cached_property
    def uses_wgmma(self) -> bool:
        """Whether the program multiplies on the tensor cores of Hopper."""
        return "tl::wgmma_" in self.source


def lower(program: Program, arch: int = 90) -> Lowered:
    """Lowers a program; needs no device."""
    chosen = tvm.target.Target(target(arch))
    settings = dict(program.settings)
    with tvm.transform.PassContext(opt_level=3, config=settings), chosen:
        artifact = tilelang.lower(program.function, target=chosen)
    parameters = {
        name: tuple(text.strip() for text in arguments.split(","))
        for name, arguments in _KERNEL.findall(artifact.kernel_source)
    }
    roles = {
        function.attrs["global_symbol"]: [
            str(role) for role in function.attrs["tirx.kernel_launch_params"]
        ]
        for function in artifact.device_mod.functions.values()
    }
    steps = tuple(_steps(artifact.host_mod, parameters, roles))
    return Lowered(program.function, artifact.kernel_source, parameters, steps)


def _steps(host: Any, parameters: Mapping[str, tuple[str, ...]], roles: Mapping[str, list[str]]):
    for call in _packed_calls(host):
        name, arguments = call[0].value, call[1:]
        if name == _TENSOR_MAP:
            yield TensorMap(arguments[0].name, tuple(arguments[1:]))
        elif name in parameters:
            count = len(parameters[name])
            extents = [role for role in roles[name] if role.startswith(_ROLES)]
            values = arguments[count:]
            shared = values[len(extents)] if len(values) > len(extents) else 0
            yield Launch(
                name, tuple(arguments[:count]), dict(zip(extents, values, strict=False)), shared
            )


def _packed_calls(host: Any) -> list[list[Any]]:
    calls: list[list[Any]] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Call) and "call_packed" in getattr(node.op, "name", ""):
            calls.append(list(node.args))

    for function in host.functions.values():
        if isinstance(function, tirx.PrimFunc):
            tirx.stmt_functor.post_order_visit(function.body, visit)
    return calls


def evaluate(expression: Any, values: Mapping[Any, Any]) -> Any:
    """The value of a host expression.

    Scalars and extents are looked up as variables, since different ones may have one name; what
    lowering renews, pointers and tensor maps, by name.
    """
    if isinstance(expression, int | float):
        return expression
    if isinstance(expression, tirx.Var):
        return values[expression if expression in values else expression.name]
    found: dict[Any, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Var):
            found[node] = tirx.const(evaluate(node, values), node.dtype)

    tirx.stmt_functor.post_order_visit(expression, visit)
    folded = tvm.arith.Analyzer().simplify(tirx.stmt_functor.substitute(expression, found))
    return folded.value


def bind(extent: Any, size: int, values: dict[Any, Any]) -> None:
    """Solves one declared extent, `V` or `V * constant`, for the size a tensor has there.

    Raises:
        ValueError: the size does not fit what is declared or known.
    """
    factor = 1
    unknown = extent
    if isinstance(extent, tirx.Mul):
        unknown, factor = extent.a, extent.b.value
    if isinstance(unknown, tirx.Var) and unknown not in values:
        values[unknown] = size // factor
    if evaluate(extent, values) != size:
        raise ValueError(f"extent {size} where the program declares {extent} with {values}")
