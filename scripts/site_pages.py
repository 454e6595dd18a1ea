"""What the site holds besides `docs/`: MkDocs calls the functions named `on_…` while it builds.

Documents at the root of the tree become pages, README.md the first. A link from a document to any
other file of the tree leads to a page that shows this file. Fences carry words for the tests
(`file NAME`, `append FILE`, `raises ERROR`), which become titles. Diagrams of imports become
tables, since what draws them would be fetched from elsewhere. Long names in tables may be broken
between their parts. Links and fences in the documents
stay as they read best in the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs/"
PLACES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "design/architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
ORIGINS = {place: document for document, place in PLACES.items()}
LINK = re.compile(r"(?<=\]\()(?P<target>(?!\w+:)[^)#\s]+)")
FENCE = re.compile(r"^```(?P<language>\w+) (?P<words>.+)$", re.MULTILINE)
ROW = re.compile(r"^\|.*\\\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")
CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)
NAME = re.compile(r"(?<=<code>)[^<\s]{16,}(?=</code>)")
PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[_./:])(?=\w)")
DIAGRAM = re.compile(r"^```mermaid\nflowchart TD\n(?P<arrows>.*?)^```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".md": "markdown", ".json": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the root, and the files that documents lead to."""
    for document, place in PLACES.items():
        text = (ROOT / document).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    for target in sorted({target for origin in documents() for target in sources(origin)}):
        files.append(File.generated(config, place_of(target), content=source_page(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of a page as the site needs it."""
    here = page.file.src_uri
    if page.parent is None:  # it has no neighbours that a list beside it could name
        page.meta["hide"] = ["navigation"]
    origin = ORIGINS.get(here, DOCS + here)

    def moved(match: re.Match[str]) -> str:
        target = resolved(origin, match["target"])
        return relpath(place_of(target), str(Path(here).parent)) if target else match["target"]

    shown = DIAGRAM.sub(table_of, LINK.sub(moved, markdown))
    return ROW.sub(barred, FENCE.sub(titled, shown))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The page as it is written; what is searched has no marks within names."""
    return CELL.sub(lambda cell: NAME.sub(parted, cell[0]), output)


def parted(name: re.Match[str]) -> str:
    """A long name that may be broken before each of its parts, and nowhere else."""
    return PARTS.sub("<wbr>", name[0])


def documents() -> Iterator[str]:
    """The documents by their paths in the tree."""
    yield from PLACES
    for path in (ROOT / DOCS).rglob("*.md"):
        yield path.relative_to(ROOT).as_posix()


def resolved(origin: str, target: str) -> str | None:
    """The path in the tree that a link in a document leads to; None where there is nothing."""
    path = normpath((Path(origin).parent / target).as_posix())
    return path if (ROOT / path).exists() else None


def sources(origin: str) -> Iterator[str]:
    """The files and folders outside the documentation that a document leads to."""
    for match in LINK.finditer((ROOT / origin).read_text(encoding="utf-8")):
        target = resolved(origin, match["target"])
        if target and target not in PLACES and not target.startswith(DOCS):
            yield target


def place_of(target: str) -> str:
    """Where the site shows a file of the tree."""
    if target.startswith(DOCS):
        target = target.removeprefix(DOCS)
        return target + "/README.md" if (ROOT / DOCS / target).is_dir() else target
    return PLACES.get(target, f"source/{target}.md")


def source_page(path: Path) -> str:
    """A page that shows a file, or all files of a folder."""
    name = path.relative_to(ROOT).as_posix()
    shown = [path] if path.is_file() else sorted(p for p in path.rglob("*") if listed(p))
    blocks = [
        f'````{LANGUAGES.get(file.suffix, "text")} title="{file.relative_to(ROOT).as_posix()}"\n'
        f"{file.read_text(encoding='utf-8')}````\n"
        for file in shown
    ]
    return "\n".join(["---\nsearch: {exclude: true}\n---\n", f"# {name}\n", *blocks])


def listed(path: Path) -> bool:
    """Whether a path is a file that someone wrote."""
    inside = path.relative_to(ROOT).parts
    return path.is_file() and not any(
        part.startswith((".", "__pycache__")) or part.endswith(".egg-info") for part in inside
    )


def titled(fence: re.Match[str]) -> str:
    """A fence whose words for the tests are a title."""
    kind, *rest = fence["words"].split()
    before = {"file": "", "append": "added to ", "raises": "raises "}.get(kind)
    title = "" if before is None else f' title="{before}{" ".join(rest)}"'
    return f"```{fence['language']}{title}"


def barred(row: re.Match[str]) -> str:
    """A row of a table, whose code needs no escapes of bars here; readers of the tree need them."""
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0])


def table_of(diagram: re.Match[str]) -> str:
    """A diagram of imports as a table: who imports whom."""
    rows = ["| importer | imports |", "| --- | --- |"]
    for line in filter(None, map(str.strip, diagram["arrows"].splitlines())):
        importer, _, imported = line.partition(" --> ")
        names = ", ".join(f"`{name}`" for name in imported.split(" & "))
        rows.append(f"| `{importer}` | {names} |")
    return "\n".join(rows)
