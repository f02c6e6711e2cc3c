"""The user's settings: one TOML file with tables for keys, the screen and the thresholds of findings.

The names that a file may use belong to the rooms that own them, so they are passed in as ``Known`` and this module
imports none of those rooms. It is imported at every start, to look for the file; msgspec only where there is one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from npu_tui.strings import LANGUAGES, say
from npu_tui.trace.side_file import read_regular
from npu_tui.trace.text import brief, printable

ENVIRONMENT = "NPU_TUI_CONFIG"
FILE_NAME = "settings.toml"

GLYPHS = ("auto", "blocks", "safe", "ascii")
KEYS, SCREEN, THRESHOLDS = TABLES = ("keys", "screen", "thresholds")
LANGUAGE_NAMES = ("auto", *LANGUAGES)

_LARGEST, _LARGEST_WHOLE = 1e300, (1 << 63) - 1
"""No threshold means anything beyond them; infinity and whole numbers that no column holds lie there."""

_HEADER = re.compile(r"\s*\[\s*(['\"]?)([^'\"\]]*)\1\s*\]")
_NAME = re.compile(r"\s*(['\"]?)([^'\"=\s]+)\1\s*=")
_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")


class SettingsError(ValueError):
    """Settings that cannot be used; its text is one line: the file, the line where known, what is wrong."""


class Known(NamedTuple):
    """What a settings file may name. A table whose names are not given here is not checked and comes back as it is."""

    commands: Collection[str] | None = None
    themes: Collection[str] | None = None
    thresholds: Mapping[str, bool | int | float] | None = None
    """Each name with its default: a whole number takes whole numbers, a float numbers, a bool bools."""


class Settings(NamedTuple):
    """What the file says; what it leaves out is an empty mapping or None, so that each default has one owner."""

    path: Path | None = None
    """The file that was read; None if there is none."""
    keys: Mapping[str, tuple[str, ...]] = {}
    """``[keys]``: a command id to its keys in place of the default ones; an empty tuple unbinds it."""
    glyphs: str | None = None
    """``[screen] glyphs``: which characters draw the lanes."""
    theme: str | None = None
    """``[screen] theme``: the colours."""
    language: str | None = None
    """``[screen] language``: the language of the texts."""
    thresholds: Mapping[str, bool | int | float] = {}
    """``[thresholds]``: thresholds of findings by name."""
    key_lines: Mapping[str, int] = {}
    """The line of the file that names each command of ``keys``."""


def settings_path(option: str | Path | None = None) -> Path:
    """The settings file: ``option``, else what ``NPU_TUI_CONFIG`` names, else that of the user's config directory."""
    named = option or os.environ.get(ENVIRONMENT)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_config_path

    return user_config_path("npu-tui", appauthor=False) / FILE_NAME


_LONGEST_FILE = 1 << 20


def load_settings(option: str | Path | None = None, known: Known | None = None) -> Settings:
    """The settings of ``settings_path(option)``; empty ones if no file is named and the usual one does not exist.

    Raises ``SettingsError`` for a file that cannot be read, that is no TOML, or that says something unknown.
    """
    path = settings_path(option)
    try:
        raw = read_regular(path, _LONGEST_FILE)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not (option or os.environ.get(ENVIRONMENT)):
            return Settings()
        raise SettingsError(f"{printable(str(path))}: {error.strerror}") from None
    return parse_settings(raw, path, known)


def parse_settings(raw: bytes, path: Path, known: Known | None = None) -> Settings:
    """The settings in ``raw``, the content of the file ``path``. Raises ``SettingsError``."""
    known = known or Known()
    file = _SettingsFile(raw, path)
    keys = {
        name: tuple(dict.fromkeys(value))
        for name, value in file.checked(KEYS, known.commands, "command", lambda name, _: _key_type(name))
    }
    choices = {"language": LANGUAGE_NAMES, "glyphs": GLYPHS, "theme": known.themes}
    screen = dict(file.checked(SCREEN, choices, "screen", lambda name, value: _choice(name, value, choices[name])))
    limits = known.thresholds
    thresholds = file.checked(
        THRESHOLDS, limits, "threshold", lambda name, _: _threshold(name, 0.0 if limits is None else limits[name])
    )
    lines = {name: line for name in keys if (line := file.line_of(KEYS, name))}
    return Settings(path, keys, thresholds=dict(thresholds), key_lines=lines, **screen)


def _key_type(name: str) -> tuple[Any, str]:
    """The type of what ``[keys]`` gives a command, and what to say of anything else; so do the next two."""
    from msgspec import Meta

    return list[Annotated[str, Meta(pattern=r"\S")]], say("settings.no_key", name=name)


def _choice(name: str, value: Any, allowed: Collection[str] | None) -> tuple[Any, str]:
    if allowed is None or not isinstance(value, str):
        return str, say("settings.no_text", name=name)
    words = say("settings.unknown_choice", name=name, value=brief(value), allowed=", ".join(allowed))
    return Literal.__getitem__(tuple(allowed)), words + _nearest(value, allowed)


def _threshold(name: str, default: bool | int | float) -> tuple[Any, str]:
    from msgspec import Meta

    if isinstance(default, bool):
        return bool, say("settings.no_bool", name=name)
    if isinstance(default, int):
        return Annotated[int, Meta(ge=0, le=_LARGEST_WHOLE)], say("settings.no_whole", name=name, default=default)
    return Annotated[float, Meta(ge=0, le=_LARGEST)], say("settings.no_number", name=name, default=default)


