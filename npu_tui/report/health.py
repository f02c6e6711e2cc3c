"""Trace health in lines of plain text."""

from __future__ import annotations

from npu_tui.profile.profile import Profile
from npu_tui.strings import say, words
from npu_tui.trace.text import brief, duration_text


def health_lines(profile: Profile) -> list[str]:
    """What was skipped and why, ends without a slice, crossings, clocks, and counters outside the slices."""
    trace, health = profile.trace, profile.health
    lines = [say("health.events", events=f"{health.events:,}", kept=f"{len(trace.slices):,}")]
    if health.is_clean:
        lines.append(say("health.clean"))
    if health.truncated:
        lines.append(say("health.truncated", events=f"{health.events:,}"))
    lines += [say("health.skipped", count=f"{count:,}", reason=why) for why, count in health.skipped]
    if health.far:
        lines.append(say("health.far", count=f"{health.far:,}", gap=duration_text(health.far_gap)))
    lines += [brief(words(warning), 1_000) for warning in health.warnings]
    for link in health.links:
        for key, count in (
            ("health.unbound_sources", link.unbound_sources),
            ("health.unbound_targets", link.unbound_targets),
            ("health.negative", link.negative),
        ):
            if count:
                total = f"{link.links:,}"
                lines.append(say(key, count=f"{count:,}", category=brief(link.category), links=total))
    if health.crossing:
        lines.append(say("health.crossing", count=f"{health.crossing:,}"))
    devices = profile.dispatch
    for device in devices:
        prefix = f"{say('header.device', device=device.device)}: " if len(devices) > 1 else ""
        for floor in device.floors:
            key = "health.clock" if floor.trusted else "health.clock_untrusted"
            lines.append(prefix + say(key, floor=duration_text(floor.floor)))
    if health.samples_outside:
        lines.append(say("health.outside", count=f"{health.samples_outside:,}"))
    return lines
