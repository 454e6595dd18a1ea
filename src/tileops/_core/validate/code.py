"""Code against its spec: the class, its constructor, its `forward`, what it holds (45 to 54).

Classes and functions are found by name, in the tree as in a pack; whatever their modules raise
while they are imported becomes a finding.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import tileops
from tileops._core import plugins
from tileops._core.lang.members import Accepted, AdtMember, ImportedClasses
from tileops._core.lang.spelling import suggest
from tileops._core.lang.values import shown
from tileops._core.plugins import described
from tileops._core.spec.model import Adt, Finding, Location, OpSpec, Param, TensorInput
from tileops._core.spec.names import reference_name
from tileops._core.spec.registry import lookup
from tileops._core.validate.body import check_bodies
from tileops._core.validate.members import check_members
from tileops._core.validate.objects import (
    missing_reference,
    unfit_reference,
    unusable_class,
    unusable_function,
)
from tileops._core.validate.operators import check_operators

_ANNOTATIONS = {int, float, bool, str, "int", "float", "bool", "str"}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_code(spec: OpSpec, is_sound: bool) -> Iterator[Finding]:
    """Findings about the code of an implemented spec.

    Args:
        spec: the spec.
        is_sound: whether the spec has no errors of its own; a class without plan has no operators.
    """
    yield from _check_named_objects(spec)
    found = find_class(spec)
    if isinstance(found, str):
        yield _error(spec, 45, "", found)
        return
    yield from _check_listed(spec)
    for name in vars(found)["_replaced_members"]:
        reason = f"the class body defines {name}, which a generated member replaces"
        yield _error(spec, 45, "", reason)
    yield from _compared(spec, 47, "__init__", _check_init(spec, found))
    yield from _compared(spec, 48, "forward", _check_forward(spec, found))
    yield from _check_declarations(spec, found)
    yield from _check_reference(spec)
    if is_sound:
        yield from check_operators(spec, found)


def find_class(spec: OpSpec) -> type[Any] | str:
    """The class of a spec, or why there is none."""
    try:
        if spec.in_tree:
            module = importlib.import_module(f"tileops.{spec.family}")
            found = getattr(module, spec.name, None)
            place = f"tileops.{spec.family}"
        else:
            if spec.home is not None:
                plugins.module(f"{spec.home}.ops")
            found = _subclasses(tileops.Op, spec).get(spec.name)
            place = f"{spec.home}.ops" if spec.home else "the classes defined so far"
    except Exception as error:
        return f"the class cannot be imported: {described(error)}"
    if found is None:
        return f"no class {spec.name} in {place}{_elsewhere(spec, place)}"
    if not isinstance(found, type) or not issubclass(found, tileops.Op):
        return f"{spec.name} of {place} is not a subclass of Op"
    if found.__name__ != spec.name:
        return f"the class is called {found.__name__!r}"
    return found


def class_place(spec: OpSpec) -> Location | None:
    """Where the class of a spec is written, where that can be told."""
    found = find_class(spec)
    try:
        file, (_, line) = inspect.getsourcefile(found), inspect.getsourcelines(found)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    return Location(file, line) if file else None


def _elsewhere(spec: OpSpec, place: str) -> str:
    """Where a class is that is not in its place, or which one there was perhaps meant."""
    there = _subclasses(tileops.Op, spec)
    if spec.name in there:
        home = there[spec.name].__module__
        return f"; it is defined in {home}, but not in what {place} exports: see __all__ there"
    return suggest(spec.name, [name for name in there if lookup(name) is None], cutoff=0.8)


def _subclasses(base: type[Any], spec: OpSpec) -> dict[str, type[Any]]:
    """Classes below `base` where the spec has its home, by name; of several, the last defined."""
    found: dict[str, type[Any]] = {}
    for cls in base.__subclasses__():
        own = {cls.__name__: cls} if spec.is_for(cls.__module__) else {}
        found |= own | _subclasses(cls, spec)
    return found


def _error(spec: OpSpec, check: int, path: str, message: str) -> Finding:
    return Finding.of(spec.name, path, check, message)


def _compared(
    spec: OpSpec, check: int, method: str, findings: Iterator[Finding]
) -> Iterator[Finding]:
    """Findings, with what a class's own objects raise meanwhile as the last of them."""
    try:
        yield from findings
    except Exception as error:
        yield _error(spec, check, "", f"{method} cannot be compared: {described(error)}")


def _check_listed(spec: OpSpec) -> Iterator[Finding]:
    if spec.in_tree:
        listed = getattr(importlib.import_module(f"tileops.{spec.family}"), "__all__", ())
        if spec.name not in listed:
            yield _error(spec, 46, "status", f"not in tileops.{spec.family}.__all__")


