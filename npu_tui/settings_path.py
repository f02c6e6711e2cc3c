"""Where the user's settings lie; read at every start, so nothing else is imported for it."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT = "NPU_TUI_CONFIG"
FILE_NAME = "settings.toml"


def settings_path(option: str | Path | None = None) -> Path:
    """The settings file: ``option``, else what ``NPU_TUI_CONFIG`` names, else that of the user's config directory."""
    named = option or os.environ.get(ENVIRONMENT)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_config_path

    return user_config_path("npu-tui", appauthor=False) / FILE_NAME


def settings_named(option: str | Path | None = None) -> bool:
    """Whether somebody named a settings file, so that it must be there."""
    return bool(option or os.environ.get(ENVIRONMENT))
