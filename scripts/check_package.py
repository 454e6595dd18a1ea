"""What is published, as a stranger gets it: `make package` runs this.

The source distribution and the wheel are built twice from copies whose files have other times, and
have to be the same bytes; `twine` and `check-wheel-contents` look at them. In every Python from
3.10 to 3.13 that is here, the wheel is installed into a fresh environment, compiled, and asked by
commands that need no torch. In one that sees torch it runs ops, with TileLang and without.

`--torch REQUIREMENT` installs torch into each of these environments, too, and runs ops in all of
them, first without TileLang and then with it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
EPOCH = "1735689600"
"""The time that the archives carry while they are compared."""
ASKED = (
    ("--version",),
    ("list", "--status", "implemented"),
    ("schema",),
    ("completion", "bash", "run", "RMSNorm"),
)
"""Commands that need no torch."""
TRIED = """
import torch
from tileops.norm import RMSNormFwdOp
x = torch.randn(4, 64)
ours, theirs = RMSNormFwdOp([64])(x), torch.nn.functional.rms_norm(x, [64])
torch.testing.assert_close(ours, theirs)
"""


def run(command: Sequence[str | Path], folder: Path, **settings: str) -> str:
    """What a command prints; leave with all that it said when it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    environment |= {"OMP_NUM_THREADS": "1", **settings}
    texts = list(map(str, command))
    done = subprocess.run(
        texts, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {shlex.join(texts)}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path, name: str, age: int) -> dict[str, Path]:
    """Both archives by their names, built from a copy whose files are so many seconds old."""
    tree, out = folder / name, folder / f"{name}-dist"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"):
        shutil.copy(ROOT / file, tree)
    then = time.time() - age
    for path in tree.rglob("*"):
        os.utime(path, (then, then))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, "."]
    run(command, tree, SOURCE_DATE_EPOCH=EPOCH)
    return {path.name: path for path in out.iterdir()}


def require_equal(first: Mapping[str, Path], second: Mapping[str, Path]) -> None:
    """Leave when the same sources gave other bytes."""
    digests = [
        {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in archives.items()}
        for archives in (first, second)
    ]
    if digests[0] != digests[1]:
        sys.exit(f"the archives differ from build to build: {digests}")


def pythons() -> Iterator[str]:
    """An interpreter of each minor release that is here, on the path or among pyenv's."""
    for version in PYTHONS:
        kept = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
        candidates = [shutil.which(f"python{version}"), *map(str, sorted(kept))]
        found = next((each for each in candidates if each and release(each) == version), None)
        if found:
            yield found


def release(program: str) -> str:
    """The minor release of an interpreter; nothing where it does not run."""
    told = [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(told, capture_output=True, text=True, check=False).stdout.strip()


def environment(program: str, folder: Path, wheel: Path, torch: Sequence[str]) -> Path:
    """The scripts of a fresh environment that holds the wheel, and torch if it is asked for."""
    run([program, "-m", "venv", "--without-pip", folder], folder.parent)
    scripts = folder / "bin"
    if torch:
        install(scripts, *torch)
        install(scripts, wheel, "numpy")  # without numpy torch warns at import
    else:
        install(scripts, "--no-deps", wheel, "PyYAML")
    (package,) = folder.glob("lib/*/site-packages/tileops")
    run([scripts / "python", "-m", "compileall", "-q", package], folder)
    for arguments in ASKED:
        run([scripts / "tileops", *arguments], folder)
    return scripts


def install(scripts: Path, *requirements: str | Path) -> None:
    """Install into an environment, which has no pip of its own."""
    pip = [sys.executable, "-m", "pip", "-q", "--python", scripts / "python", "install"]
    run([*pip, *requirements], scripts.parent)


def try_ops(scripts: Path, *, tilelang: bool) -> None:
    """Call an op, judge rows by the command line, and have it say what is there."""
    folder = scripts.parent
    run([scripts / "python", "-W", "error", "-c", TRIED], folder)
    row = ("run", "RMSNormFwdOp", "--row", "head-norm-no-weight")
    run([scripts / "tileops", *row], folder)
    told = run([scripts / "tileops", "doctor"], folder)
    if ("TileLang is missing" in told) is tilelang:
        sys.exit(f"doctor does not say whether TileLang is there:\n{told}")


def share(scripts: Path, *, tilelang: bool) -> None:
    """Let a fresh environment of this Python see what this one has installed, or all but one."""
    ours = Path(sysconfig.get_path("purelib"))
    shown = scripts.parent / ("with" if tilelang else "without")
    shown.mkdir()
    for path in ours.iterdir():
        is_ours = path.name.startswith(("tileops", "__editable__"))
        if not is_ours and (tilelang or not path.name.startswith("tilelang")):
            (shown / path.name).symlink_to(path)
    (theirs,) = scripts.parent.glob("lib/*/site-packages")
    (theirs / "shared.pth").write_text(f"{shown}\n", encoding="utf-8")


def install_in(program: str, folder: Path, wheel: Path, torch: Sequence[str]) -> str:
    """Install and run in one Python; its name."""
    scripts = environment(program, folder, wheel, torch)
    if torch:
        try_ops(scripts, tilelang=False)
        install(scripts, f"{wheel}[cuda]")
        try_ops(scripts, tilelang=True)
    return f"Python {folder.name}"


def main() -> None:
    """Build, compare, check, install and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="", help="install this torch, with pip's options")
    torch = shlex.split(parser.parse_args().torch)
    with tempfile.TemporaryDirectory(prefix="tileops-package.") as name:
        folder = Path(name)
        first = built(folder, "first", age=0)
        require_equal(first, built(folder, "second", age=86400))
        (wheel,) = (path for path in first.values() if path.suffix == ".whl")
        run([sys.executable, "-m", "twine", "check", "--strict", *first.values()], folder)
        contents = "check_wheel_contents"
        package = ["--package", ROOT / "src" / "tileops"]
        run([sys.executable, "-m", contents, *package, wheel], ROOT)
        print(f"built twice, the same bytes: {', '.join(sorted(first))}", flush=True)
        with ThreadPoolExecutor(2) as pool:
            places = {program: folder / release(program) for program in pythons()}
            waiting = [
                pool.submit(install_in, p, place, wheel, torch) for p, place in places.items()
            ]
            print(f"installed and run: {', '.join(each.result() for each in waiting)}", flush=True)
        scripts = environment(sys.executable, folder / "shared", wheel, ())
        for tilelang in (True, False):
            share(scripts, tilelang=tilelang)
            try_ops(scripts, tilelang=tilelang)
        print("ops run with TileLang and without", flush=True)


if __name__ == "__main__":
    main()
