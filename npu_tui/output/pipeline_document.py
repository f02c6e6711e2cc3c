"""The pipelines of a job in a report: what the bubble is, its table, its stages, and a chart of the longest step."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from npu_tui.jobs.pipeline import PARTS
from npu_tui.jobs.pipeline_tables import PIPELINES, STAGES, Bar, bars_of, cells_of
from npu_tui.output.document import Block, Box, Cell, Code, Heading, Paint, Paragraph, Picture, Shape, Table, Tip
from npu_tui.output.job_report import JobReport
from npu_tui.output.rendered import rendered
from npu_tui.output.svg import CELL_HEIGHT, CELL_WIDTH, row_shapes
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, drawable, duration_text, padded
from npu_tui.view import palette

_CELLS = 100
"""Characters of a stage in the chart of a text."""
_BAR = 900
"""Pixels of a stage in the chart of a page."""
_TOLD = 1e-3
"""Share of a step from which a part of it is told."""
PAINTS: dict[str, Paint] = {
    "forward": palette.bar(OpClass.CUBE),
    "backward": palette.bar(OpClass.VECTOR),
    "weights": palette.bar(OpClass.OTHER),
    "transfer": palette.bar(OpClass.COMMUNICATION),
}


def pipeline_blocks(report: JobReport, drawn: bool) -> Iterator[Block]:
    """All about pipelines, nothing where there are none; the chart is ``drawn`` or of letters."""
    if not report.pipelines:
        return
    yield Heading(say("pipeline.title"))
    yield Paragraph((pipelines_told(report),))
    yield _chart(report) if drawn else Code(tuple(_letters(report)))
    if not drawn:
        yield Paragraph((say("pipeline.letters"),), "faint")
    yield rendered(STAGES, report.stages, ranks=lambda row: Cell(" ".join(map(str, row.ranks))))
    yield _steps(report)


def pipelines_told(report: JobReport) -> str:
    """How the mean step of the pipelines is made up, in one sentence."""
    count, first = len(report.pipelines), report.pipelines[0]
    mean = {name: 1e3 * sum(getattr(row, f"{name}_us") for row in report.pipelines) / count
            for name in (*PARTS, "length", "bubble")}  # fmt: skip
    parts = [
        say("pipeline.part", part=say(f"column.{name}"), time=mean[name])
        for name in PARTS[1:]
        if abs(mean[name]) >= _TOLD * mean["length"]
    ]
    return say(
        "pipeline.told", schedule=say(f"pipeline.schedule.{first.schedule}"), stages=first.stages,
        micro=first.micro_batches, length=mean["length"], bubble=mean["bubble"], share=mean["bubble"] / mean["length"],
        parts=parts,
    )  # fmt: skip


def _steps(report: JobReport) -> Table:
    """Each step of each pipeline; of many the longest."""
    table = rendered(PIPELINES, report.pipelines, pipeline=lambda row: Cell("-".join(map(str, row.ranks))))
    return replace(table, weights=tuple(row.length_us for row in report.pipelines))


def letter_of(bar: Bar | None) -> str:
    """A digit for the forward pass of a micro batch, a letter for its backward pass, ``·`` for a bubble."""
    if bar is None:
        return "·"
    if bar.fill == "forward":
        return str(bar.number % 10)
    return chr(ord("a") + bar.number % 26) if bar.fill == "backward" else "w" if bar.fill == "weights" else "~"


def _letters(report: JobReport) -> Iterator[str]:
    """The longest step, a line a stage."""
    stages = bars_of(report.passes)
    high = max(bar.end for bars in stages for bar in bars)
    heads = _heads(report)
    for head, bars in zip(heads, stages, strict=True):
        cells = cells_of(bars, 0, high, _CELLS)
        yield f"{padded(head, max(map(cell_count, heads)))}  {''.join(map(letter_of, cells))}"


def _heads(report: JobReport) -> list[str]:
    """What the lines of the chart are called."""
    ranks = {row.stage: row.rank for row in report.passes}
    return [say("pipeline.stage", stage=stage, rank=rank) for stage, rank in sorted(ranks.items())]


def _chart(report: JobReport) -> Picture:
    """The longest step as a picture: bars of passes over the bubble."""
    stages, heads = bars_of(report.passes), _heads(report)
    high = max(bar.end for bars in stages for bar in bars)
    left = (max(map(cell_count, heads)) + 1) * CELL_WIDTH
    scale = (_BAR - left) / high
    shapes: list[Shape] = []
    for line, (head, bars) in enumerate(zip(heads, stages, strict=True)):
        top = 1.5 * line * CELL_HEIGHT
        shapes += [
            shape for shape in row_shapes([(drawable(head), "ink", "none", 0)], top) if not isinstance(shape, Box)
        ]
        shapes.append(Box(left, top, _BAR - left, CELL_HEIGHT, "free"))
        for bar in bars:
            place = left + bar.start * scale, top, max((bar.end - bar.start) * scale - 1, 1), CELL_HEIGHT
            words = say(f"pipeline.pass.{bar.fill}") + (f" {bar.number}" if bar.number >= 0 else "")
            shapes += [
                Box(*place, PAINTS[bar.fill]),
                Tip(*place, f"{words} · {duration_text((bar.end - bar.start) * 1e3)}"),
            ]
    step = report.passes[0].step
    fills = [fill for fill in PAINTS if any(bar.fill == fill for bars in stages for bar in bars)]
    legend = tuple((PAINTS[fill], say(f"pipeline.pass.{fill}")) for fill in fills)
    title = say("pipeline.chart", step=step or "–")
    return Picture(title, _BAR, 1.5 * len(stages) * CELL_HEIGHT, shapes, legend=legend)
