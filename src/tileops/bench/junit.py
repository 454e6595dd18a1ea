"""Results as JUnit XML, for services that show tests: a row is a test case of its op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from tileops.bench.measuring import LEFT_OUT, WRONG


def junit(rows: Sequence[Mapping[str, Any]], failed: Mapping[tuple[str, str], str]) -> str:
    """The document.

    Args:
        rows: rows of a results file.
        failed: why a row fails that is right or was not measured, by op and case.
    """
    suite = ElementTree.Element("testsuite", name="tileops bench")
    counts = {"tests": len(rows), "failures": 0, "skipped": 0}
    left = dict(failed)
    for row in rows:
        case = _case(suite, row["op"], row["case"], (row["timing"] or {}).get("median", 0.0))
        fallen = left.pop((row["op"], row["case"]), None)
        if row["state"] == WRONG or fallen is not None:
            counts["failures"] += 1
            _fail(case, fallen or row["reason"] or "")
        elif row["state"] == LEFT_OUT:
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=_text(row["reason"] or ""))
    for (op, name), reason in left.items():
        counts["tests"] += 1
        counts["failures"] += 1
        _fail(_case(suite, op, name, 0.0), reason)
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, op: str, name: str, seconds: float) -> ElementTree.Element:
    """A test case of its own."""
    attributes = {"classname": _text(op), "name": _text(name), "time": f"{seconds:.9f}"}
    return ElementTree.SubElement(suite, "testcase", attributes)


def _fail(case: ElementTree.Element, reason: str) -> None:
    ElementTree.SubElement(case, "failure", message=_line(reason)).text = _text(reason)


def _line(reason: str) -> str:
    return _text(reason.partition("\n")[0])


def _text(reason: str) -> str:
    """A text without the control characters that XML cannot hold."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in reason)
