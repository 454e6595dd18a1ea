"""Runs the tests of the signature language and demands that each of its sentences was said.

    python scripts/check_messages.py [PYTEST ARGUMENT …]

A sentence is a text with a blank in it that a function of the modules below makes: what an error
or a finding tells. Each is marked while the modules are compiled, with no file touched, and the
tests run in this process. Those that no test made are listed with their places, and the run fails.
Sentences that stand in tables at module level are made on import; their tests are in the corpus.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
AREAS = ("lang", "spec", "signature", "workload", "validate", "runtime", "boundary")
PRINTERS = ("boundary.source", "boundary.warm")
"""Modules of the areas whose texts are source that they print, no sentences."""
TESTS = (
    "tests/unit",
    "tests/signature",
    "tests/spec_cases",
    "tests/docs/test_finding_codes.py",
    "tests/op/test_calls.py",
    "tests/op/test_code_against_spec.py",
    "tests/op/test_code_without_calls.py",
    "tests/op/test_copies.py",
    "tests/op/test_definition.py",
    "tests/op/test_explain.py",
    "tests/op/test_gradient.py",
    "tests/op/test_held_gradients.py",
    "tests/op/test_strange_arguments.py",
    "tests/op/test_unbacked.py",
    "tests/op/test_compile.py::test_vmap_is_refused",
    "tests/packs/test_owners.py",
    # What only random data made would be made by chance.
    "--ignore=tests/signature/test_random_signatures.py",
    "--ignore=tests/unit/lang/test_properties.py",
)
MARK = "_made_by_a_test"


class Sentence(NamedTuple):
    """A text that a function makes, and where it stands."""

    path: str
    line: int
    text: str


class Marking(ast.NodeTransformer):
    """Wraps the sentences of functions into calls that tell they were made."""

    def __init__(self, path: str, found: list[Sentence]) -> None:
        self._path = path
        self._found = found
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Mark the body; the docstring, the defaults and the annotations are no sentences."""
        if node.name == "__repr__":
            return node
        self._depth += 1
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body[start:] = [self.visit(statement) for statement in node.body[start:]]
        self._depth -= 1
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Mark the value, not the annotation."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave the first argument of `cast`, which is a type."""
        return node if getattr(node.func, "id", "") == "cast" else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Leave assertions: they speak to us."""
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Leave the assertions that are raised."""
        raised = getattr(node.exc, "func", None)
        return node if getattr(raised, "id", "") == "AssertionError" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Mark a text with a blank in it."""
        return self._marked(node, [node])

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Mark a text with a blank in it, and those inside its braces."""
        parts = [part for part in node.values if isinstance(part, ast.Constant)]
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        return self._marked(node, parts)

    def _marked(self, node: Any, parts: Sequence[ast.Constant]) -> ast.AST:
        texts = [part.value for part in parts if isinstance(part.value, str)]
        words = "…".join(texts)
        if not self._depth or " " not in words.strip() or not any(map(str.isalpha, words)):
            return node
        number = ast.Constant(len(self._found))
        self._found.append(Sentence(self._path, node.lineno, words))
        call = ast.Call(ast.Name(MARK, ast.Load()), [number, node], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


class Loader(SourceFileLoader):
    """Loads a module with its sentences marked; nothing is read from or kept in a cache."""

    def __init__(self, name: str, path: str, found: list[Sentence]) -> None:
        super().__init__(name, path)
        self._found = found

    def get_code(self, fullname: str) -> CodeType:
        """Compile the marked tree of the module's text."""
        tree = ast.parse(self.get_data(self.path), self.path)
        place = str(Path(self.path).relative_to(ROOT))
        return compile(
            Marking(place, self._found).visit(tree), self.path, "exec", dont_inherit=True
        )


class Finder:
    """Finds the modules whose sentences count, and no others."""

    def __init__(self) -> None:
        self.found: list[Sentence] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of the areas."""
        inside = name.removeprefix("tileops._core.")
        if inside == name or not inside.startswith(AREAS) or inside in PRINTERS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = Loader(name, spec.origin, self.found)
        return spec


def main(arguments: list[str]) -> int:
    """Run the tests; 0 where all pass and every sentence, of which there are some, was made."""
    import pytest

    finder, made = Finder(), set[int]()

    def mark(number: int, text: str) -> str:
        made.add(number)
        return text

    setattr(builtins, MARK, mark)
    sys.path.insert(0, str(ROOT / "src"))
    sys.meta_path.insert(0, finder)
    os.chdir(ROOT)
    # Plain assertions: to rewrite them pytest would load the package, a plugin of it, by itself.
    options = ("-q", "-p", "no:cacheprovider", "--assert=plain")
    code = pytest.main([*options, *(arguments or TESTS)])
    silent = [s for number, s in enumerate(finder.found) if number not in made]
    for sentence in sorted(silent):
        print(f"{sentence.path}:{sentence.line}: no test makes {sentence.text!r}")
    print(f"{len(finder.found)} sentences, {len(silent)} of them made by no test")
    return int(code) or int(bool(silent) or not finder.found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
