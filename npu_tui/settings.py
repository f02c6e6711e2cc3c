"""The user's settings: one TOML file with tables for keys, the screen and the thresholds of findings.

The names that a file may use belong to the rooms that own them, so they are passed in as ``Known`` and this module
imports none of those rooms.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_tui.settings_path import settings_named, settings_path
from npu_tui.strings import LANGUAGES, say
from npu_tui.trace.text import brief, printable

_LARGEST = 1e300
"""No threshold means anything beyond it; infinity and whole numbers that no float holds lie there."""

GLYPHS = ("auto", "blocks", "safe", "console", "ascii")
KEYS, SCREEN, THRESHOLDS = TABLES = ("keys", "screen", "thresholds")
SCREEN_NAMES = ("language", "glyphs", "theme")
LANGUAGE_NAMES = ("auto", *LANGUAGES)

_HEADER = re.compile(r"\s*\[\s*(['\"]?)([^'\"\]]*)\1\s*\]")
_NAME = re.compile(r"\s*(['\"]?)([^'\"=\s]+)\1\s*=")
_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")


class SettingsError(ValueError):
    """Settings that cannot be used; its text is one line: the file, the line where known, what is wrong."""


class Known(Struct, frozen=True):
    """What a settings file may name. A table whose names are not given here is not checked and comes back as it is.

    ``thresholds`` maps each name to its default: a whole number wants whole numbers, a float numbers, a bool bools.
    """

    commands: Collection[str] | None = None
    themes: Collection[str] | None = None
    glyphs: Collection[str] = GLYPHS
    thresholds: Mapping[str, bool | int | float] | None = None


class Settings(Struct, frozen=True):
    """What the file says; what it leaves out is an empty mapping or None, so that each default has one owner.

    ``keys`` maps a command id to its keys in place of the default ones (an empty tuple unbinds it), ``key_lines`` to
    the line of the file that names it; ``path`` is the file that was read, None if there is none.
    """

    path: Path | None = None
    keys: Mapping[str, tuple[str, ...]] = {}
    glyphs: str | None = None
    theme: str | None = None
    language: str | None = None
    thresholds: Mapping[str, bool | int | float] = {}
    key_lines: Mapping[str, int] = {}


def load_settings(option: str | Path | None = None, known: Known | None = None) -> Settings:
    """The settings of ``settings_path(option)``; empty ones where nobody named a file and there is none.

    Raises ``SettingsError`` for a file that cannot be read, that is no TOML, or that says something unknown.
    """
    path = settings_path(option)
    try:
        raw = path.read_bytes()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not settings_named(option):
            return Settings()
        raise SettingsError(f"{printable(str(path))}: {error.strerror}") from None
    return parse_settings(raw, path, known)


def parse_settings(raw: bytes, path: Path, known: Known | None = None) -> Settings:
    """The settings in ``raw``, the content of the file ``path``. Raises ``SettingsError``."""
    reader = _Reader(path, _text(raw, path), known or Known())
    return reader.settings()


def _text(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _error(path, line, say("settings.not_utf8", byte=error.start)) from None


def setting_error(settings: Settings, command: str, words: str) -> SettingsError:
    """What is wrong with the keys of ``command`` in ``settings``, after the file and the line."""
    return _error(settings.path or settings_path(), settings.key_lines.get(command), words)


def _error(path: Path, line: int | None, words: str) -> SettingsError:
    place = "" if line is None else f":{line}"
    return SettingsError(f"{printable(str(path))}{place}: {printable(words)}")


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


class _Reader:
    """One file on its way to ``Settings``."""

    def __init__(self, path: Path, text: str, known: Known) -> None:
        self._path, self._text, self._known = path, text, known

    def settings(self) -> Settings:
        tables = self._tables()
        screen = tables.get(SCREEN, {})
        for name in screen:
            self._check_name(SCREEN, name, SCREEN_NAMES, "settings.unknown_screen")
        return Settings(
            self._path,
            {name: self._keys(name, value) for name, value in tables.get(KEYS, {}).items()},
            self._choice("glyphs", screen, self._known.glyphs),
            self._choice("theme", screen, self._known.themes),
            self._choice("language", screen, LANGUAGE_NAMES),
            {name: self._threshold(name, value) for name, value in tables.get(THRESHOLDS, {}).items()},
            {name: line for name in tables.get(KEYS, {}) if (line := self._line_of(KEYS, name))},
        )

    def _tables(self) -> dict[str, dict[str, Any]]:
        if sys.version_info >= (3, 11):  # only who has such a file waits for them
            import tomllib
        else:
            import tomli as tomllib
        try:
            tables: dict[str, Any] = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            found = _PLACE.search(str(error))
            words = _PLACE.sub("", str(error))
            raise _error(self._path, int(found[1]) if found else None, say("settings.no_toml", words=words)) from None
        except RecursionError:
            raise _error(self._path, None, say("settings.too_deep")) from None
        except ValueError:  # the library leaves it to Python how long a number may be
            raise _error(self._path, None, say("settings.too_long")) from None
        for name, value in tables.items():
            self._check_name("", name, TABLES, "settings.unknown_table")
            if not isinstance(value, dict):
                raise self._wrong("", name, say("settings.no_table", name=name))
        return tables

    def _keys(self, name: str, value: Any) -> tuple[str, ...]:
        if self._known.commands is not None:
            self._check_name(KEYS, name, self._known.commands, "settings.unknown_command")
        keys = value if isinstance(value, list) else [value]
        if not all(isinstance(key, str) and key.strip() for key in keys):
            raise self._wrong(KEYS, name, say("settings.no_key", name=name))
        return tuple(dict.fromkeys(keys))

    def _choice(self, name: str, screen: dict[str, Any], allowed: Collection[str] | None) -> str | None:
        if name not in screen:
            return None
        value = screen[name]
        if not isinstance(value, str):
            raise self._wrong(SCREEN, name, say("settings.no_text", name=name))
        if allowed is not None and value not in allowed:
            words = say("settings.unknown_choice", name=name, value=brief(value), allowed=", ".join(allowed))
            raise self._wrong(SCREEN, name, words + _nearest(value, allowed))
        return value

    def _threshold(self, name: str, value: Any) -> bool | int | float:
        default: bool | int | float = 0.0
        if self._known.thresholds is not None:
            self._check_name(THRESHOLDS, name, self._known.thresholds, "settings.unknown_threshold")
            default = self._known.thresholds[name]
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise self._wrong(THRESHOLDS, name, say("settings.no_bool", name=name))
            return value
        wanted = int if isinstance(default, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, wanted) or not 0 <= value <= _LARGEST:
            key = "settings.no_whole" if isinstance(default, int) else "settings.no_number"
            raise self._wrong(THRESHOLDS, name, say(key, name=name, default=default))
        return value if isinstance(default, int) else float(value)

    def _check_name(self, table: str, name: str, allowed: Collection[str], key: str) -> None:
        if name not in allowed:
            raise self._wrong(table, name, say(key, name=brief(name)) + _nearest(name, allowed))

    def _wrong(self, table: str, name: str, words: str) -> SettingsError:
        return _error(self._path, self._line_of(table, name), words)

    def _line_of(self, table: str, name: str) -> int | None:
        """The line that sets ``name`` in ``table`` (``""``: the header of the table ``name``), None if not found."""
        current = ""
        for number, line in enumerate(self._text.split("\n"), 1):
            if header := _HEADER.match(line):
                current = header[2].strip("[ \t")
                if not table and current.partition(".")[0] == name:
                    return number
            elif (found := _NAME.match(line)) and f"{current}.{found[2]}".strip(".") == f"{table}.{name}".strip("."):
                return number
        return self._line_of("", table) if table else None


def _nearest(name: str, allowed: Collection[str]) -> str:
    """``; did you mean ...`` for the nearest of ``allowed``, empty where none is near."""
    from difflib import get_close_matches  # mostly there is nothing wrong

    near = get_close_matches(name, list(allowed), 1, 0.5)
    return say("settings.nearest", name=near[0]) if near else ""
