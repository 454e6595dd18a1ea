"""Console blocks of documents: each command runs, and prints what stands below it.

`…` stands for anything. A package that a document installs is announced as an installation would,
beside its folder; nothing is put into the environment of the tests.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pages import ROOT

HEADER = re.compile(r'\[project\.entry-points\."?(?P<group>[\w.]+)"?\]\n(?P<lines>(?:.+\n)*)')
MODULES = {
    "tileops": ("-m", "tileops"),
    "pytest": ("-m", "pytest", "-p", "tileops.testing.plugin", "-p", "no:cacheprovider"),
    "python": (),
}
"""What commands are here: modules of the interpreter that runs the tests."""


def run_session(body: str, source: Path = ROOT / "src") -> None:
    """Run the commands of a block in the current folder, and compare what they print.

    `source` is where TileOPs is imported from.
    """
    for command, expected in commands(body):
        if command == "pip install -e .":
            announce(Path.cwd())
            continue
        done = subprocess.run(
            here(command), shell=True, check=False, env=surroundings(source), timeout=300,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        pattern = ".*?".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), (command, done.stdout)


def commands(body: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with what it shall print."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected.strip()


def here(command: str) -> str:
    """The command line that runs a command with the interpreter of the tests."""
    name, *words = shlex.split(command)
    return shlex.join([sys.executable, *MODULES[name], *words]) if name in MODULES else command


def surroundings(source: Path) -> dict[str, str]:
    """The environment of a command: TileOPs and what lies in the folder can be imported."""
    path = os.pathsep.join([str(Path.cwd()), str(source)])
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # ours is named, also where it is installed
    return {**os.environ, **alone, "PYTHONPATH": path, "COLUMNS": "100"}


def announce(folder: Path) -> None:
    """What an installation of the package in a folder leaves for others to find."""
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    installed = folder / "installed-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 0.1.0\n")
    points = [f"[{point['group']}]\n{point['lines']}" for point in HEADER.finditer(text)]
    (installed / "entry_points.txt").write_text("".join(points).replace('"', ""))
