"""The texts about rows: pinned, hidden, idle."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "lane.steps": "Steps",
    "lane.overlap.computing": "Computing",
    "lane.overlap.all": "Communication",
    "lane.overlap.exposed": "Exposed comm",
    "lane.overlap.free": "Free",
    "lane.short": (
        "Exposed comm=Exposed|Communication=Comm| Comm=|Computing=Compute|compute =comp |task queue=queue|CANN =C:|C:backward=C:bwd|"
        "Queue depth=Depth|Memory =Mem |Ascend Hardware=Hardware|Overlap Analysis=Overlap|AI Core Freq=AI Freq|AI Freq=Freq|Thread =T|Stream =Str |Group =Grp |"
        "Mem allocated=Memory|Memory=Mem|Scope Layer=Scope|reserved=resv|active=act|process=proc|unused=gap|"
        "Stars Soc Info=SoC Info|HBM =|LLC =|/Throughput=|/Hit Rate= hit|/Read=R| Read=R|/Write=W| Write=W"
    ),
    "lane.main": "main",
    "lane.backward": "backward",
    "lane.queue": "task queue",
    "lane.compute": "compute s{number}",
    "lane.communication": "comm s{number}",
    "lane.copy": "copy s{number}",
    "lane.workers": "{count:count} HCCL workers",
    "rows.hidden": "{count:count} hidden",
    "rows.pinned": "{name} is pinned on top; {press[pin]} puts it back",
    "rows.unpinned": "{name} is back in its place",
    "rows.no_lane": "the cursor is on no lane",
    "rows.hide": "{name} is hidden; {press[fold]} on the row that counts the hidden ones, or {press[show_hidden]}, brings it back",
    "rows.hide_none": "only lanes and curves can be hidden; {press[fold]} folds a layer",
    "rows.shown": "{count:count} shown again",
    "rows.shown_none": "nothing is hidden",
    "rows.idle_away": "rows without a slice in view are hidden",
    "rows.idle_shown": "all rows are shown",
}
