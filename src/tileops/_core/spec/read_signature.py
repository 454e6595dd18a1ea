"""The `signature` section: names, indices, parameters, lets, refinements, dtype combinations."""

from __future__ import annotations

from collections.abc import Mapping

from tileops._core.lang.kind_text import parse_index_kind
from tileops._core.lang.kinds import INTS, DTypeKind
from tileops._core.lang.nodes import Expr
from tileops._core.spec.declarations import declare, expression, expression_or_integer
from tileops._core.spec.entries import Entry, Reading, section
from tileops._core.spec.model import (
    AdtTable,
    Declaration,
    DtypeCombo,
    Index,
    Param,
    Signature,
    TensorInput,
)
from tileops._core.spec.names import name_fault, parameter_fault
from tileops._core.spec.read_families import read_families
from tileops._core.spec.read_params import check_param_order, read_params
from tileops._core.spec.read_tensors import (
    check_effects,
    check_input_order,
    read_input,
    read_output,
)

SECTIONS: Mapping[str, type] = {
    "forall": dict, "params": dict, "inputs": dict, "outputs": dict, "types": dict, "let": dict,
    "shape_rules": list, "dtype_combos": list,
}  # fmt: skip
NAMED = ("forall", "params", "inputs", "outputs", "types", "let")
MOST_DECLARATIONS = 500
"""Named things and refinements of one spec; what is checked grows faster than their number."""
_WHAT = {
    "forall": "an index", "params": "a parameter", "inputs": "an input", "outputs": "an output",
    "types": "a type family", "let": "a let",
}  # fmt: skip


def read_signature(entry: Entry | None, reading: Reading, adts: AdtTable) -> Signature:
    """Read the section; an absent or unreadable one gives an empty signature."""
    found = _bounded(entry, _sections(entry))
    named = {key: found[key].mapping(8) if key in found else {} for key in NAMED}
    outputs_written = bool(named["outputs"])
    named = _distinct(named)
    inputs = {name: read_input(item, "input") for name, item in named["inputs"].items()}
    outputs = {name: read_output(item) for name, item in named["outputs"].items()}
    forall = {name: _read_index(name, item) for name, item in named["forall"].items()}
    params = read_params(named["params"], adts)
    check_param_order(params, reading)
    check_input_order(inputs, reading)
    check_effects(inputs, outputs, reading)
    if entry is not None and not outputs_written:
        _check_results(entry, inputs)
    return Signature(
        forall=forall,
        params=params,
        inputs=inputs,
        outputs=outputs,
        types=read_families(named["types"], adts),
        lets={name: expression_or_integer(item) for name, item in named["let"].items()},
        shape_rules=_read_rules(found.get("shape_rules")),
        dtype_combos=_read_combos(found.get("dtype_combos"), forall, params),
    )


def _sections(entry: Entry | None) -> dict[str, Entry]:
    """The sections that are there and have the right container type."""
    if entry is None:
        return {}
    fields = entry.fields(7, SECTIONS, "a signature")
    found: dict[str, Entry] = {}
    for key, container in SECTIONS.items():
        item = section(fields, key)
        if item is None:
            continue
        if isinstance(item.value, container):
            found[key] = item
        else:
            item.expected(7, "a mapping" if container is dict else "a list")
    if section(fields, "outputs") is None and isinstance(entry.value, dict):
        entry.reading.error(7, entry.join("outputs"), "required section is missing; {} is allowed")
    return found


def _bounded(entry: Entry | None, found: dict[str, Entry]) -> dict[str, Entry]:
    """The sections, unless they declare more than can be checked."""
    count = sum(len(item.value) for item in found.values())
    if entry is None or count <= MOST_DECLARATIONS:
        return found
    entry.error(8, f"{count} declarations, more than {MOST_DECLARATIONS}")
    return {}


