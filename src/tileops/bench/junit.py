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
        failed: why a row that is right fails all the same, by op and case.
    """
    suite = ElementTree.Element("testsuite", name="tileops bench", tests=str(len(rows)))
    counts = {"failures": 0, "skipped": 0}
    for row in rows:
        seconds = (row["timing"] or {}).get("median", 0.0)
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=_text(row["op"]),
            name=_text(row["case"]),
            time=f"{seconds:.9f}",
        )
        fallen = failed.get((row["op"], row["case"]))
        if row["state"] == WRONG or fallen is not None:
            counts["failures"] += 1
            reason = fallen or row["reason"] or ""
            ElementTree.SubElement(case, "failure", message=_line(reason)).text = _text(reason)
        elif row["state"] == LEFT_OUT:
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=_text(row["reason"] or ""))
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _line(reason: str) -> str:
    return _text(reason.partition("\n")[0])


def _text(reason: str) -> str:
    """A text without the control characters that XML cannot hold."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in reason)
