"""Prints what CHANGELOG.md says of a version: ``notes.py 0.2.0``; ends where that is nothing, or not the checkout's."""

from __future__ import annotations

import re
import sys

from oldest import ROOT


def notes(version: str, changelog: str) -> str:
    """The section of ``version``, without its heading; empty if there is none."""
    found = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def main(version: str) -> str | None:
    """Print them; what is wrong, None if nothing is."""
    (own,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "npu_tui" / "__init__.py").read_text(), re.MULTILINE)
    if version != own:
        return f"notes.py: this is {own}, not {version}"
    found = notes(version, (ROOT / "CHANGELOG.md").read_text())
    if not found:
        return f"notes.py: CHANGELOG.md has no section of {version}"
    print(found)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1].removeprefix("v")))
