"""The contracts of an op for who extends it: its kernel interfaces, and what a builder gets."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields
from textwrap import indent
from typing import TYPE_CHECKING, Any

from tileops._core.spec.model import OpSpec

if TYPE_CHECKING:
    from tileops import Op
    from tileops.kernels import CallSpec, KernelInterface


def contracts(spec: OpSpec, op: type[Op]) -> dict[str, Any]:
    """The builder's and the kernel's signature, and every kernel interface, as plain data."""
    return {
        "builder": _builder(spec),
        "kernel": _kernel(spec),
        "interfaces": [_interface(name, each, spec) for name, each in op.interfaces.items()],
        "device_facts": _device_facts(),
    }


def contract_lines(data: dict[str, Any]) -> Iterator[str]:
    """The contracts for people."""
    yield "a target serves the op through"
    yield f"  {data['builder']}"
    yield f"  {data['kernel']}"
    for each in data["interfaces"]:
        yield ""
        yield f"kernel interface {each['name']}: {each['class']}"
        yield from (f"  {line}".rstrip() for line in each["summary"].splitlines())
        yield f"  call spec: {each['call_spec']}"
        if each["facts"]:
            yield indent(each["facts"], "    ")
        yield f"  forward{each['signature']}"
        yield indent(each["contract"], "    ")
    if data["interfaces"]:
        yield ""
        yield "every call spec also has facts of its device, read from it unless they are stated"
        yield from (f"  {name}: {meaning}" for name, meaning in data["device_facts"].items())


def _device_facts() -> dict[str, str]:
    """What each fact of a device is, and what it is off CUDA."""
    from tileops._core.dispatch.facts import MEANINGS, DeviceFacts

    off_cuda = DeviceFacts()._asdict()
    return {name: f"{text}; {off_cuda[name]} off CUDA" for name, text in MEANINGS.items()}


def _builder(spec: OpSpec) -> str:
    """How a builder is called: a spec per input, then every parameter by name."""
    inputs = [
        f"{name}: TensorSpec{' | None' if tensor.optional else ''}"
        for name, tensor in spec.signature.inputs.items()
    ]
    parameters = ["*", *spec.signature.params] if spec.signature.params else []
    return f"build_kernel({', '.join([*inputs, *parameters])}) -> kernel"


def _kernel(spec: OpSpec) -> str:
    """How the built kernel is called."""
    names = list(spec.signature.inputs)
    if spec.signature.has_buffer:
        names.append("out=…")
    returned = list(spec.signature.outputs)
    result = ", ".join(returned) if returned else "None"
    return f"kernel({', '.join(names)}) -> {f'({result})' if len(returned) > 1 else result}"


def _interface(name: str, interface: type[KernelInterface], spec: OpSpec) -> dict[str, Any]:
    request = interface.request
    own = [field for field in fields(request) if field.repr and field.name != "device"]
    listed = ", ".join([*(f"{field.name}: {_shown(field.type)}" for field in own), "device=…"])
    parameters = list(inspect.signature(interface.forward).parameters.values())[1:]
    signature = inspect.signature(interface.forward).replace(parameters=parameters)
    return {
        "name": name,
        "class": _public_name(interface, spec),
        "summary": inspect.cleandoc(vars(interface).get("__doc__") or ""),
        "call_spec": f"{_public_name(request, spec)}({listed})",
        "facts": _facts(request),
        "signature": str(signature).replace("'", ""),
        "contract": inspect.getdoc(interface.forward) or "",
    }


def _facts(request: type[CallSpec]) -> str:
    """What the fields of a call spec mean; empty where only the decorator described the class."""
    text = inspect.cleandoc(vars(request).get("__doc__") or "")
    return "" if text.startswith(f"{request.__name__}(") else text


def _shown(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else str(annotation)


def _public_name(cls: type, spec: OpSpec) -> str:
    """The name under which others import a class: that in the role module, where it has one."""
    module = sys.modules.get(f"{spec.home}.kernels")
    public = getattr(module, cls.__name__, None) is cls
    return (
        f"{spec.home}.kernels.{cls.__name__}" if public else f"{cls.__module__}.{cls.__qualname__}"
    )
