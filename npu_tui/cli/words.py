"""Words about the program: findings explained, keys, settings, schemas, help and version."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npu_tui import __version__
from npu_tui.cli.options import THEMES, known_settings, read_settings, threshold_rows, thresholds_of
from npu_tui.cli.parser import COMMANDS, Parser, nearest_word, parser_of
from npu_tui.cli.streams import (
    DONE,
    USAGE,
    add_format,
    add_schema,
    format_of,
    hand_over,
    refuse,
    tell,
    write,
    write_pages,
)
from npu_tui.manual import TOPICS, drawn, page
from npu_tui.settings import GLYPHS, LANGUAGE_NAMES, SettingsError, load_settings, settings_path, settings_text
from npu_tui.strings import ENGLISH, language, say, speak
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    from npu_tui.tui.commands import Where


def explain_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui explain``."""
    parser.add_argument("id", nargs="*", metavar="ID", help=say("cli.explain_id"))
    add_format(parser, say("cli.format"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))


def run_explain(parser: Parser, options: argparse.Namespace) -> int:
    """Explain the finding or the word that ``options`` name, or list all; returns the exit code."""
    from npu_tui.output.explain import (
        WIDTH,
        explain_document,
        findings_document,
        kind_of,
        meant,
        meant_document,
        unknown,
    )
    from npu_tui.output.text import ALL, text
    from npu_tui.output.text import WIDTH as TEXT_WIDTH

    form, wanted = format_of(parser, options), " ".join(options.id)
    thresholds = thresholds_of(options.config)
    kind, found = kind_of(wanted), meant(wanted)
    if form == "json":
        from npu_tui.output.explain import explained
        from npu_tui.output.statement import Statement

        rows = explained([kind] if kind else found.kinds if wanted else None, [] if kind else found.words, thresholds)
        tell(parser, options, Statement(rows, (), lambda form: findings_document()), form)
        return DONE
    if not wanted:
        document = findings_document()
    elif kind is not None:
        document = explain_document(kind, thresholds)
    elif found.words or found.kinds or found.commands:
        document = meant_document(found, wanted, _keys_of)
    else:
        parser.error(unknown(wanted))
    if form == "text":
        hand_over(text(document, ALL, WIDTH if wanted else TEXT_WIDTH), options.output)
    else:
        from npu_tui.output.statement import written_document

        hand_over(written_document(document, form, ALL), options.output)
    return DONE


def _keys_of(commands: Sequence[str]) -> list[tuple[str, str]]:
    """The keys of ``commands`` and what they do."""
    from npu_tui.tui.commands import BY_ID, keys_label

    if commands and read_settings() is None:
        return []
    return [(keys_label(BY_ID[command]), BY_ID[command].title) for command in commands]


def run_keys(parser: Parser, options: argparse.Namespace) -> int:
    """Print the table of keys; returns the exit code."""
    from npu_tui.tui.commands import text_table

    if read_settings() is None:
        return USAGE
    write(text_table())
    return DONE


def settings_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui settings``."""
    parser.add_argument("--check", action="store_true", help=say("cli.settings.check"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))


def run_settings(parser: Parser, options: argparse.Namespace) -> int:
    """Print a settings file with every default, or check the one in use."""
    if not options.check:
        from npu_tui.tui.commands import COMMANDS as KEY_COMMANDS
        from npu_tui.tui.commands import key_in_ascii

        rows = [(command.id, tuple(map(key_in_ascii, command.default_keys)), command.title) for command in KEY_COMMANDS]
        write(settings_text(rows, THEMES, threshold_rows()))
        return DONE
    from npu_tui.tui.keymap import use_settings

    try:
        found = load_settings(options.config, known_settings())
        remarks = use_settings(found)
    except SettingsError as error:
        return refuse(error, USAGE)
    write("".join(f"{remark}\n" for remark in remarks))
    key = "cli.settings.none" if found.path is None else "cli.settings.good"
    write(say(key, path=printable(str(found.path or settings_path()))) + "\n")
    return DONE


_SETTINGS = "settings"


def schema_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui schema``."""
    from npu_tui.output.envelope import REPORTS

    names = (*REPORTS, _SETTINGS)
    parser.add_argument(
        "name", nargs="?", choices=names, metavar="NAME", help=say("cli.schema", names=", ".join(names))
    )
    add_schema(parser)


def run_schema(parser: Parser, options: argparse.Namespace) -> int:
    """Print one schema, or the names of all; returns the exit code."""
    speak(ENGLISH)
    import orjson

    from npu_tui.output.envelope import REPORTS, report_schema, settings_schema
    from npu_tui.tui.commands import COMMANDS as KEY_COMMANDS

    if options.name is None:
        write("\n".join((*REPORTS, _SETTINGS)) + "\n")
        return DONE
    if options.name == _SETTINGS:
        schema = settings_schema(
            {command.id: command.title for command in KEY_COMMANDS},
            {"language": LANGUAGE_NAMES, "glyphs": GLYPHS, "theme": THEMES},
            {name: (default, text) for name, default, text in threshold_rows()},
        )
    else:
        schema = report_schema(options.name, options.schema)
    write(orjson.dumps(schema, option=orjson.OPT_INDENT_2) + b"\n")
    return DONE


_KEYS: tuple[tuple[str, Where], ...] = (("{keys}", "lanes"), ("{job_keys}", "job"), ("{list_keys}", "picker"))
"""What stands for a table of keys in a page, and of which screen."""


def help_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui help``."""
    parser.add_argument(
        "topic", nargs="?", default="", metavar="TOPIC", help=say("cli.topic", topics=", ".join(TOPICS))
    )


def _is_explained(word: str) -> bool:
    from npu_tui.output.explain import kind_of, meant

    found = meant(word)
    return kind_of(word) is not None or bool(found.words or found.kinds or found.commands)


def run_help(parser: Parser, options: argparse.Namespace) -> int:
    """Show the page that ``options`` name, the help of the command, or both; without a word that of the program.

    Returns the exit code.
    """
    topic = options.topic
    if topic and topic not in (*COMMANDS, *TOPICS):
        nearest = nearest_word(topic, (*COMMANDS, *TOPICS))
        command = f"help {nearest}" if nearest else f"explain {topic}" if _is_explained(topic) else ""
        parser.error(say("cli.no_topic", word=topic) + (say("cli.meant", nearest=command) if command else ""))
    told = _page(topic) if topic in TOPICS else ""
    if told is None:
        return USAGE
    if topic in COMMANDS or not topic:
        told += parser_of(topic).format_help()
    write_pages(told)
    return DONE


def _page(topic: str) -> str | None:
    """The page about ``topic``, None where it has keys from settings that cannot be read."""
    text = page(topic, language())
    if any(mark in text for mark, _ in _KEYS):
        from npu_tui.tui.commands import markdown_table

        if read_settings() is None:
            return None
        for mark, screen in _KEYS:
            text = text.replace(mark, markdown_table(screen))
    if topic in COMMANDS:
        text += "\n"
    return drawn(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text


def version_line() -> str:
    """The name and version of the program, and what reads traces on this machine."""
    from npu_tui.native.library import library

    found = library()
    return say("cli.version", version=__version__, scanner=say("cli.no_scanner") if found is None else found.name)


def run_version(parser: Parser, options: argparse.Namespace) -> int:
    """Print the version; returns the exit code."""
    write(version_line() + "\n")
    return DONE
