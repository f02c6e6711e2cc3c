"""Texts of a trace made harmless for a terminal: a trace is untrusted input."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    """``text`` with control, escape, invisible and direction-changing characters replaced by a question mark."""
    return _UNSAFE.sub("?", text)
