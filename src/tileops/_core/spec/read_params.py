"""Constructor parameters: types, defaults and order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops._core.lang.members import AdtMember, ObjectMember, Refused
from tileops._core.lang.param_types import ParamType, parse_param_type
from tileops._core.spec.declarations import declare, missing
from tileops._core.spec.entries import Entry, Reading
from tileops._core.spec.model import AdtTable, Declaration, Param, TensorInput, adt_fields
from tileops._core.spec.read_tensors import read_input
from tileops._core.spec.yaml12 import plain

KEYS = ("type", "default", "kw_only")


def read_params(entries: Mapping[str, Entry], adts: AdtTable) -> dict[str, Param | TensorInput]:
    """Read the declarations in order; one with a `shape` is a construction-time tensor."""
    return {
        name: read_input(entry, "param")
        if isinstance(entry.value, dict) and "shape" in entry.value
        else _read_param(name, entry, adts)
        for name, entry in entries.items()
    }


def check_param_order(params: Mapping[str, Param | TensorInput], reading: Reading) -> None:
    """Positional parameters come first, and among them those without default."""
    kw_only: str | None = None
    with_default: str | None = None
    for name, param in params.items():
        path = f"signature.params.{name}"
        if reading.is_unknown(path) or reading.is_unknown(f"{path}.kw_only"):
            continue
        if param.kw_only:
            kw_only = kw_only or name
        elif kw_only is not None:
            reading.error(10, path, f"a positional parameter after the keyword-only {kw_only!r}")
        elif _has_default(param):
            with_default = with_default or name
        elif with_default is not None and not reading.is_unknown(f"{path}.optional"):
            reason = f"a positional parameter without default after {with_default!r}, which has one"
            reading.error(10, path, reason)


def _has_default(param: Param | TensorInput) -> bool:
    return param.optional is not False if isinstance(param, TensorInput) else param.has_default


def _read_param(name: str, entry: Entry, adts: AdtTable) -> Param:
    fields = entry.fields(10, KEYS, "a parameter (a construction-time tensor has a 'shape')")
    kind = _read_type(entry, fields.get("type"), adts)
    default = fields.get("default")
    flag = fields.get("kw_only")
    if name == "device" and kind.node is not None:
        _check_device(entry, kind.node)
    return Param(
        name=name,
        type=kind,
        has_default=default is not None,
        default=None if default is None else _read_default(default, kind.node, adts),
        kw_only=bool(flag and flag.flag(10)),
        location=entry.location,
    )


def _read_type(owner: Entry, entry: Entry | None, adts: AdtTable) -> Declaration[ParamType]:
    if entry is None:
        return missing(owner, "type", 10)
    declared = declare(entry, lambda text: parse_param_type(text, adts.names), 10, parse_check=10)
    if declared.node is None:
        return declared
    for member in declared.node.members:
        if isinstance(member, AdtMember) and member.name in adts.faults:
            # The ADT's own findings make the class unusable; here only its kind is unknown.
            entry.reading.inherit(entry.path, adts.faults[member.name])
            return Declaration(entry.path, declared.text, None, entry.location)
    return declared


def _read_default(entry: Entry, kind: ParamType | None, adts: AdtTable) -> Any:
    """The default as expressions see it; as written when it does not convert."""
    value = plain(entry.node)
    if kind is None:
        return value
    verdict = kind.from_yaml(value, adt_fields(adts.known))
    if isinstance(verdict, Refused):
        entry.error(10, verdict.reason)
        return value
    return verdict.value


def _check_device(entry: Entry, kind: ParamType) -> None:
    if not any(isinstance(m, ObjectMember) and m.name == "torch.device" for m in kind.members):
        entry.error(10, f"a parameter named 'device' admits torch.device, got {kind.text!r}")
