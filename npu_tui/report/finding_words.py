"""One finding in words, the same in every format, and the line that says what was read."""

from __future__ import annotations

from typing import Any

from npu_tui.report.wording import or_unknown, time_text
from npu_tui.strings import say


def finding_head(finding: dict[str, Any]) -> str:
    """Severity, class, title and what mending it would gain, in one line."""
    head = say("finding.head", severity=finding["severity"].upper(), cls=finding["class"], title=finding["title"])
    gain, after = finding["gain_us"], finding.get("step_after_us")
    words = [head + say("finding.gain", gain=time_text(gain)) if gain else head]
    if gain and after is not None:
        words.append(say("finding.after", after=time_text(after)))
    if finding.get("hidden"):
        words.append(say("finding.hidden"))
    return " ".join(words)


def evidence_place(place: dict[str, Any]) -> str:
    """When and on which lane a piece of evidence lies."""
    text = say("finding.place", start=time_text(place["start_us"]), end=time_text(place["end_us"]))
    return text if place["lane"] is None else f"{text} {say('finding.lane', lane=place['lane'])}"


def source_line(report: dict[str, Any]) -> str:
    """What was read: rank, device, level, steps, size, and the selection if there is one."""
    source, trace, selection = report["source"], report["trace"], report["selection"]
    text = say(
        "report.about",
        kind=source["kind"],
        rank=or_unknown(source["rank"]),
        device=or_unknown(source["device"]),
        level=or_unknown(source["profiler_level"]),
        steps=source["step_count"],
        slices=f"{trace['slices']:,}",
        links=f"{trace['links']:,}",
        span=time_text(trace["span_us"]),
    )
    if selection is None:
        return text
    end = selection["end_us"]
    key = "report.selection" if selection["step"] is None else "report.selection.step"
    words = {
        "start": time_text(selection["start_us"] or 0.0),
        "end": say("report.end") if end is None else time_text(end),
        "step": selection["step"],
    }
    return f"{text}; {say(key, **words)}"
