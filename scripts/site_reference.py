"""The page of the site on public names in detail: signatures and docstrings, nothing written twice.

Which names are public stands in `docs/api.md`, whose lists a test compares with the modules.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = re.compile(r"^```text public (?P<module>[\w.]+)\n(?P<names>[^`]*)^```$", re.MULTILINE)
SECTION = re.compile(r"^(Args|Attributes|Example|Raises|Returns|Yields):\n", re.MULTILINE)
WIDTH = 88
SKIPPED = "  # doctest: +SKIP"
QUOTED = re.compile(r"(: |-> )(?:ForwardRef\()?(['\"])(.*?)\2\)?(?=[,)]| = |$)")
"""Annotations that are postponed."""
COMMA = re.compile(r", (?=\*{0,2}\w+(?:: |=|$)|\*,)")
"""Between parameters."""
ITEM = re.compile(r"^(?P<name>\*{0,2}[\w, ]+): ", re.MULTILINE)
HEAD = """# Names in detail

From the signatures and docstrings of what [Public names](api.md) lists. Op classes are in
[Ops](ops/README.md).
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    sys.path.insert(0, str(ROOT / "src"))
    try:
        text = "\n".join([HEAD, *modules((ROOT / "docs" / "api.md").read_text(encoding="utf-8"))])
    finally:
        sys.path.pop(0)
    files.append(File.generated(config, "reference.md", content=text))
    return files


def modules(listed: str) -> Iterator[str]:
    """Each module and its names; what two modules give stands under the first."""
    told: set[int] = set()
    for part in PUBLIC.finditer(listed):
        module = importlib.import_module(part["module"])
        yield f"## {part['module']}\n\n{prose(module.__doc__)}\n"
        for name in sorted(part["names"].split(), key=str.lower):
            found = getattr(module, name)
            if callable(found) and id(found) not in told:
                told.add(id(found))
                yield from described(name, found)


def described(name: str, found: Any) -> Iterator[str]:
    """A function or a class, with the public members that have docstrings."""
    yield f"### {name}\n\n{code(name, found)}\n\n{prose(found.__doc__)}\n"
    for member, value in sorted(vars(found).items() if inspect.isclass(found) else ()):
        function = getattr(value, "__func__", value)
        documented = isinstance(value, property) or inspect.isfunction(function)
        if documented and function.__doc__ and not member.startswith("_"):
            yield f"{code(f'{name}.{member}', function)}\n\n{prose(function.__doc__)}\n"


def code(name: str, found: Any) -> str:
    """The head of a definition, a parameter a line where one line is too long."""
    try:
        signature = QUOTED.sub(r"\1\3", str(inspect.signature(found)))
    except (TypeError, ValueError):  # a property, or a class that takes what its base takes
        signature = ""
    if len(name + signature) > WIDTH:
        inside, _, result = signature[1:].rpartition(")")
        signature = "(\n    " + COMMA.sub(",\n    ", inside) + f",\n){result}"
    return f"```python\n{name}{signature}\n```"


def prose(doc: str | None) -> str:
    """A docstring as Markdown: its sections are lists."""
    first, *sections = SECTION.split(inspect.cleandoc(doc or ""))
    parts = [first.strip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        block, _, after = re.sub(r"\n(?=\S)", "\0", body, count=1).partition("\0")
        items = textwrap.dedent(block).strip()
        if title == "Example":
            items = f"```pycon\n{items.replace(SKIPPED, '')}\n```"
        elif title != "Returns":
            items = ITEM.sub(lambda item: f"- `{item['name']}`: ", items)
        parts += [f"*{title}:*", items, after.strip()]
    return "\n\n".join(filter(None, parts))