def check_exports(families: Mapping[str, Mapping[str, str | None]]) -> Iterator[Finding]:
    """`__all__` of each family names implemented specs only.

    Args:
        families: for each family the status of its in-tree specs.
    """
    for family, statuses in families.items():
        if "implemented" not in statuses.values():
            continue
        module = f"tileops.{family}"
        try:
            listed = getattr(importlib.import_module(module), "__all__", ())
        except Exception as error:
            yield _export(module, "", f"cannot be imported: {type(error).__name__}: {error}")
            continue
        for name in listed:
            if name not in statuses:
                yield _export(module, "__all__", f"{name} is listed, but has no spec there")
            elif statuses[name] != "implemented":
                yield _export(name, "status", f"listed in {module}.__all__, but not implemented")


def _export(op: str, path: str, message: str) -> Finding:
    return Finding.of(op, path, 46, message)


# __init__


def _check_init(spec: OpSpec, cls: Any) -> Iterator[Finding]:
    taken = _parameters(cls.__init__)
    injected = set(getattr(cls, "injected_parameters", ()))
    yield from _refuse_variadic(spec, 47, "signature.params", "__init__", taken)
    target = taken.pop("target", None)
    by_keyword = target is not None and target.kind is inspect.Parameter.KEYWORD_ONLY
    if target is None or not by_keyword or target.default is not None:
        yield _error(spec, 47, "signature.params", "__init__ takes no keyword-only target=None")
    ours = spec.signature.params
    extra = [name for name in taken if name not in ours and name not in injected]
    meant = ""
    if extra:
        meant = suggest(extra[0], [name for name in ours if name not in taken])
        hint = meant or "; a name that no spec has stands in the class's injected_parameters"
        reason = f"__init__ takes {extra[0]!r}, which is no parameter{hint}"
        yield _error(spec, 47, "signature.params", reason)
    theirs = [name for name in taken if name in ours]
    if theirs != list(ours) and not meant:
        reason = f"expected __init__ to take {_listed(ours)}, it takes {_listed(taken)}"
        yield _error(spec, 47, "signature.params", reason)
    for name in theirs:
        yield from _check_init_parameter(spec, name, ours[name], taken[name])


def _check_init_parameter(
    spec: OpSpec, name: str, ours: Param | TensorInput, theirs: inspect.Parameter
) -> Iterator[Finding]:
    path = f"signature.params.{name}"
    kw_only = theirs.kind is inspect.Parameter.KEYWORD_ONLY
    if kw_only != ours.kw_only:
        word = "keyword-only" if kw_only else "positional"
        yield _error(spec, 47, f"{path}.kw_only", f"in __init__ it is {word}")
    has_default = theirs.default is not inspect.Parameter.empty
    declared = ours.optional is not False if isinstance(ours, TensorInput) else ours.has_default
    if has_default != declared:
        word = f"the default {shown(theirs.default)}" if has_default else "no default"
        yield _error(spec, 47, f"{path}.default", f"in __init__ it has {word}")
    elif has_default and not _same_default(ours, theirs.default):
        wanted = None if isinstance(ours, TensorInput) else ours.default
        reason = f"the spec has {shown(wanted)}, __init__ has {shown(theirs.default)}"
        yield _error(spec, 47, f"{path}.default", reason)


def _same_default(ours: Param | TensorInput, value: object) -> bool:
    """Whether a Python default is the declared one, in the form that expressions see."""
    if isinstance(ours, TensorInput):
        return value is None
    if ours.type.node is None:
        return True
    verdict = ours.type.node.accept(value, ImportedClasses())
    seen = verdict.value if isinstance(verdict, Accepted) else value
    if isinstance(seen, tuple | list) and isinstance(ours.default, tuple | list):
        return list(seen) == list(ours.default)
    if isinstance(seen, bool) is not isinstance(ours.default, bool):
        return False
    return seen == ours.default or (seen != seen and ours.default != ours.default)


# forward


def _check_forward(spec: OpSpec, cls: Any) -> Iterator[Finding]:
    taken = _parameters(cls.forward)
    wanted = dict(spec.signature.inputs)
    names = [*wanted, *(["out"] if spec.signature.has_buffer else [])]
    yield from _refuse_variadic(spec, 48, "signature.inputs", "forward", taken)
    theirs = list(taken)[: len(names)]
    if theirs != names:
        reason = f"expected forward to begin with {_listed(names)}, it has {_listed(theirs)}"
        yield _error(spec, 48, "signature.inputs", reason)
        return
    for name in names:
        yield from _check_forward_input(spec, name, taken[name])
    for name, parameter in list(taken.items())[len(names) :]:
        if spec.has_boundary and parameter.annotation not in _ANNOTATIONS:
            reason = f"forward's {name!r} is annotated int, float, bool or str"
            yield _error(spec, 48, "signature.inputs", reason)


