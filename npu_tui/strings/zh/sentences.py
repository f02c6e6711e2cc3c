"""How texts are joined: lists and sentences."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "list.and": "{first} 和 {last}",
    "list.comma": "、",
    "list.space": "",
    "list.sentences": "{parts:sentences}",
}