def _distinct(named: Mapping[str, Mapping[str, Entry]]) -> dict[str, dict[str, Entry]]:
    """The sections with names that are admissible; of two equal names the first is kept."""
    owners: dict[str, str] = {}
    kept: dict[str, dict[str, Entry]] = {key: {} for key in NAMED}
    for key in NAMED:
        for name, entry in named[key].items():
            fault = parameter_fault(name) if key == "params" else name_fault(name)
            if name in owners:
                fault = f"{name!r} is already {_WHAT[owners[name]]}"
            else:
                kept[key][name] = entry
            if fault is not None:
                entry.error(8, fault)
            owners.setdefault(name, key)
    return kept


def _check_results(entry: Entry, inputs: Mapping[str, TensorInput]) -> None:
    """A spec without outputs writes an input."""
    unread = (entry.path, "signature.outputs", "signature.inputs")
    if any(map(entry.reading.is_unknown, unread)):
        return
    if all(tensor.mutated is False for tensor in inputs.values()):
        entry.error(7, "nothing is returned and no input is mutated")


def _read_index(name: str, entry: Entry) -> Index:
    declared = declare(entry, parse_index_kind, 9, parse_check=9)
    return Index(name, declared.node, declared, is_sequence=declared.node == INTS)


def _read_rules(entry: Entry | None) -> tuple[Declaration[Expr], ...]:
    return () if entry is None else tuple(expression(item) for item in entry.items(13))


def _read_combos(
    entry: Entry | None, forall: Mapping[str, Index], params: Mapping[str, Param | TensorInput]
) -> tuple[DtypeCombo, ...]:
    """Rows of equal keys, pairwise distinct, each dtype in its key's set."""
    if entry is None:
        return ()
    items = entry.items(21)
    if not items:
        entry.error(21, "expected at least one row")
    admitted = _dtype_sets(forall, params)
    combos: dict[int, DtypeCombo] = {}
    for number, item in enumerate(items):
        row = _read_combo(item, admitted)
        if row is None:
            continue
        fault = _clash(row, combos)
        if fault is None:
            combos[number] = DtypeCombo(row, item.location)
        else:
            item.error(21, fault)
    return tuple(combos.values())


def _clash(row: Mapping[str, str], earlier: Mapping[int, DtypeCombo]) -> str | None:
    """Why a row cannot stand beside earlier ones."""
    for number, other in earlier.items():
        if set(row) != set(other.dtypes):
            return f"its names differ from those of row {number}"
        if row == other.dtypes:
            return f"repeats row {number}"
    return None


def _read_combo(
    entry: Entry, admitted: Mapping[str, frozenset[str] | None]
) -> dict[str, str] | None:
    """One row; None when it cannot be compared with others."""
    cells = entry.mapping(21)
    if isinstance(entry.value, dict) and not cells:
        entry.error(21, "an empty row")
    for name, cell in cells.items():
        if name not in admitted:
            cell.error(21, f"{name!r} is no DType index and no dtype parameter")
            continue
        members = admitted[name]
        if not isinstance(cell.value, str):
            cell.expected(21, "a dtype")
        elif members is not None and cell.value not in members:
            cell.error(21, f"{cell.value} is not in {name} = {' | '.join(sorted(members))}")
    readable = cells and all(isinstance(cell.value, str) for cell in cells.values())
    return {name: cell.value for name, cell in cells.items()} if readable else None


def _dtype_sets(
    forall: Mapping[str, Index], params: Mapping[str, Param | TensorInput]
) -> dict[str, frozenset[str] | None]:
    """The dtypes that each admissible column may hold; None where the kind is unreadable."""
    sets: dict[str, frozenset[str] | None] = {}
    for name, index in forall.items():
        if index.kind is None:
            sets[name] = None
        elif isinstance(index.kind, DTypeKind):
            sets[name] = index.kind.members
    for name, param in params.items():
        if isinstance(param, TensorInput):
            continue
        kind = None if param.type.node is None else param.type.node.kind
        if kind is None:
            sets[name] = None
        elif isinstance(kind, DTypeKind):
            sets[name] = kind.members
    return sets
