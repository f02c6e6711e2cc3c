"""``npu-tui completion``: what makes a shell complete commands, options, paths, findings and tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from npu_tui.commands.parser import Parser, parser_of
from npu_tui.commands.streams import DONE, write
from npu_tui.commands.tree import COMMANDS, EXPLORE, command_first
from npu_tui.manual.pages import TOPICS
from npu_tui.strings import say

_ASK = "--"
"""After it stand the words of a command line, the last one as far as it is typed."""

_FILES = ":files"
"""The line that tells the shell to complete paths."""

_PATHS = frozenset(("PATH", "BASE", "NEW", "FILE", "DIR", "OUT", "OUT.svg"))
_LISTS = frozenset(("IDS", "WHAT"))
"""What takes several words with commas between them."""

_BASH = """\
_npu_tui() {
    local program=${COMP_WORDS[0]} current= before= line k
    local -a words=()
    COMPREPLY=()
    for ((k = 1; k <= COMP_CWORD; k++)); do
        # Readline takes --theme=dark for three words; what is completed is the last one.
        if [[ -n $current && (${COMP_WORDS[k]} == [=:]* || $current == *[=:]) ]]; then
            before=$current current+=${COMP_WORDS[k]}
        else
            (( k > 1 )) && words+=("$current")
            before= current=${COMP_WORDS[k]}
        fi
        [[ $current == *[=:] ]] && before=$current
    done
    while IFS= read -r line; do
        if [[ $line == :files && ${#COMPREPLY[@]} == 0 ]]; then
            compopt -o default
        elif [[ $line == :files ]]; then
            compopt -o filenames
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
        else
            COMPREPLY+=("${line%%$'\\t'*}")
        fi
    done < <("$program" completion -- "${words[@]}" "$current" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -F _npu_tui npu-tui
"""

_ZSH = """\
#compdef npu-tui
_npu_tui() {
    local line files= none=1
    local -a found
    for line in "${(@f)$("${words[1]}" completion -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            files=1
        elif [[ -n $line ]]; then
            found+=("${${${line%%$'\\t'*}//:/\\\\:}}${${line#*$'\\t'}:+:${line#*$'\\t'}}")
        fi
    done
    (( $#found )) && _describe npu-tui found -M 'm:{a-z}={A-Z}' && none=0
    [[ -n $files ]] && _files && none=0
    return none
}
if [[ $funcstack[1] == _npu_tui ]]; then _npu_tui "$@"; else compdef _npu_tui npu-tui; fi
"""

_FISH = """\
function __npu_tui_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] completion -- $words[2..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c npu-tui -f -a '(__npu_tui_complete)'
"""

_SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def run(words: list[str]) -> int:
    """Print the script for the shell that ``words`` name, or what completes the words after ``--``."""
    if words[:1] == [_ASK]:
        write("".join(line + "\n" for line in completed(words[1:])))
        return DONE
    parser = Parser(prog="npu-tui completion", description=say("cli.completion"), epilog=say("cli.completion_epilog"))
    parser.add_argument("shell", choices=tuple(_SHELLS), help=say("cli.shell", names=", ".join(_SHELLS)))
    write(_SHELLS[parser.parse_args(words).shell])
    return DONE


def completed(words: list[str]) -> list[str]:
    """The words that the last of ``words`` may become, each with a tab and what it is; ``:files`` asks for paths."""
    *before, current = words or [""]
    command, rest = command_first(before)
    parser = parser_of(COMMANDS.get(command, EXPLORE))
    options = {name: action for action in parser._actions for name in action.option_strings}
    name, equals, part = current.partition("=")
    if equals and name in options:
        return [line if line == _FILES else f"{name}={line}" for line in _values(options[name], part)]
    if before and (asked := options.get(before[-1])) is not None and asked.nargs != 0:
        return _values(asked, current)
    if current.startswith("-"):
        return _alike(current, ((name, action.help or "") for name, action in options.items()))
    done = _arguments(options, rest)
    commands = [] if command or done else _alike(current, ((name, say(f"tree.{name}")) for name in COMMANDS))
    return commands + _positional(parser, done, current)


def _arguments(options: dict[str, argparse.Action], words: list[str]) -> int:
    """How many of ``words`` are no options and no values of options."""
    values = {k + 1 for k, word in enumerate(words) if word in options and options[word].nargs != 0}
    return sum(not word.startswith("-") and k not in values for k, word in enumerate(words))


def _positional(parser: Parser, done: int, current: str) -> list[str]:
    """What completes ``current`` as an argument without a name, of which ``done`` stand before."""
    named = [action for action in parser._actions if not action.option_strings]
    if not named or (done >= len(named) and named[-1].nargs not in ("*", "+")):
        return []
    return _values(named[min(done, len(named) - 1)], current)


def _values(action: argparse.Action, current: str) -> list[str]:
    """What completes ``current`` as a value of ``action``."""
    if action.choices is not None:
        return _alike(current, ((str(each), "") for each in action.choices))
    metavar = str(action.metavar)
    if metavar in _PATHS:
        return [_FILES]
    first, comma, last = current.rpartition(",") if metavar in _LISTS else ("", "", current)
    return [first + comma + line for line in _alike(last, _known(metavar, action.dest))]


def _known(metavar: str, dest: str) -> Iterable[tuple[str, str]]:
    """The words that a value called ``metavar`` may be, each with what it is."""
    if metavar in ("ID", "IDS"):
        from npu_tui.report.explain import finding_ids

        return ((each, "") for each in finding_ids())
    if metavar == "TOPIC":
        return ((each, "") for each in dict.fromkeys((*TOPICS, *COMMANDS)))
    if metavar == "WHAT":
        return ((each, "") for each in ("high", "medium", "low", "slower", "unsure"))
    if metavar == "TAB":
        from npu_tui.tui.keys.commands import TAB_KEYS

        return ((tab, "") for tab, _ in TAB_KEYS)
    if metavar == "SQL":
        from npu_tui.tables.schema import TABLES

        return ((each, "") for each in TABLES)
    if metavar == "NAME" and dest == "name":
        from npu_tui.demo import demos

        return ((each, "") for each in demos())
    return ()


def _alike(current: str, words: Iterable[tuple[str, str]]) -> list[str]:
    """Those of ``words`` that begin with ``current``, in any case."""
    return [f"{word}\t{' '.join(told.split())}" for word, told in words if word.lower().startswith(current.lower())]
