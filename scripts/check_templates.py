"""Type-checks and lints the packages that `tileops new` writes, as strictly as our own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tileops.cli.new import KINDS, rendered

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Write a package of each kind and have it checked."""
    with tempfile.TemporaryDirectory(prefix="tileops-templates.") as name:
        folder = Path(name)
        packages = [folder / f"acme-{kind}" for kind in KINDS]
        for kind, package in zip(KINDS, packages, strict=True):
            for path, text in rendered(kind, package.name).items():
                (package / path).parent.mkdir(parents=True, exist_ok=True)
                (package / path).write_text(text, encoding="utf-8")
        sources = [str(package / "src") for package in packages]
        settings = {"MYPYPATH": os.pathsep.join(["src", *sources])}
        check(["mypy", "--follow-imports=silent", *sources], settings)
        check(["ruff", "format", "--check", "--config", "pyproject.toml", str(folder)], {})
    print("templates: all packages are in form")


def check(tool: list[str], settings: dict[str, str]) -> None:
    """Run a tool in the checkout; leave when it finds something."""
    done = subprocess.run(
        [sys.executable, "-m", *tool],
        cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
