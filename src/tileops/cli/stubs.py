"""Write type stubs of op classes, so that editors and type checkers know what an op takes.

A stub lies beside the module that offers the classes: `__init__.pyi` of each family, `ops.pyi` of a
pack. Without PACKAGE the families of this package are meant; --check writes nothing and fails when
a stub is missing or differs from what would be written. Type checkers read a stub in place of its
module; name the module itself to have it checked too, as in `mypy src/acme_pack/ops.py`.

  tileops stubs --check
  tileops stubs acme_pack
"""

from __future__ import annotations

import argparse
import importlib
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tileops._core.spec.model import OpSpec
from tileops.cli.nearest import nearest
from tileops.cli.options import add_json
from tileops.cli.output import UsageFault, print_json
from tileops.cli.progress import Tell, counted, waiting
from tileops.cli.specs import all_specs, class_of, package_of

if TYPE_CHECKING:
    from tileops import Op


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "package", nargs="?", default="tileops", metavar="PACKAGE", help="a pack's import package"
    )
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the stubs, or compare them with those that are there; 1 when some differ."""
    with waiting("reading specs and classes", silent=args.json) as tell:
        made = stubs_of(args.package, tell)
    stale = [path for path, text in made.items() if _text(path) != text]
    if not args.check:
        for path in stale:
            try:
                path.write_text(made[path], encoding="utf-8")
            except OSError as error:
                raise UsageFault(f"{path}: {error.strerror}; --check writes nothing") from error
    count = f"{len(made)} stub{'s' * (len(made) != 1)}"
    if args.json:
        print_json({"stubs": [str(path) for path in made], "stale": [str(path) for path in stale]})
    elif args.check:
        lines = [f"{path} is not up to date: run `tileops stubs {args.package}`" for path in stale]
        print("\n".join(lines or [f"{count}, all up to date"]))
    else:
        print(f"{count}, {len(stale)} of them new or changed")
    return 1 if args.check and stale else 0


def stubs_of(package: str, tell: Tell = lambda _done, _total: None) -> dict[Path, str]:
    """The stubs of a package's op classes, by where each belongs.

    Raises:
        UsageFault: no op is of this package, or a class cannot be imported.
    """
    from tileops.cli.stub_text import stub

    modules: dict[str, list[tuple[OpSpec, type[Op]]]] = defaultdict(list)
    for spec in counted(_implemented(package), tell):
        modules[_module_of(spec)].append((spec, class_of(spec)))
    found = {name: importlib.import_module(name) for name in sorted(modules)}
    return {_place(module): stub(module, modules[name]) for name, module in found.items()}


def _implemented(package: str) -> list[OpSpec]:
    specs = all_specs()
    found = [s for s in specs if package_of(s) == package and s.status == "implemented" and s.home]
    if not found:
        known = sorted({package_of(spec) for spec in specs if spec.home})
        hint = nearest(package, known) or f"; known: {', '.join(known)}"
        raise UsageFault(f"no implemented op is of package {package}{hint}")
    return found


def _module_of(spec: OpSpec) -> str:
    """The module from which users import the class of a spec."""
    return f"tileops.{spec.family}" if spec.in_tree else f"{spec.home}.ops"


def _place(module: ModuleType) -> Path:
    return Path(str(module.__file__)).with_suffix(".pyi")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
