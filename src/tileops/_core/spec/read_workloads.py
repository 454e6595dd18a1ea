"""The `workloads` section: the form of rows; what a row must give is decided per branch later."""

from __future__ import annotations

from typing import Any

from tileops._core.lang.kinds import DTypeKind
from tileops._core.lang.spelling import suggest
from tileops._core.spec.declarations import missing
from tileops._core.spec.entries import Entry
from tileops._core.spec.model import Row, Signature, TensorInput
from tileops._core.spec.names import LABEL
from tileops._core.spec.yaml12 import plain

SPECIAL = ("some", "dtype_cases", "label")


def read_workloads(entry: Entry | None, signature: Signature) -> tuple[Row | None, ...]:
    """Read the rows; one that cannot be used is None and its path unknown."""
    if entry is None:
        return ()
    if not entry.value:
        entry.error(25, "expected at least one row")
    return tuple(_read_row(item, signature) for item in entry.items(25))


def _read_row(entry: Entry, signature: Signature) -> Row | None:
    cells = entry.mapping(25)
    if not isinstance(entry.value, dict):
        return None
    found = len(entry.reading.findings)
    some = _read_some(cells.get("some"), signature)
    cases = _read_cases(cells.get("dtype_cases"))
    values = _read_values(cells, signature)
    if len(entry.reading.findings) > found:
        return None
    return Row(
        values=values,
        some=some,
        dtype_cases=cases,
        label=_read_label(entry, cells.get("label")),
        path=entry.path,
        location=entry.location,
    )


def _read_values(cells: dict[str, Entry], signature: Signature) -> dict[str, Any]:
    """Parameter and index values; the names are those a row may give."""
    given = [name for name, param in signature.params.items() if not isinstance(param, TensorInput)]
    known = [
        *given,
        *(
            name
            for name, index in signature.forall.items()
            if not isinstance(index.kind, DTypeKind)
        ),
    ]
    values: dict[str, Any] = {}
    for name, cell in cells.items():
        if name in known:
            values[name] = plain(cell.node)
        elif name not in SPECIAL:
            _reject(name, cell, signature, (*known, *SPECIAL))
    return values


def _reject(name: str, cell: Entry, signature: Signature, known: tuple[str, ...]) -> None:
    """A key that no row may give, unless a section that may have declared it is unreadable."""
    sections = ("signature", "signature.forall", "signature.params")
    owners = (f"{section}.{name}" for section in sections)
    if any(map(cell.reading.is_unknown, (*sections, *owners))):
        return
    if name in signature.forall:
        reason = "a DType index is given in `dtype_cases`"
    elif name in signature.lets:
        reason = "a let is computed, never given"
    elif name in signature.inputs or name in signature.params:
        reason = "a tensor is made from its declaration; list it in `some` if it is optional"
    else:
        reason = f"no parameter and no index{suggest(name, known)}"
    cell.error(25, reason)


def _read_some(entry: Entry | None, signature: Signature) -> tuple[str, ...]:
    """Distinct names of tensors that may be left out."""
    if entry is None:
        return ()
    tensors = {**signature.params, **signature.inputs}
    names: list[str] = []
    for item in entry.items(25):
        name = item.text(25, "the name of an optional tensor")
        if name is None:
            continue
        tensor = tensors.get(name)
        if name in names:
            entry.error(25, f"{name!r} is listed twice")
        elif _is_optional(tensor):
            names.append(name)
        elif not _may_be_optional(name, tensor, entry):
            maybe = [each for each, declared in tensors.items() if _is_optional(declared)]
            hint = "" if name in tensors else suggest(name, maybe)
            entry.error(25, f"{name!r} is not a tensor with `optional: true`{hint}")
    return tuple(names)


def _is_optional(tensor: object) -> bool:
    return isinstance(tensor, TensorInput) and tensor.optional is True


def _may_be_optional(name: str, tensor: object, entry: Entry) -> bool:
    """Whether what was not readable leaves open that this is an optional tensor."""
    reading = entry.reading
    if isinstance(tensor, TensorInput):
        section = "params" if tensor.role == "param" else "inputs"
        return reading.is_unknown(f"signature.{section}.{name}.optional")
    return any(map(reading.is_unknown, ("signature", "signature.inputs", "signature.params")))


def _read_cases(entry: Entry | None) -> tuple[dict[str, str], ...]:
    """Non-empty mappings from index to dtype name."""
    if entry is None:
        return ()
    items = entry.items(25)
    if entry.value == []:
        entry.error(25, "expected at least one case")
    cases: list[dict[str, str]] = []
    for item in items:
        cells = item.mapping(25)
        if item.value == {}:
            item.error(25, "an empty case")
        cases.append({name: cell.text(25, "a dtype") or "" for name, cell in cells.items()})
    return tuple(cases)


def _read_label(owner: Entry, entry: Entry | None) -> str | None:
    if entry is None:
        missing(owner, "label", 25)
        return None
    label = entry.text(25, "a label")
    if label is not None and not LABEL.fullmatch(label):
        entry.error(25, f"{label!r} is not 1 to 24 of the characters A-Z a-z 0-9 . _ -")
        return None
    return label
