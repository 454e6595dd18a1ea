"""Rules for all files of the repository that no other tool holds.

No trailing blanks, no merge marks, a newline at the end, YAML that parses, nothing large.
`make lint`, the pre-commit hook and CI run this one script. It rewrites nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 512 * 1024  # bytes
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".sh", ".cfg", ".json", ".csv", ""}
IGNORED = {".git", ".venv", "build", "dist", "__pycache__"}
MERGE_MARK = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
TRAILING_BLANK = re.compile(r"[ \t]+$", re.MULTILINE)


def repository_files() -> list[Path]:
    """Tracked and new files as git sees them; every file below the root where git is absent."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        found = (path for path in ROOT.rglob("*") if not IGNORED.intersection(path.parts))
    else:
        found = (ROOT / name for name in done.stdout.split("\0") if name)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def faults_of(path: Path) -> Iterator[str]:
    """What is wrong with one file."""
    data = path.read_bytes()
    if len(data) > LARGEST:
        yield f"{len(data)} bytes, more than {LARGEST}"
    if path.suffix not in TEXT:
        return
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        yield f"not UTF-8: {error}"
        return
    if text and not text.endswith("\n"):
        yield "no newline at the end"
    for pattern, name in ((TRAILING_BLANK, "trailing blank"), (MERGE_MARK, "merge mark")):
        for match in pattern.finditer(text):
            yield f"line {text.count(chr(10), 0, match.start()) + 1}: {name}"
    if path.suffix in {".yaml", ".yml"}:
        try:
            list(yaml.compose_all(text))
        except yaml.YAMLError as error:
            yield f"not YAML: {error}"


def main() -> int:
    """Print every fault; 1 when there is one."""
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in repository_files()
        for fault in faults_of(path)
    ]
    print("\n".join(faults) or "files: all rules kept")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