class _SettingsFile:
    """The tables of ``raw``, the content of the file ``path``. Raises ``SettingsError`` for what is no TOML."""

    def __init__(self, raw: bytes, path: Path) -> None:
        import msgspec

        self._path = path
        try:
            self._text = raw.decode("utf-8-sig").replace("\r\n", "\n")
            tables: dict[str, Any] = msgspec.toml.decode(self._text)
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise _error(path, line, say("settings.not_utf8", byte=error.start)) from None
        except msgspec.DecodeError as error:
            place = _PLACE.search(str(error))
            words = say("settings.no_toml", words=_PLACE.sub("", str(error)))
            raise _error(path, int(place[1]) if place else None, words) from None
        except RecursionError:
            raise _error(path, None, say("settings.too_deep")) from None
        except ValueError:  # the library leaves it to Python how long a number may be
            raise _error(path, None, say("settings.too_long")) from None
        for name, value in tables.items():
            self._check_name("", name, TABLES, "table")
            if not isinstance(value, dict):
                raise self._wrong("", name, say("settings.no_table", name=name))
        self._tables = tables

    def checked(
        self, table: str, names: Collection[str] | None, what: str, kind: Callable[[str, Any], tuple[Any, str]]
    ) -> Iterator[tuple[str, Any]]:
        """Every name in ``table`` with its value: each is one of ``names`` and of the ``kind`` that it has."""
        from msgspec import ValidationError, convert

        for name, value in self._tables.get(table, {}).items():
            self._check_name(table, name, names, what)
            wanted, words = kind(name, value)
            if table == KEYS and not isinstance(value, list):
                value = [value]  # msgspec 0.22 crashes on a wrong item where the type is a text or a list of texts
            try:
                yield name, convert(value, wanted)
            except ValidationError:
                raise self._wrong(table, name, words) from None

    def _check_name(self, table: str, name: str, names: Collection[str] | None, what: str) -> None:
        if names is not None and name not in names:
            raise self._wrong(table, name, say(f"settings.unknown_{what}", name=brief(name)) + _nearest(name, names))

    def _wrong(self, table: str, name: str, words: str) -> SettingsError:
        return _error(self._path, self.line_of(table, name), words)

    def line_of(self, table: str, name: str) -> int | None:
        """The line that sets ``name`` in ``table`` (``""``: the header of the table ``name``), None if not found."""
        current = ""
        for number, line in enumerate(self._text.split("\n"), 1):
            if header := _HEADER.match(line):
                current = header[2].strip("[ \t")
                if not table and current.partition(".")[0] == name:
                    return number
            elif (found := _NAME.match(line)) and f"{current}.{found[2]}".strip(".") == f"{table}.{name}".strip("."):
                return number
        return self.line_of("", table) if table else None


def setting_error(settings: Settings, command: str, words: str) -> SettingsError:
    """What is wrong with the keys of ``command`` in ``settings``, after the file and the line."""
    return _error(settings.path or settings_path(), settings.key_lines.get(command), words)


def _error(path: Path, line: int | None, words: str) -> SettingsError:
    place = "" if line is None else f":{line}"
    return SettingsError(f"{printable(str(path))}{place}: {printable(words)}")


def _nearest(name: str, allowed: Iterable[str]) -> str:
    """``; did you mean ...`` for the nearest of ``allowed``, empty where none is near."""
    from difflib import get_close_matches  # mostly there is nothing wrong

    near = get_close_matches(name, list(allowed), 1, 0.5)
    return say("settings.nearest", name=near[0]) if near else ""


def settings_text(
    commands: Iterable[tuple[str, Sequence[str], str]],
    themes: Sequence[str],
    thresholds: Iterable[tuple[str, bool | int | float, str]],
    path: Path | None = None,
) -> str:
    """A complete settings file in which every line is a commented default; uncommented it is valid.

    ``commands`` are (id, keys, title), ``thresholds`` (name, default, what it is and the source of the default), the
    first of ``themes`` is the default one.
    """
    place = say("settings.head.place", path=path or settings_path())
    lines = [f"# {say('settings.head')}", f"# {place}", "", f"[{KEYS}]", f"# {say('settings.head.keys')}"]
    for name, keys, title in commands:
        values = [_toml(key) for key in keys]
        lines.append(f"# {name} = {values[0] if len(values) == 1 else '[' + ', '.join(values) + ']'}  # {title}")
    lines += ["", f"[{SCREEN}]"]
    for name, allowed in (("language", LANGUAGE_NAMES), ("glyphs", GLYPHS), ("theme", themes)):
        if allowed:
            lines.append(f"# {say(f'settings.head.{name}', allowed=', '.join(allowed))}")
            lines.append(f"# {name} = {_toml(allowed[0])}")
    lines += ["", f"[{THRESHOLDS}]", f"# {say('settings.head.thresholds')}"]
    for name, default, comment in thresholds:
        lines += [f"# {comment}", f"# {name} = {_toml(default)}"]
    return "\n".join(printable(line) for line in lines) + "\n"


def _toml(value: str | bool | int | float) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
