"""Packages that extend TileOPs, as a stranger meets them: `make examples` runs this.

In a fresh environment with the built wheel of TileOPs, each package of `examples/` and one of
every kind that `tileops new` writes is installed alone; its tests run, those that TileOPs generates
for the ops that it brings or serves, and the commands that its README tells. At the end all are
installed together, and `tileops doctor` looks at them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SERVED = ("RMSNormFwdOp", "GemmFwdOp", "SiluAndMulFwdOp", "SharedExpertMLPFwdOp")
"""What the target of the example backend serves, whole or by stages."""
KINDS = (
    ("backend", ("RMSNormFwdOp",), "ACME_BACKEND_ON"),
    ("kernel", ("RMSNormFwdOp",), None),
    ("op", ("acme_op",), None),
    ("pack", ("acme_pack",), None),
)
"""What `tileops new` writes, whose generated tests it passes, and what turns it on."""


class Package(NamedTuple):
    """A package to install: its folder, whose generated tests it passes, and what turns it on."""

    folder: Path
    tested: tuple[str, ...]
    switch: str | None = None


class Environment:
    """A virtual environment that holds TileOPs' wheel and pytest.

    Args:
        folder: where it is made.
        torch: what to install as PyTorch, with pip's options.
    """

    def __init__(self, folder: Path, torch: Sequence[str]) -> None:
        self.scripts = folder / "bin"
        venv.create(folder, with_pip=True, symlinks=True)
        self.pip("install", *torch)
        self.pip("install", str(built_wheel(folder.parent)), "pytest>=9", "setuptools>=77", "numpy")

    def pip(self, *arguments: str) -> None:
        """Run pip; its output shows when it fails."""
        run([str(self.scripts / "python"), "-m", "pip", "-q", *arguments], ROOT)

    def pytest(self, folder: Path, *arguments: str, **settings: str) -> None:
        """Run pytest in a folder, with settings in its environment; a warning is an error."""
        command = ["python", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
        run([str(self.scripts / command[0]), *command[1:], *arguments], folder, **settings)

    def tileops(self, *arguments: str) -> None:
        """Run the command line."""
        run([str(self.scripts / "tileops"), *arguments], ROOT)

    def install(self, *folders: Path) -> None:
        """Install packages from their sources."""
        self.pip("install", "--no-deps", "--no-build-isolation", *map(str, folders))


def run(command: Sequence[str], folder: Path, **settings: str) -> None:
    """Run a command; print what it said and leave when it fails."""
    environment = {**os.environ, **settings, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"failed with {done.returncode}: {shlex.join(command)}")
        sys.exit(f"{done.stdout}{done.stderr}")


def built_wheel(folder: Path) -> Path:
    """A wheel of TileOPs, built from a copy so that nothing is left in the checkout."""
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tree)
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", "dist", "."], tree)
    (wheel,) = (tree / "dist").glob("*.whl")
    return wheel


def packages(environment: Environment, folder: Path) -> Iterator[Package]:
    """The examples, copied, and what `tileops new` writes."""
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    yield Package(folder / "tileops-example-pack", ("tileops_example_pack",))
    yield Package(folder / "tileops-example-kernel", ("GemmFwdOp",))
    yield Package(folder / "tileops-example-backend", SERVED, "TILEOPS_EXAMPLE_BACKEND")
    for kind, tested, switch in KINDS:
        environment.tileops("new", kind, f"acme-{kind}", "--into", str(folder))
        yield Package(folder / f"acme-{kind}", tested, switch)


def check(environment: Environment, package: Package) -> None:
    """Install a package alone, run its tests and the generated ones, and remove it."""
    environment.install(package.folder)
    environment.pytest(package.folder)
    settings = {package.switch: "1"} if package.switch else {}
    environment.pytest(package.folder, "--tileops-ops", *package.tested, **settings)
    for command in told(package.folder / "README.md"):
        environment.tileops(*command)
    environment.pip("uninstall", "-y", package.folder.name)


def told(readme: Path) -> Iterator[list[str]]:
    """The arguments of each `tileops` command that a README tells to run."""
    blocks = readme.read_text(encoding="utf-8").split("```sh\n")[1:]
    for line in (line for block in blocks for line in block.partition("```")[0].splitlines()):
        if line.startswith("tileops "):
            yield shlex.split(line)[1:]


def main() -> None:
    """Check every package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="torch", help="what to install as PyTorch")
    torch = shlex.split(parser.parse_args().torch)
    with tempfile.TemporaryDirectory(prefix="tileops-packages.") as name:
        started = time.monotonic()
        environment = Environment(Path(name) / "environment", torch)
        print(f"environment made in {time.monotonic() - started:.0f} s", flush=True)
        found = []
        for package in packages(environment, Path(name) / "packages"):
            started = time.monotonic()
            check(environment, package)
            found.append(package.folder)
            print(f"{package.folder.name}: {time.monotonic() - started:.0f} s", flush=True)
        environment.install(*found)
        environment.tileops("doctor")
    print("packages: all installed and passed")


if __name__ == "__main__":
    main()
