"""The texts of the list of profiles to choose from."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "picker.title": "{count:profile|profiles}",
    "picker.below": "below {path}",
    "picker.jobs": "{count:job|jobs}",
    "picker.looking": "looking for more …",
    "picker.examining": "examining …",
    "picker.worker": "worker",
    "picker.rank": "rank",
    "picker.time": "time",
    "picker.size": "size",
    "picker.level": "level",
    "picker.verdict": "verdict",
    "picker.ranks": "{count:rank|ranks}",
    "picker.nothing": "nothing here",
    "picker.filter": "/{text}   {count:row|rows}",
    "picker.type": "type a part of a name, a rank or a verdict; Esc takes it back",
    "picker.keys": "Enter opens   Space marks   type to filter   ← → ranks of a job   ? help   q leaves",
    "picker.keys.filter": "Enter opens   ↑ ↓ choose   Space marks   Esc shows all",
    "picker.keys.marked": "{count} marked: Enter opens   Space marks   Esc takes the marks away",
    "picker.job_alone": "a job opens alone, with all of its ranks: press Enter",
    "picker.too_many": "{count} are marked; {most} at most are opened together",
    "picker.help.title": "Which profile to open",
    "picker.help": "↑ ↓ k j PgUp PgDn Home End: choose\n"
    "Enter, double click: open a profile as timeline, a job (▾) as overview of its ranks\n"
    "Space: mark several; Enter opens them one below the other\n"
    "← →: show or hide the ranks of a job\n"
    "letters, & or /: show only what holds the text: name, rank7, verdict\n"
    "Backspace, Esc: take the filter back, then the marks\n"
    "Esc in a timeline or a job: back to this list\n"
    "q, Ctrl+Q: leave\n\n"
    "The newest stand first; the ranks of a job follow it. Verdicts come as they are known: first those of\n"
    "profiles with parsed copies, then the small ones. Very large traces are read only when they are opened.",
    "picker.list": "{count:profile|profiles} below {path}, the newest first; npu-tui PATH opens one, npu-tui report PATH tells what it says:",
}
