"""Files of a tree are parsed as far as questions need it, with the same answers as all at once."""

from __future__ import annotations

from importlib.resources import files

import pytest

from tileops import FAMILIES
from tileops._core.spec import tree
from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.source import Source
from tileops._core.spec.tree import Tree

SPEC = "{name}: {{signature: {{inputs: {{x: {{dtype: float32, shape: '[2]'}}}}, outputs: {{}}}}}}\n"


@pytest.fixture
def parsed(monkeypatch):
    """Notes the label of each file that is parsed."""
    labels = []

    def watched(label, file, family):
        labels.append(label)
        return read(label, file, family)

    read = tree.tree_content
    monkeypatch.setattr(tree, "tree_content", watched)
    return labels


@pytest.fixture
def pair(tmp_path):
    """A tree of two families; both define `Twice`."""
    for family, names in {"alpha": ("One", "Twice"), "beta": ("Twice", "Two")}.items():
        (tmp_path / family).mkdir()
        text = "".join(SPEC.format(name=name) for name in names)
        (tmp_path / family / "spec.yaml").write_text(text, encoding="utf-8")
    return Manifest(tree=Tree(tmp_path, ["beta", "alpha"]))


def test_names_at_the_beginnings_of_lines_are_all_names():
    for file in Tree(files("tileops"), FAMILIES)._files:
        content = file.content
        expected = {"adts"} if file.label.endswith("/types.yaml") else set(content.specs)
        assert file.names == expected, file.label


def test_look_up_parses_the_file_that_defines_the_name(pair, parsed):
    assert pair.lookup("Two").name == "Two"
    assert pair.lookup("Three") is None
    assert parsed == ["beta/spec.yaml"]
    assert pair.lookup("Twice").location.file == "alpha/spec.yaml"
    assert pair.names == ("One", "Twice", "Two")
    assert sorted(parsed) == ["alpha/spec.yaml", "beta/spec.yaml"]


def test_problems_are_those_of_all_files(pair):
    (found,) = pair.problems
    assert found.finding.message.endswith("Twice is already defined in alpha/spec.yaml")
    assert pair.problems == (found,)


def test_what_is_added_comes_after_the_tree_and_cannot_replace_it(pair, parsed):
    specs = {"Two": {"signature": {}}, "Three": {"signature": {}}}
    more = pair.adding([mapping_content(specs, Source("more", None))])
    assert parsed == ["beta/spec.yaml"]
    assert more.origin("Two") == "beta/spec.yaml"
    assert more.origin("Three") == "more"
    assert more.names == ("One", "Twice", "Two", "Three")
    assert [found.finding.op for found in more.problems] == ["beta/spec.yaml", "more"]
    assert pair.names == ("One", "Twice", "Two")
    assert more.without({"Three"}).names == pair.names


def test_file_that_cannot_be_read_defines_nothing(tmp_path):
    (tmp_path / "alpha" / "spec" / "folder.yaml").mkdir(parents=True)
    known = Manifest(tree=Tree(tmp_path, ["alpha"]))
    assert known.lookup("One") is None
    assert len(known.problems) == 1


def test_types_are_found_without_the_specs(parsed):
    known = Manifest(tree=Tree(files("tileops"), FAMILIES))
    assert known.adt_table
    assert all(label.endswith("/types.yaml") for label in parsed)
