"""The comparison as Markdown for a pull request: verdict, waterfall, seven changes, what was not judged."""

from __future__ import annotations

import shlex

from npu_tui.report.compared import schema
from npu_tui.report.compared.text import part_rows, setting_line, side_lines, verdict_lines
from npu_tui.report.pages.markdown_report import code, plain
from npu_tui.strings import say
from npu_tui.trace.text import change_text, share_change_text

_CHANGES = 7


def markdown_comparison(found: schema.Compared) -> str:
    """The lines of ``found``."""
    verdict, *rest = verdict_lines(found)
    lines = [f"## {plain(verdict)}", ""]
    sides = side_lines(found)
    lines += [f"{'  ' if line.startswith(' ') else ''}- {plain(line.strip())}" for line in (*sides, *rest)]
    rows = part_rows(found)
    if rows:
        lines += ["", f"### {say('compare.parts')}", "", *_header("part", "base", "new", "change")]
        lines += [f"| {plain(name)} | {' | '.join(_whole(plain(time)) for time in times)} |" for name, *times in rows]
    lines += ["", f"### {say('compare.findings')}", ""]
    shown = [each for each in found.findings if each.part_of is None]
    if shown:
        lines += _header("what", "delta", "share", "finding")
        base = sum(found.step.base_us) / len(found.step.base_us)
        for each in shown[:_CHANGES]:
            delta = "" if each.delta_us is None else _whole(change_text(each.delta_us * 1000))
            share = "" if each.delta_us is None else share_change_text(each.delta_us / base)
            lines.append(f"| {plain(each.title)} | {delta} | {share} | {code(each.id, table=True)} |")
        if len(shown) > _CHANGES:
            lines += ["", say("compare.more", count=len(shown) - _CHANGES)]
    else:
        lines.append(say("compare.nothing"))
    if found.config:
        lines += ["", f"### {say('compare.config')}", "", *(f"- {plain(setting_line(each))}" for each in found.config)]
    if found.not_judged:
        lines += ["", f"### {say('compare.not_judged')}", "", *(f"- {plain(each.text)}" for each in found.not_judged)]
    command = f"npu-tui compare {shlex.quote(found.base.source.path)} {shlex.quote(found.new.source.path)}"
    return "\n".join([*lines, "", code(command)]) + "\n"


def _whole(text: str) -> str:
    """``text`` that is never broken between a number and its unit."""
    return text.replace(" ", "\u00a0")


def _header(*columns: str) -> list[str]:
    names = [say(f"compare.column.{each}") for each in columns]
    numeric = {"base", "new", "change", "delta", "share"}
    rule = " | ".join("---:" if each in numeric else "---" for each in columns)
    return [f"| {' | '.join(names)} |", f"| {rule} |"]
