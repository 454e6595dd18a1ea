"""The text of a stub: op classes with the parameters, tensors and results of their specs.

A class that its public module takes from another is written as derived from the one there, so that
whatever it has beyond the spec stays known. Of one that the module itself defines, such members are
known by name, as is what is no op.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Iterator
from textwrap import indent
from types import ModuleType
from typing import TYPE_CHECKING, Any

import tileops
from tileops._core.spec.model import OpSpec, TensorInput, TensorOutput
from tileops.cli.signature_text import (
    condition_lines,
    parameter_rows,
    premise,
    quantifier_lines,
    result,
)
from tileops.cli.stub_types import Names

if TYPE_CHECKING:
    from tileops import Op

_HEAD = '"""Written by `tileops stubs` from specs and docstrings; edits are lost."""'
_WIDTH = 100
_SAID = "__call__", "__init__", "forward"


def stub(module: ModuleType, classes: Iterable[tuple[OpSpec, type[Op]]]) -> str:
    """The stub of a module.

    Args:
        module: where the classes are found.
        classes: each with its spec.
    """
    names = Names(module.__name__)
    found = sorted(classes, key=lambda pair: pair[1].__name__)
    bodies = ["\n".join(_class(spec, cls, names)) for spec, cls in found]
    others = _others(module, {cls for _, cls in found}, names)
    public = [f'    "{cls.__name__}",' for _, cls in found]
    head = [_HEAD, "", *names.lines(), "__all__ = [", *public, "]", *others]
    return "\n\n".join(["\n".join(head), *bodies]) + "\n"


def _others(module: ModuleType, ops: set[type[Op]], names: Names) -> list[str]:
    """Classes that a module offers beside ops; those from below it are imported instead."""
    found = []
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or not isinstance(value, type) or value in ops:
            continue
        if value.__module__ == module.__name__:
            found.append(f"{name}: {names.any()}")
        elif value.__module__.startswith(f"{module.__name__}."):
            names.imported(value.__module__, value.__name__, name)
    return found


def _class(spec: OpSpec, cls: type[Op], names: Names) -> Iterator[str]:
    is_ours = cls.__module__ == names.module
    if is_ours:
        base = names.imported("tileops", "Op")
    else:
        base = f"{names.submodule(cls.__module__)}.{cls.__name__}"
    yield f"class {cls.__name__}({base}):"
    yield _docstring(inspect.cleandoc(cls.__doc__ or ""), 4)
    yield from (f"    {name}: {names.any()}" for name in sorted(_beyond(cls)) if is_ours)
    yield ""
    if is_ours:
        some = names.any()
        yield f"    def forward(self, *args: {some}, **kwargs: {some}) -> {some}: ..."
        yield ""
    yield from _method("__init__", _constructor(spec, cls, names), _parameters_text(spec, cls))
    yield ""
    yield from _method("__call__", _call(cls, names), _tensors_text(spec, cls))


def _beyond(cls: type[Op]) -> Iterator[str]:
    """Public members that no op has by itself."""
    own = (base for base in cls.__mro__ if base.__module__ == cls.__module__)
    yield from {
        name
        for base in own
        for name in vars(base)
        if not name.startswith("_") and name not in _SAID and not hasattr(tileops.Op, name)
    }


def _constructor(spec: OpSpec, cls: type[Op], names: Names) -> tuple[list[str], str]:
    """The parameters as written, and what the method returns."""
    try:
        written = typing.get_type_hints(cls.__init__)
    except NameError:  # an annotation that only a type checker can follow
        written = {}
    signature = inspect.signature(cls)
    return _written(
        signature,
        {
            name: names.parameter(spec, name) or names.annotation(written.get(name, Any))
            for name in signature.parameters
        },
    ), "None"


def _call(cls: type[Op], names: Names) -> tuple[list[str], str]:
    signature = inspect.signature(cls.__call__)
    taken = list(signature.parameters.values())[1:]
    kinds = {each.name: names.annotation(each.annotation) for each in taken}
    returned = names.annotation(signature.return_annotation)
    return _written(signature.replace(parameters=taken), kinds), returned


def _written(signature: inspect.Signature, kinds: dict[str, str]) -> list[str]:
    """`self`, then each parameter with its type and default."""
    found = ["self"]
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in found:
            found.append("*")
        is_required = parameter.default is parameter.empty
        default = "" if is_required else f" = {_default(parameter.default)}"
        found.append(f"{parameter.name}: {kinds[parameter.name]}{default}")
    return found


def _default(value: object) -> str:
    """A default where a literal says it."""
    if isinstance(value, str):
        return f'"{value}"'
    is_plain = value is None or isinstance(value, int) or str(value).startswith("torch.")
    is_finite = isinstance(value, float) and abs(value) < float("inf")
    return str(value) if is_plain or is_finite else "..."


def _method(name: str, written: tuple[list[str], str], text: str) -> Iterator[str]:
    """A method, its parameters on as few lines as a formatter would leave them on."""
    parameters, returned = written
    together = ", ".join(parameters)
    line = f"    def {name}({together}) -> {returned}:"
    if len(line) <= _WIDTH:
        yield line
    else:
        yield f"    def {name}("
        fits = len(together) <= _WIDTH - 8
        yield from [f"        {together}"] if fits else [f"        {each}," for each in parameters]
        yield f"    ) -> {returned}:"
    yield _docstring(text, 8)


def _parameters_text(spec: OpSpec, cls: type[Op]) -> str:
    """Declared type and default of each parameter."""
    lines = ["Construct the op.", "", "Args:"]
    for name, kind, default, _ in parameter_rows(spec):
        lines.append(f"    {name}: `{kind}`" + ("" if default == "required" else f", {default}"))
    lines += [
        f"    {name}: what takes the place of the op's own" for name in cls.injected_parameters
    ]
    lines.append("    target: what serves the instance; by default the device decides")
    taken, given = _tensor_lines(spec, cls)  # an editor shows this text where the class is named
    for title, tensors in (("Calls take:", taken), ("Calls return:", given)):
        lines += ["", title, *tensors] if tensors else []
    return "\n".join(lines)


def _tensors_text(spec: OpSpec, cls: type[Op]) -> str:
    """Dtype and shape of each tensor, then what has to hold."""
    taken, given = _tensor_lines(spec, cls)
    rules = [*quantifier_lines(spec), *condition_lines(spec)]
    blocks = (["Args:", *taken] if taken else [], ["Returns:", *given] if given else [], rules)
    return "\n".join(
        ["Call the op.", *(line for block in blocks if block for line in ("", *block))]
    )


def _tensor_lines(spec: OpSpec, cls: type[Op]) -> tuple[list[str], list[str]]:
    """A line for each thing that a call takes, and for each that it returns."""
    inputs, outputs = spec.signature.inputs.values(), spec.signature.outputs.values()
    return [*map(_tensor_line, inputs), *_further_lines(cls)], [*map(_tensor_line, outputs)]


def _further_lines(cls: type[Op]) -> Iterator[str]:
    """What a call takes beside inputs."""
    for parameter in cls._call_parameters:
        if parameter.role == "out":
            yield "    out: the tensor that receives the result; a new one by default"
        elif parameter.role == "execution":
            yield f"    {parameter.name}: decides how, not what, is computed"


def _tensor_line(tensor: TensorInput | TensorOutput) -> str:
    if isinstance(tensor, TensorInput):
        _, kind, notes = premise(tensor)
        written = "written" if tensor.mutated is True else ""
    else:
        _, kind, notes = result(tensor)
        written = ""
    return f"    {tensor.name}: " + ", ".join(filter(None, (f"`{kind}`", written, notes)))


def _docstring(text: str, margin: int) -> str:
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    several = "\n" in escaped
    return indent(f'"""{escaped}' + ("\n" if several else "") + '"""', " " * margin)
