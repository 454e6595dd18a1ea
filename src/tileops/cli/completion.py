"""Print what makes a shell complete commands, options, names of ops, families and labels of rows.

  bash   eval "$(tileops completion bash)"      in ~/.bashrc
  zsh    eval "$(tileops completion zsh)"       in ~/.zshrc, after compinit
  fish   tileops completion fish | source       in ~/.config/fish/config.fish

With words, the last of them unfinished, print what may stand for it: the shells ask so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from tileops.cli.commands import COMMANDS
from tileops.cli.parser import parser_of

SCRIPTS = {
    "bash": """\
_tileops() {
    local IFS=$'\\n'
    COMPREPLY=($(tileops completion bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _tileops tileops
""",
    "zsh": """\
_tileops() {
    local -a found
    found=("${(@f)$(tileops completion zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _tileops tileops
""",
    "fish": """\
function __tileops
    set -l words (commandline -opc) (commandline -ct | string collect --allow-empty)
    tileops completion fish $words[2..-1] 2>/dev/null
end
complete -c tileops -a '(__tileops)'
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help=", ".join(SCRIPTS))
    words = parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="WORD", help="what was typed after `tileops`"
    )
    words.required = False  # Python takes the rest of a line for required, also where there is none


def run(args: argparse.Namespace) -> int:
    """Print the script, or what may stand for the last word."""
    text = "\n".join(candidates(args.words)) if args.words else SCRIPTS[args.shell].rstrip("\n")
    if text:
        print(text)
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What may stand for the last word; none where it may be anything.

    Args:
        words: what was typed after the program's name.
    """
    *before, word = words
    if not before:
        found: Iterable[str] = [*COMMANDS, "--help", "--version"]
    elif before[0] not in COMMANDS:
        found = ()
    else:
        found = _following(before, word)
    return [each for each in found if each.startswith(word)]


def _following(before: Sequence[str], word: str) -> Iterable[str]:
    """What may follow words of a command."""
    actions = parser_of(before[0]).actions()
    by_option = {name: action for action in actions for name in action.option_strings}
    asked = by_option.get(before[-1])
    if asked is not None and asked.nargs != 0:
        return _values(asked, before)
    if word.startswith("-"):
        return by_option
    return [value for each in actions if not each.option_strings for value in _values(each, before)]


def _values(action: argparse.Action, before: Sequence[str]) -> Iterable[str]:
    """The values that an argument may have, where they are known."""
    if action.choices is not None:
        return map(str, action.choices)
    if action.metavar == "OP":
        return _op_names()
    match action.dest:
        case "family":
            return _families()
        case "device":
            return ("cpu", "cuda")
        case "dtype":
            return _dtypes()
        case "rows":
            return _labels(before)
    return ()


def _op_names() -> list[str]:
    from tileops._core.spec import registry

    return sorted(registry.specs())


def _families() -> list[str]:
    from tileops._core.spec import registry

    return sorted({str(spec.get("family")) for spec in registry.specs().values()})


def _dtypes() -> list[str]:
    from tileops._core.lang.dtypes import BITS

    return sorted(BITS)


def _labels(before: Sequence[str]) -> list[str]:
    """Labels of the rows of the op that is named before."""
    from tileops._core.spec import registry
    from tileops.cli.specs import row_labels

    specs = (registry.lookup(name) for name in before[1:] if name in registry.specs())
    return [label for spec in specs if spec for label in row_labels(spec)]
