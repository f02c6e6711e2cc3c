"""The texts of ``npu-tui watch``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "watch.description": "Wait for new profiles below a folder and print one line about each once it is complete: its verdict, and the step against that of the profile before it (of the same rank).",
    "watch.epilog": "A profile is complete when its files have not changed for some seconds and end as they should. Enter opens the newest one, Ctrl+C ends.",
    "watch.path": "the folder; without it, the current directory",
    "watch.settle": "seconds without a change until a profile is complete (3 unless set)",
    "watch.count": "stop after this many profiles",
    "watch.all": "report the profiles that are already there, too",
    "watch.bad_number": "{option} needs a whole number from 1",
    "watch.no_folder": "{path}: no such folder",
    "watch.begun": "watching {path} ({count:profile|profiles} there already)",
    "watch.enter": "{begun}; Enter opens the newest, Ctrl+C ends",
    "watch.none": "no profile yet",
    "watch.writing": "being written: {name}, {size} MB so far",
    "watch.no_verdict": "nothing stands out",
    "watch.rank": "rank {rank}",
    "watch.slower": "step {change:change}, SLOWER",
    "watch.faster": "step {change:change}, FASTER",
    "watch.same": "step {change:change}, the same",
    "watch.unsure": "step {change:change}, unsure",
    "watch.incomparable": "not comparable with the one before",
}
