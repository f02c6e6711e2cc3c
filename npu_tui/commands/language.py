"""Which language the user reads: ``--lang``, else the settings file, else that of the locale."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from npu_tui.settings import settings_path
from npu_tui.strings import ENGLISH, LANGUAGES

_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The variables of POSIX that name the language of texts; the first one that is set counts."""


def choose_language(lang: str | None, config: str | None) -> str:
    """The language that ``--lang`` asks for, else the settings file (``--config`` may name it), else the locale."""
    wanted = lang or _of_settings(config)
    if wanted in LANGUAGES:
        return wanted
    # The fonts of the Linux console have no Han characters.
    console = os.environ.get("TERM") == "linux" and sys.stdout is not None and sys.stdout.isatty()
    return ENGLISH if console else language_of_locale(os.environ)


def language_of_locale(variables: Mapping[str, str]) -> str:
    """The language of the locale that ``variables`` name, English where there are no texts in it."""
    locale = next((variables[name] for name in _LOCALE if variables.get(name)), "")
    found = locale.replace("-", "_").partition("_")[0].partition(".")[0].lower()
    return found if found in LANGUAGES else ENGLISH


def _of_settings(config: str | None) -> str | None:
    """What the settings file says; whatever is wrong with it the command itself tells."""
    if not settings_path(config).is_file():  # reading one takes imports that only a file is worth
        return None
    from npu_tui.settings import SettingsError, load_settings

    try:
        return load_settings(config).language
    except SettingsError:
        return None
