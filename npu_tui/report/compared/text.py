"""The comparison in words, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tui.report.compared import schema
from npu_tui.strings import say
from npu_tui.trace.text import (
    brief,
    cell_count,
    change_text,
    duration_text,
    mean_count_text,
    padded,
    printable,
    share_text,
)

_LONGEST_LIST = 10
_ATTRIBUTES = 60
_LEFT_OUT = 4
"""Steps left out that are named; the others are counted."""


def text_comparison(found: schema.Compared) -> str:
    """The lines of ``found`` but for the findings of the single profiles, which take longer than all the rest."""
    lines = [*side_lines(found), "", *verdict_lines(found)]
    lines += _section("parts", _columns([list(row) for row in part_rows(found)], "<>>>"))
    lines += _section("findings", finding_lines(found))
    groups = _longest([_group(row) for row in found.groups if row.delta_us])
    if found.stream_overlap_us:
        groups.append([_change(-found.stream_overlap_us), say("compare.stream_overlap")])
    lines += _section("groups", _columns(groups, "><<>>>>><"))
    lines += _section("lines", _columns(_longest([_line(row) for row in found.lines if row.delta_us]), "><<"))
    lines += _section("collectives", _columns(_longest([_collective(row) for row in found.collectives]), "><<"))
    lines += _section("config", _columns(_longest([[setting_line(each)] for each in found.config]), "<"))
    lines += _section("not_judged", [each.text for each in found.not_judged])
    return _written(lines)


def profile_findings_text(found: Sequence[schema.KnownFinding]) -> str:
    """The last section: findings that only one side has; empty without any."""
    rows = [[say(f"compare.profile_finding.{each.change}"), each.id, each.title] for each in found]
    return _written(_section("profile_findings", _columns(rows, "<<<"))) if rows else ""


def _written(lines: Sequence[str]) -> str:
    return "\n".join(map(printable, lines)) + "\n"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", say(f"compare.{title}"), *(f"  {line}" for line in lines)] if lines else []


def _longest(rows: list[list[str]]) -> list[list[str]]:
    """The first of ``rows``, and how many there are more."""
    hidden = len(rows) - _LONGEST_LIST
    return [*rows[:_LONGEST_LIST], [say("compare.more", count=hidden)]] if hidden > 0 else rows


def _columns(rows: list[list[str]], align: str) -> list[str]:
    """The cells of ``rows`` in columns, each as ``align`` says; a row of one cell stands by itself."""
    full = [row for row in rows if len(row) > 2]
    widths = [max((cell_count(row[k]) for row in full if k < len(row)), default=0) for k in range(len(align))]
    return [
        row[0] if len(row) == 1
        else "  ".join(
            padded(cell, width, right=side == ">") for cell, width, side in zip(row, widths, align, strict=False)
        ).rstrip()
        for row in rows
    ]  # fmt: skip


def _change(us: float) -> str:
    return change_text(us * 1000)


def _ns(us: float | None) -> float | None:
    return None if us is None else us * 1000


def side_lines(found: schema.Compared) -> list[str]:
    """Who is compared, and which steps are left out."""
    lines = []
    for name, side in (("base", found.base), ("new", found.new)):
        rank = side.source.rank
        count, whole = len(side.steps), side.steps[0].step is None
        words = {
            "side": say(f"compare.column.{name}"),
            "path": side.source.path,
            "rank": say("compare.single_device") if rank is None else say("compare.rank", rank=rank),
            "wall": sum(each.wall_us for each in side.steps) / count * 1000,
        }
        if whole:
            lines.append(say("compare.side.whole", **words))
        else:
            steps = say("compare.steps", count=count)
            lines.append(say("compare.side", **words, steps=steps))
        if side.left_out:
            left = [
                say(
                    "compare.left_out.step",
                    step=each.step,
                    reason=say(f"compare.reason.{each.reason}"),
                    wall=_ns(each.wall_us),
                )
                for each in side.left_out[:_LEFT_OUT]
            ]
            if len(side.left_out) > _LEFT_OUT:
                left.append(say("compare.more", count=len(side.left_out) - _LEFT_OUT))
            lines.append("     " + say("compare.left_out", steps=say("list.comma").join(left)))
    return lines


def verdict_lines(found: schema.Compared) -> list[str]:
    """The verdict on the step and what it rests on."""
    step = found.step
    lines = [_verdict("compare.verdict", step)]
    base = sum(step.base_us) / len(step.base_us)
    if step.ci_us is not None:
        low, high = step.ci_us
        lines.append(say("compare.interval", low=low * 1000, high=high * 1000, p=p_text(step.p)))
    elif step.verdict == "unsure":
        lines.append(say("compare.few"))
    if step.visible_us is not None and base:
        lines.append(say("compare.visible", share=step.visible_us / base))
    if found.computing is not None:
        lines.append(_verdict("compare.computing", found.computing))
        base, new = (sum(times) / len(times) for times in (found.computing.base_us, found.computing.new_us))
        if base and new and any(each.id == "by_operation" for each in found.comparability.notes):
            lines.append(say("compare.computing.ratio", ratio=f"{new / base:.3g}"))
    shares = found.comparability
    lines.append(
        say("compare.matched", operations=_matched(shares.ops_matched), kernels=_matched(shares.kernels_matched))
    )
    return lines + [each.text for each in shares.notes]


def _verdict(key: str, judged: schema.Judged) -> str:
    base, new = (sum(times) / len(times) for times in (judged.base_us, judged.new_us))
    return say(
        key,
        verdict=say(f"{key}.{judged.verdict}"),
        base=base * 1000,
        new=new * 1000,
        delta=judged.delta_us * 1000,
        share=judged.delta_us / base if base else 0.0,
    )


def _matched(share: float | None) -> str:
    return say("report.unknown") if share is None else share_text(share)


def p_text(p: float | None) -> str:
    """A probability to two digits: ``0.028``, ``<0.0001``."""
    if p is None:
        return say("report.unknown")
    return "<0.0001" if p < 1e-4 else f"{p:.2g}"


def part_rows(found: schema.Compared) -> list[tuple[str, str, str, str]]:
    """Every known part of the step and their sum: name, base, new, change."""
    known = [row for row in found.parts if row.base_us is not None]
    if not known:
        return []
    rows = [(f"part.{row.id}", row.base_us or 0.0, row.new_us or 0.0, row.delta_us or 0.0) for row in known]
    rows.append(
        ("part.sum", sum(row[1] for row in rows), sum(row[2] for row in rows), round(sum(row[3] for row in rows), 3))
    )
    return [
        (say(f"compare.{key}"), duration_text(base * 1000), duration_text(new * 1000), _change(delta))
        for key, base, new, delta in rows
    ]


def finding_lines(found: schema.Compared) -> list[str]:
    """The findings, one line each; what is part of another stands below it."""
    rows = []
    number = 0
    for each in found.findings:
        if each.part_of is not None:
            continue
        number += 1
        delta = "" if each.delta_us is None else _change(each.delta_us)
        rows.append([f"{number}.", say(f"compare.severity.{each.severity}"), each.id, delta, each.title])
        rows += [
            [
                "",
                "",
                inner.id,
                "" if inner.delta_us is None else _change(inner.delta_us),
                say("compare.part_of", title=inner.title, id=each.id),
            ]
            for inner in found.findings
            if inner.part_of == each.id
        ]
    return _columns(rows, "><<><") or [say("compare.nothing")]


def _group(row: schema.Group) -> list[str]:
    return [
        _change(row.delta_us),
        say(f"compare.change.{row.change}"),
        row.type,
        *_calls(row.base),
        "→",
        *_calls(row.new),
        _ratio(row) if row.rung == "operation" else attributes_text(row),
    ]


def _ratio(row: schema.Group) -> str:
    return "" if row.ratio is None else say("compare.ratio", ratio=f"{row.ratio:.3g}")


def _calls(side: schema.GroupSide) -> list[str]:
    """How many calls there are per step and how long one takes."""
    if not side.count:
        return ["0", ""]
    return [mean_count_text(side.count), f"× {duration_text((side.median_us or 0.0) * 1000)}"]


def attributes_text(row: schema.Group) -> str:
    """Shapes and data types of a group, short enough for a line."""
    return brief(" ".join(each.strip('"') for each in (row.shapes, row.dtypes) if each), _ATTRIBUTES)


def line_place(row: schema.Line) -> str:
    """The code line as the new side has it, and its number in the base if that was another."""
    if row.file is None:
        return say("compare.place.unknown")
    function = row.function or ""
    if row.base_line is None or row.base_line == row.line:
        return say("compare.place", file=row.file, line=row.line, function=function)
    return say("compare.place.moved", file=row.file, line=row.line, base_line=row.base_line, function=function)


def _line(row: schema.Line) -> list[str]:
    base, new = (duration_text(lost * 1000) for lost in row.lost_us)
    return [_change(row.delta_us), f"{base} → {new}", line_place(row)]


def _collective(row: schema.Collective) -> list[str]:
    base, new = row.elapsed_us
    place = say("compare.collective", type=row.type, ordinal=row.ordinal + 1, group=row.group)
    times = say(
        "compare.collective.times",
        base=_ns(base),
        new=_ns(new),
        base_wait=_ns(row.wait_us[0]),
        new_wait=_ns(row.wait_us[1]),
    )
    return [_change((new or 0.0) - (base or 0.0)), place, times]


def setting_line(each: schema.Setting) -> str:
    """One setting with both values."""
    absent = say("compare.absent")
    return say("compare.setting", key=each.key, base=each.base or absent, new=each.new or absent)
