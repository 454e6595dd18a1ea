"""Write a package that extends TileOPs, complete with tests, ready to install and to change.

  backend  a target that serves ops as a whole; what is written serves RMSNormFwdOp
  kernel   one more kernel for an op that is there, RMSNormFwdOp until you name another
  op       one op with its spec, class, kernel and reference
  pack     several ops, one of them composed of others

NAME becomes the distribution, as acme-norms; the import package is acme_norms, the op, where there
is one, AcmeNormsFwdOp. --op gives the op another name:

  tileops new op acme-gather --op GatherRowsFwdOp
"""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from tileops._core.spec import registry
from tileops._core.spec.names import RESERVED_FAMILIES, reference_name
from tileops.cli.options import add_json
from tileops.cli.output import UsageFault, print_json

if TYPE_CHECKING:
    from importlib.abc import Traversable

KINDS = {
    "backend": ("plugin", "backend"),
    "kernel": ("plugin", "kernel"),
    "op": ("specs", "op"),
    "pack": ("specs", "op", "pack"),
}
"""The folders of templates that make a kind; a later one replaces files of an earlier."""
SERVED = "RMSNormFwdOp"
"""The op that a package of kernels or a backend serves as it is written."""
_DESCRIPTIONS = {
    "backend": "A backend for TileOPs",
    "kernel": "A kernel for TileOPs",
    "op": "An op for TileOPs",
    "pack": "Ops for TileOPs",
}
_OPS = {"backend": (), "kernel": (), "op": ("FwdOp",), "pack": ("FwdOp", "NormFwdOp")}
"""What the names of the ops that a kind defines end in."""
_DISTRIBUTION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_OP = re.compile(r"[A-Z][A-Za-z0-9]*FwdOp")
_MOST_CHARACTERS = 60
_SUFFIX = ".tmpl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("kind", choices=tuple(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help="name of the package, as acme-norms")
    parser.add_argument(
        "--into", type=Path, default=Path(), metavar="DIR", help="the folder to write it into"
    )
    parser.add_argument("--op", metavar="OP", help="name of the op, as GatherRowsFwdOp")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the package.

    Raises:
        UsageFault: the name cannot be used, or the folder is there already or cannot be written.
    """
    root: Path = args.into / args.name
    texts = rendered(args.kind, args.name, args.op)
    if root.exists() or root.is_symlink():
        raise UsageFault(f"{root} is there already: remove it or choose another name")
    if not args.into.is_dir():
        reason = (
            "is no folder; name another" if args.into.exists() else "is not there; make it first"
        )
        raise UsageFault(f"--into {args.into}: the folder {reason}")
    try:
        _write(root, texts)
    except OSError as error:
        raise UsageFault(f"cannot write {root}: {error.strerror}") from error
    if args.json:
        print_json({"root": str(root), "files": sorted(texts)})
    else:
        lines = [f"wrote {root}:", *(f"  {name}" for name in sorted(texts)), "", "next:"]
        print("\n".join([*lines, f"  pip install -e '{root}[test]'", f"  pytest {root}"]))
    return 0


def _write(root: Path, texts: Mapping[str, str]) -> None:
    """Write files below a folder, which is made."""
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def rendered(kind: str, name: str, op: str | None = None) -> dict[str, str]:
    """The files of a package, by their paths in it.

    Args:
        kind: what the package brings.
        name: name of the distribution.
        op: name of the op; made of that of the distribution where absent.

    Raises:
        UsageFault: a name is malformed, or names something that is there already.
    """
    values = _values(kind, name, op)
    return {
        path.replace("PACKAGE", values["package"]): Template(text).substitute(values)
        for layer in KINDS[kind]
        for path, text in _templates(files("tileops.cli") / "templates" / layer)
    }


def _values(kind: str, name: str, op: str | None) -> dict[str, str]:
    """What the placeholders of the templates stand for."""
    if op is not None and not _OPS[kind]:
        raise UsageFault(
            f"--op names the op that is written, and a {kind} brings none: it serves {SERVED} "
            "until its modules and tests name another"
        )
    if op is not None and not _OP.fullmatch(op):
        raise UsageFault(f"--op {op} is no name such as GatherRowsFwdOp")
    if not _DISTRIBUTION.fullmatch(name):
        form = "lower-case words, joined by hyphens"
        near = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
        meant = f"; try {near}" if _DISTRIBUTION.fullmatch(near) else ""
        raise UsageFault(f"{name!r} is no name such as acme-norms: {form}{meant}")
    if len(name) > _MOST_CHARACTERS:
        raise UsageFault(f"a name has at most {_MOST_CHARACTERS} characters, not {len(name)}")
    package = name.replace("-", "_")
    words = "".join(word.capitalize() for word in name.split("-"))
    stem = words if op is None else op.removesuffix("FwdOp")
    if keyword.iskeyword(package) or find_spec(package) is not None:
        raise UsageFault(f"{package!r} is a module or a keyword already: choose another name")
    if _OPS[kind] and package in RESERVED_FAMILIES:
        raise UsageFault(f"{package!r} is a module of tileops, which no family may be called")
    if _OPS[kind] and stem.startswith("Test"):
        raise UsageFault(f"{name!r} begins with 'test': pytest would take its classes for tests")
    for ending in _OPS[kind]:
        known = registry.manifest().source(stem + ending)
        if known is not None:
            raise UsageFault(f"{known.clash(stem + ending)}: choose another name")
    return {
        "distribution": name,
        "package": package,
        "name": stem,
        "reference": reference_name(f"{stem}FwdOp"),
        "switch": f"{package.upper()}_ON",
        "description": _DESCRIPTIONS[kind],
    }


def _templates(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of every template below a folder."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")
