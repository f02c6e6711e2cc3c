"""The texts of reports as Markdown and HTML."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "report.about": (
        "{kind}, rank {rank}, device {device}, profiler level {level}, steps: {steps}; "
        "{slices} slices, {links} links, {span}"
    ),
    "page.head": "{severity} · {cls} · {title}",
    "page.gain": "saves up to {gain}",
    "page.hidden": "[hidden: the device computes too little for it to count]",
    "page.brief": "Also true, but not where to begin:",
    "page.do": "What to do:",
    "page.sources": "sources: {sources}",
    "page.confidence": "confidence {confidence}",
    "page.place": "{start} to {end}",
    "page.lane": "on {lane}",
    "table.overlap": "Device time",
    "table.findings": "Findings",
    "table.lines": "Code lines by lost time",
    "table.steps": "Steps",
    "table.operators": "Operators",
    "table.communication": "Communication",
    "table.again": "How to profile again",
    "table.total": "total",
    "table.timeline": "Timeline",
    "column.part": "part",
    "column.time": "time",
    "column.share": "share",
    "column.lost": "lost",
    "column.launches": "launches",
    "column.place": "place",
    "column.step": "step",
    "column.length": "length",
    "column.computing": "computing",
    "column.exposed": "communication not overlapped",
    "column.free": "free",
    "column.stage": "stage",
    "column.type": "type",
    "column.core": "core",
    "column.count": "count",
    "column.total": "total",
    "column.average": "average",
    "column.longest": "longest",
    "column.name": "name",
    "column.elapsed": "elapsed",
    "column.waited": "longest wait",
    "column.peer": "for rank",
    "column.size": "size",
    "column.bandwidth": "bandwidth",
    "column.number": "#",
    "column.severity": "severity",
    "column.class": "class",
    "column.gain": "saves up to",
    "column.finding": "finding",
    "again.level": (
        "With profiler_level=ProfilerLevel.Level1 in _ExperimentalConfig: CANN calls, the tasks of collectives "
        "and the ranks they wait for are recorded from there on."
    ),
    "again.stack": "With with_stack=True: launches get their code lines; the host gets slower, so compare with a run without.",
    "again.steps": "With a schedule and one prof.step() per iteration: each step gets its own figures.",
    "again.directory": (
        "Keep trace_view.json inside its *_ascend_pt directory: rank, level and the cores of kernels stand in files beside it."
    ),
    "again.few": "With at least 3 active steps after the warm-up, not {steps}: how much steps vary says what is chance.",
    "again.overhead": (
        "Once more with as little as possible (Level0, no stacks, no l2_cache): a profile inflates host times, "
        "and what disappears then was the profiler."
    ),
    "again.compare": "npu-tui check PATH --write-baseline FILE before a change and --baseline FILE after it say whether it helped.",
    "severity.high": "high",
    "severity.medium": "medium",
    "severity.low": "low",
    "severity.info": "info",
    "confidence.high": "high",
    "confidence.medium": "medium",
    "confidence.low": "low",
    "source.kind.trace_view_json": "trace_view.json",
    "source.kind.msprof_json": "msprof JSON",
    "source.kind.profile_directory": "PyTorch profile",
    "source.kind.database": "profiler database",
    "source.kind.chrome_trace": "Chrome trace",
}
