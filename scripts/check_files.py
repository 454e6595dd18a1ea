"""Rules for all files of the repository that no other tool holds.

No trailing blanks, no merge marks, a newline at the end, YAML that parses, nothing large.
`make lint`, the pre-commit hook and CI run this one script. It rewrites nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (".ci", "benchmarks", "changelog.d", "docs", "scripts", "src", "tests")
MALFORMED = ROOT / "tests" / "spec_cases" / "files"  # YAML that is wrong on purpose
LARGEST = 512 * 1024  # bytes
MEASURED = ROOT / "benchmarks" / "results"  # every row that was measured, and the page of them
LARGEST_MEASURED = 8 * LARGEST
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".sh", ".cfg", ".json", ".csv", ""}
MERGE_MARK = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
TRAILING_BLANK = re.compile(r"[ \t]+$", re.MULTILINE)


def repository_files() -> list[Path]:
    """Every file of the project, without what tools leave behind."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(
        path
        for path in found
        if not any(part == "__pycache__" or part.endswith(".egg-info") for part in path.parts)
    )


def faults_of(path: Path) -> Iterator[str]:
    """What is wrong with one file."""
    data = path.read_bytes()
    largest = LARGEST_MEASURED if MEASURED in path.parents else LARGEST
    if len(data) > largest:
        yield f"{len(data)} bytes, more than {largest}"
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
    if path.suffix in {".yaml", ".yml"} and MALFORMED not in path.parents:
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
