"""One spec, field by field, into the frozen model; decides nothing across specs.

Every field is read on its own: a fault is noted at its path and marks that path as unknown, and
reading goes on. Semantic checks belong to `signature` and `validate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tileops._core.spec.entries import Entry, Reading, section
from tileops._core.spec.model import AdtTable, OpSpec
from tileops._core.spec.names import FAMILY, OP_KEY, RESERVED_FAMILIES, is_dotted, key_fault
from tileops._core.spec.read_extras import read_backward, read_composition, read_roofline
from tileops._core.spec.read_signature import read_signature
from tileops._core.spec.read_workloads import read_workloads
from tileops._core.spec.source import Source
from tileops._core.spec.yaml12 import Node

FIELDS = (
    "family", "status", "ref_api", "signature", "workloads", "roofline", "composition", "backward",
)  # fmt: skip
REQUIRED = ("family", "status", "signature", "workloads", "roofline")
CONTAINERS: Mapping[str, type] = {
    "signature": dict, "workloads": list, "roofline": dict, "composition": dict, "backward": dict,
}  # fmt: skip


def read_spec(name: str, node: Node, source: Source, adts: AdtTable) -> OpSpec:
    """Read one spec.

    Args:
        name: the spec's key.
        node: its value, a mapping.
        source: where it stands.
        adts: the ADTs it may name.

    Returns:
        The spec; `faults` and `unknown` tell what could not be read.
    """
    reading = Reading(name, source.label)
    top = reading.entry("", node)
    _check_key(name, reading, source)
    fields = _top_fields(top)
    signature = read_signature(fields.get("signature"), reading, adts)
    return OpSpec(
        name=name,
        origin=source.label,
        package=source.package,
        in_tree=source.in_tree,
        folder_family=source.folder_family,
        family=_read_family(fields.get("family"), source),
        status=_read_status(fields.get("status")),
        ref_api=_read_ref_api(fields.get("ref_api")),
        signature=signature,
        workloads=read_workloads(fields.get("workloads"), signature),
        roofline=read_roofline(fields.get("roofline"), signature, source),
        composition=read_composition(fields.get("composition")),
        backward=read_backward(fields.get("backward"), signature, "composition" in fields),
        adts=adts.known,
        location=top.location,
        locations=reading.locations,
        unknown=frozenset(reading.unknown),
        faults=tuple(reading.findings),
        home=source.home,
    )


def _check_key(name: str, reading: Reading, source: Source) -> None:
    if OP_KEY.fullmatch(name):
        return
    message = f"{name!r} is not of the form <Name>FwdOp or <Name>BwdOp"
    fault = message if source.in_tree else key_fault(name)
    if fault:
        reading.error(2, "", fault)
    else:
        reading.remark(2, "", message)


def _top_fields(top: Entry) -> dict[str, Entry]:
    """The known fields that are there; a container of the wrong type is reported and dropped."""
    fields = top.fields(3, FIELDS, "a spec")
    for key in REQUIRED:
        if section(fields, key) is None:
            top.reading.error(3, key, "required field is missing")
    found = {}
    for key in FIELDS:
        entry = section(fields, key)
        if entry is None:
            continue
        container = CONTAINERS.get(key)
        if container is None or isinstance(entry.value, container):
            found[key] = entry
        else:
            entry.expected(3, "a mapping" if container is dict else "a list")
    return found


def _read_family(entry: Entry | None, source: Source) -> str | None:
    family = entry.text(4, "a family") if entry else None
    if entry is None or family is None:
        return None
    if not FAMILY.fullmatch(family):
        entry.error(4, f"{family!r} is not of the form [a-z][a-z0-9_]*")
    elif family in RESERVED_FAMILIES:
        entry.error(4, f"{family!r} is another module of the package")
    elif source.folder_family not in (None, family):
        entry.error(4, f"{family!r} differs from the folder's family {source.folder_family!r}")
    return family


def _read_status(entry: Entry | None) -> Literal["implemented", "spec-only"] | None:
    if entry is None:
        return None
    if entry.value == "implemented":
        return "implemented"
    if entry.value == "spec-only":
        return "spec-only"
    entry.expected(5, "implemented or spec-only")
    return None


def _read_ref_api(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    if not is_dotted(entry.value, 2):
        entry.expected(6, "a dotted name of two identifiers or more")
        return None
    return str(entry.value)
