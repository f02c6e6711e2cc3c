"""The profiles below a folder as text."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path

from npu_tui.commands.streams import write
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, padded, printable, size_text


def write_list(folder: Path) -> None:
    """Write the profiles below ``folder`` to stdout, the newest first, each job before its ranks."""
    from npu_tui.nearby.profiles import Nearby, nearby

    def cells(each: Nearby) -> list[str]:
        rank = "" if each.rank is None else str(each.rank)
        return [
            say("picker.ranks", count=len(each.ranks)) if each.is_job else rank,
            datetime.fromtimestamp(each.time).strftime("%Y-%m-%d %H:%M") if each.time else "",
            size_text(each.bytes),
            "" if each.level is None else str(each.level),
            shlex.quote(printable(str(each.path))),
        ]

    found = nearby(folder)
    names = [say(f"picker.{name}") for name in ("rank", "time", "size", "level")]
    table = [[*names, "PATH"], *map(cells, found)]
    widths = [max(cell_count(row[at]) for row in table) for at in range(4)]
    count = sum(not each.is_job for each in found)
    write(say("picker.list", count=count, path=printable(str(folder.absolute()))) + "\n\n")
    for row in table:
        own = [padded(cell, width, right=at != 1) for at, (cell, width) in enumerate(zip(row, widths, strict=False))]
        write("  ".join([*own, row[-1]]) + "\n")
