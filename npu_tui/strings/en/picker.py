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
    "picker.keys": "{press[open_profile]} opens   {press[mark_profile]} marks   type to filter   ← → ranks of a job   {press[help]} help   {press[leave_list]} leaves",
    "picker.keys.filter": "{press[open_profile]} opens   ↑ ↓ choose   {press[mark_profile]} marks   Esc shows all",
    "picker.keys.marked": "{count:count} marked: {press[open_profile]} opens   {press[mark_profile]} marks   Esc takes the marks away",
    "picker.job_alone": "a job opens alone, with all of its ranks: press {press[open_profile]}",
    "picker.too_many": "{count:count} are marked; {most} at most are opened together",
    "picker.help.words": "Enter opens a profile as timeline, a job (▾) as overview of its ranks, marked profiles one below the other; "
    "Esc there leads back here. Letters that are no key begin a filter over name, rank and verdict; Backspace takes back the "
    "last one. The newest stand first; the ranks of a job follow it. Verdicts come as they are known: first those of profiles "
    "with parsed copies, then the small ones. Very large traces are read only when they are opened.",
    "group.list": "List of profiles",
    "help.task.list": "List of profiles",
    "command.open_profile": "open the profile or job, or those marked; in a table of profiles against the first one",
    "command.list_first": "to the top of the list",
    "command.list_last": "to the end of the list",
    "command.page_up": "page up",
    "command.page_down": "page down",
    "command.mark_profile": "mark the profile: marked ones open one below the other",
    "command.fold_job": "show or hide the ranks of a job",
    "command.find_profile": "only rows that hold a text: name, rank7, verdict",
    "command.leave_list": "leave the list",
    "picker.list": "{count:profile|profiles} below {path}, the newest first; npu-tui PATH opens one, npu-tui report PATH tells what it says:",
}