def _check_forward_input(spec: OpSpec, name: str, theirs: inspect.Parameter) -> Iterator[Finding]:
    tensor = spec.signature.inputs.get(name)
    path = f"signature.inputs.{name}" if tensor else "signature.outputs"
    may_lack = tensor is None or tensor.optional is not False
    if theirs.kind not in _POSITIONAL:
        yield _error(spec, 48, path, f"forward takes {name!r} by keyword only")
    if may_lack and theirs.default is not None:
        yield _error(spec, 48, path, f"forward's {name!r} has the default None")
    elif not may_lack and theirs.default is not inspect.Parameter.empty:
        yield _error(spec, 48, path, f"forward's {name!r} has no default")


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a method but the first."""
    return dict(list(inspect.signature(function).parameters.items())[1:])


def _refuse_variadic(
    spec: OpSpec, check: int, path: str, method: str, taken: dict[str, inspect.Parameter]
) -> Iterator[Finding]:
    for name in [name for name, p in taken.items() if p.kind in _VARIADIC]:
        stars = "*" if taken.pop(name).kind is inspect.Parameter.VAR_POSITIONAL else "**"
        yield _error(spec, check, path, f"{method} takes {stars}{name}; name every parameter")


# declarations


def _check_declarations(spec: OpSpec, cls: Any) -> Iterator[Finding]:
    """What a class declares; where that has another form, nothing more can be told of it."""
    try:
        cls._check_declared(spec.name, cls)
    except TypeError as error:
        yield _error(spec, 52, "", _reason(spec, error))
        return
    yield from _check_composition(spec, cls)
    yield from check_members(spec, cls)
    yield from _check_table(spec, cls)
    yield from check_bodies(spec, cls)


def _check_composition(spec: OpSpec, cls: Any) -> Iterator[Finding]:
    types = cls.delegate_types.items()
    delegates = {name: getattr(kind, "__name__", shown(kind)) for name, kind in types}
    stages = spec.composition or ()
    declared = {stage.name: stage.op for stage in stages if stage.op is not None}
    if list(declared.items()) != list(delegates.items()):
        path = "composition.stages" if spec.composition is not None else "composition"
        reason = f"the spec's op stages are {declared}, delegate_types are {delegates}"
        yield _error(spec, 49, path, reason)
    if spec.composition is None:
        return
    keys = set(cls.kernel_types)
    for number, stage in enumerate(stages):
        if stage.kernel is not None and stage.kernel not in keys:
            reason = f"{stage.kernel!r} is no key of kernel_types"
            yield _error(spec, 49, f"composition.stages[{number}].kernel", reason)
    for key in sorted(keys - {stage.kernel for stage in stages}):
        yield _error(spec, 49, "composition.stages", f"no stage names the kernel type {key!r}")


def _check_table(spec: OpSpec, cls: Any) -> Iterator[Finding]:
    try:
        table = cls._own_table()
    except Exception as error:
        yield _error(spec, 52, "", _reason(spec, error))
        return
    for interface, keys in table.keys_by_interface.items():
        if not keys and not cls._added_kernel_types():
            reason = f"no kernel type implements the interface {interface!r}, so it serves no call"
            yield _error(spec, 52, "", reason)
        elif not any(table.kernel_types[key].general for key in keys):
            reason = "no kernel type is general, so a call that the others refuse is not served"
            message = f"at the interface {interface!r} {reason}"
            yield Finding.of(spec.name, "", 52, message, "advisory")


def _reason(spec: OpSpec, error: Exception) -> str:
    """What an error says of an op, without the name of the op."""
    _, is_ours, reason = described(error).partition(f"{spec.name}: ")
    return reason if is_ours else described(error)


# reference


def _check_reference(spec: OpSpec) -> Iterator[Finding]:
    if spec.home is None:
        return
    try:
        missing, unfit = missing_reference(spec), unfit_reference(spec)
    except Exception as error:
        missing = f"{spec.home}.reference cannot be imported: {described(error)}"
        unfit = None
    if unfit is not None:
        name = reference_name(spec.name)
        reason = f"the reference takes the inputs in order and the parameters by name, not {name}"
        yield _error(spec, 54, "", f"{reason}{unfit}")
    if missing is not None:
        yield Finding.of(spec.name, "", 54, f"nothing to judge the op by: {missing}", "advisory")


# named objects


def _check_named_objects(spec: OpSpec) -> Iterator[Finding]:
    func = spec.roofline.func if spec.roofline else None
    if func is not None and "roofline.func" not in spec.unknown:
        reason = unusable_function(func)
        if reason:
            yield _error(spec, 51, "roofline.func", reason)
    for name, param in spec.signature.params.items():
        for adt in _adts_of(spec, param):
            for constructor in adt.constructors.values():
                enums = (field.python for field in constructor.fields.values())
                for python in filter(None, (constructor.python, *enums)):
                    reason = unusable_class(python)
                    if reason:
                        yield _error(spec, 51, f"signature.params.{name}.type", reason)


def _adts_of(spec: OpSpec, param: Param | TensorInput) -> Iterator[Adt]:
    if isinstance(param, Param) and param.type.node is not None:
        for member in param.type.node.members:
            if isinstance(member, AdtMember) and member.name in spec.adts:
                yield spec.adts[member.name]


def _listed(names: Any) -> str:
    return ", ".join(names) or "nothing"
