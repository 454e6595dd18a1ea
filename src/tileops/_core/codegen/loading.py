"""Compiling generated source so that debuggers, tracebacks and compilers can follow it.

The text is entered in `linecache` without a modification time, so it shows in tracebacks and
outlives a check of the cache. With the environment variable `TILEOPS_DUMP` set, every unit that is
compiled is also written to the folder it names.
"""

from __future__ import annotations

import builtins
import linecache
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DUMP = "TILEOPS_DUMP"


def compile_source(label: str, text: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The namespace of a unit of generated source.

    It has no `__name__`: a tracer would look for a module of that name to find its globals.

    Args:
        label: what the unit is called in tracebacks, `<tileops label>`, and in the dump.
        text: the source.
        known: names that it may use without importing them.
    """
    folder = os.environ.get(DUMP)
    if folder:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{label.replace(' ', '_')}.py").write_text(text, encoding="utf-8")
    file = f"<tileops {label}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = dict(known)
    exec(builtins.compile(text, file, "exec", dont_inherit=True), namespace)
    return namespace
