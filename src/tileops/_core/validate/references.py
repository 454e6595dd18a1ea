"""What a spec says about other specs and about the outside: checks 6 and 24."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator

from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import Backward, Finding, OpSpec, Param, TensorInput


def check_references(spec: OpSpec, manifest: Manifest) -> Iterator[Finding]:
    """Findings about `ref_api`, `composition` and `backward`."""
    yield from _check_ref_api(spec)
    yield from _check_composition(spec, manifest)
    if spec.backward is not None:
        yield from _check_backward(spec, spec.backward, manifest)


def _error(spec: OpSpec, check: int, path: str, message: str) -> Finding:
    return Finding.of(spec.name, path, check, message)


# ref_api


def _check_ref_api(spec: OpSpec) -> Iterator[Finding]:
    if spec.ref_api is None:
        return
    if spec.ref_api.startswith("torch."):
        importlib.import_module("torch")
    missing = (missing_attribute if spec.in_tree else missing_of_loaded)(spec.ref_api)
    if missing is not None:
        yield _error(spec, 6, "ref_api", f"{missing} does not exist")


def missing_of_loaded(path: str) -> str | None:
    """As `missing_attribute`, of loaded modules only: nothing is imported for a foreign spec."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        found: object = sys.modules.get(".".join(parts[:length]))
        if found is None:
            continue
        for end in range(length, len(parts)):
            if not hasattr(found, parts[end]):
                path = ".".join(parts[: end + 1])
                return None if _may_be_module(found, path) else path
            found = getattr(found, parts[end])
        return None
    return None


def _may_be_module(owner: object, path: str) -> bool:
    """Whether a name inside a loaded package is a module of it, which is not loaded to find out."""
    if not hasattr(owner, "__path__"):
        return False
    try:
        return importlib.util.find_spec(path) is not None
    except Exception:
        return True  # A package that cannot be searched is not judged.


def missing_attribute(path: str) -> str | None:
    """The first part of a dotted name that does not exist; None when all do or nobody can tell."""
    parts = path.split(".")
    if parts[0] not in sys.modules and importlib.util.find_spec(parts[0]) is None:
        return None
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        except Exception:  # A package that cannot be imported here is not judged here.
            return None
        for end in range(length, len(parts)):
            if not hasattr(found, parts[end]):
                return ".".join(parts[: end + 1])
            found = getattr(found, parts[end])
        return None
    return None


# composition


def _check_composition(spec: OpSpec, manifest: Manifest) -> Iterator[Finding]:
    for number, stage in enumerate(spec.composition or ()):
        if stage.op is None:
            continue
        path = f"composition.stages[{number}].op"
        if manifest.lookup(stage.op) is None:
            yield _error(spec, 24, path, f"{stage.op!r} is not a known op")
            continue
        cycle = _way_back(spec.name, stage.op, manifest)
        if cycle:
            yield _error(spec, 24, path, f"leads back to this op: {', '.join(cycle)}")


def _way_back(goal: str, start: str, manifest: Manifest) -> list[str]:
    """The ops on a way from `start` to `goal` along stages, `goal` put first; [] without one."""
    pending = [[goal, start]]
    seen: set[str] = set()
    while pending:
        way = pending.pop()
        if way[-1] == goal:
            return way
        if way[-1] in seen:
            continue
        seen.add(way[-1])
        pending += [[*way, name] for name in _stage_ops(manifest.lookup(way[-1]))]
    return []


def _stage_ops(spec: OpSpec | None) -> Iterable[str]:
    stages = (spec.composition or ()) if spec else ()
    return [stage.op for stage in stages if stage.op is not None]


# backward


def _check_backward(spec: OpSpec, backward: Backward, manifest: Manifest) -> Iterator[Finding]:
    target = manifest.lookup(backward.op)
    if target is None:
        yield _error(spec, 24, "backward.op", f"{backward.op!r} is not a known op")
        return
    if "signature" in target.unknown:
        return
    required = [
        name for name, tensor in target.signature.inputs.items() if tensor.optional is False
    ]
    yield from _check_names(
        spec, "inputs", backward.inputs, required, target.signature.inputs, target.name
    )
    outputs = target.signature.outputs
    yield from _check_names(spec, "outputs", backward.outputs, outputs, outputs, target.name)
    for name, param in target.signature.params.items():
        if isinstance(param, Param) and not param.has_default:
            ours = spec.signature.params.get(name)
            if ours is None or isinstance(ours, TensorInput):
                message = f"{target.name} needs the parameter {name!r}, which this op lacks"
                yield _error(spec, 24, "backward.op", message)


def _check_names(
    spec: OpSpec,
    section: str,
    given: Iterable[str],
    required: Iterable[str],
    known: Iterable[str],
    target: str,
) -> Iterator[Finding]:
    """The given names are those of the other op."""
    given, known = list(given), list(known)
    for name in given:
        if name not in known:
            path = f"backward.{section}.{name}"
            yield _error(spec, 24, path, f"{target} has no such {section.removesuffix('s')}")
    for name in required:
        if name not in given:
            yield _error(spec, 24, f"backward.{section}", f"misses {name!r} of {target}")
