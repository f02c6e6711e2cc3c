"""The code itself with its times in the margin: what each line holds of the critical path, and what its launches lost.

Both figures are those of the tables: ``path_owners`` of the device with the longest path, and ``code_lines``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from rich.text import Text

from npu_tui.analysis.code_lines import CodeLine, whole_name
from npu_tui.load.errors import InputError
from npu_tui.load.source import Source, source_of
from npu_tui.profile.columns import base_of
from npu_tui.profile.finding_tables import PATH_OWNERS
from npu_tui.profile.launch_tables import CODE_LINES
from npu_tui.profile.table import TableSheet, heading
from npu_tui.rules.judged_path import JudgedPath
from npu_tui.rules.rule import line_of
from npu_tui.strings import say, words
from npu_tui.trace.message import Message
from npu_tui.trace.text import brief, drawable, duration_text
from npu_tui.tui.tabs.declared import bar, places_of
from npu_tui.tui.tabs.table import GAP, Context, Place, TabRow, TabTable, known_columns, scope_note
from npu_tui.tui.terminal.frames import ACCENT

_AROUND = 2  # lines shown on either side of a hot one, enough to know it again; further ones are folded
_BODY = 12  # lines of a function that are shown below its heading: half of the lowest usual screen
_WIDEST = 400  # characters of a line of code: the table wraps it under the cursor, and generated ones have no end
_MOST = 400  # hot lines that are shown: with those around them no more rows than other tables have
_HEAT = 4  # cells of the bar that says how hot a line is


class _Heat:
    """What is known of one line: ns on the path of one unit, ns that its launches lose of it, and why."""

    def __init__(self, code: CodeLine) -> None:
        self.code = code
        self.path = self.lost = 0.0
        self.told: list[str] = []
        self.places: Sequence[Place] = ()

    @property
    def times(self) -> tuple[float, float]:
        """Both times."""
        return self.path, self.lost

    def heat(self, tops: tuple[float, float]) -> float:
        """How hot the line is, 0..1: ``tops`` are the largest times of any line.

        Lost time hides behind a late rank, and the path leads past a launch that comes late after another.
        """
        return max(time / top if top else 0.0 for time, top in zip(self.times, tops, strict=True))


class _File(Struct, frozen=True):
    """A file that the recording names: its lines, the hottest first, and its source where that is shown."""

    heats: list[_Heat]
    source: Source | Message | None

    @property
    def path(self) -> float:
        """What its lines hold of the path of one unit, ns."""
        return _sums(self.heats)[0]

    @property
    def lost(self) -> float:
        """What its lines lost, ns."""
        return _sums(self.heats)[1]


def _sums(heats: Iterable[_Heat]) -> tuple[float, float]:
    """What some lines hold of the path of one unit, and what they lost, ns."""
    paths, losses = zip(*(heat.times for heat in heats), strict=True)
    return sum(paths), sum(losses)


def source_table(now: Context) -> TabTable | str:
    """The code around lines with a time, the hottest file first; without code the reason, or nothing."""
    losses = CODE_LINES.make(now.part)
    if not _is_at_hand(now, losses):
        return ""
    path = _path_of(now)
    heats = _heats(now, path, losses)
    files = sorted(_hot_files(heats, Path(now.profile.trace.path)), key=lambda file: (-file.path, -file.lost))
    refused = GAP.join(words(file.source) for file in files if isinstance(file.source, Message))
    if not any(isinstance(file.source, Source) for file in files):
        return refused
    base = base_of(now.part.facts)
    unit = say(f"finding.unit.{'run' if path is None else path.unit}")
    drawn = _Drawn(files, ("", say("source.path", unit=unit), heading("lost", base), say("source.code")))
    note = [refused, say("source.keys")]
    if path is not None and path.owners is not None:
        note.append(say("source.length", unit=unit, time=path.owners.path.length / path.count))
    note += [say("lines.total", lost=base.of_one(sum(losses.values("lost")))), scope_note(now)]
    return known_columns(
        TabTable(
            drawn.headings,
            drawn.rows,
            GAP.join(filter(None, note)),
            at=drawn.walk[0],
            again=say("source.table"),
            walked=drawn.walk,
        )
    )


def _is_at_hand(now: Context, losses: TableSheet) -> bool:
    """Whether a file of the lines that are known already lies here: the path of a range takes a while to find."""
    shown = [path.told.owners for path in now.session.paths.get(now.trace, ()) if path.told.owners is not None]
    lines = [*_codes(losses), *(owner.where for path in shown for owner in path.owners)]
    trace = now.profile.trace
    names = {whole_name(trace, code.file) for code in lines if code is not None}
    return any(source_of(name, (), Path(trace.path)) is not None for name in names)


def _path_of(now: Context) -> JudgedPath | None:
    """The longest of the critical paths, where one is known."""
    try:
        told = [path for path in now.part.critical_paths if path.owners is not None]
    except InputError:
        return None
    return max(told, key=lambda path: path.owners.path.length if path.owners else 0, default=None)


def _heats(now: Context, path: JudgedPath | None, losses: TableSheet) -> list[_Heat]:
    """The lines that have a time, each once: some frames call a file by its name alone, others by its path."""
    owners, base = PATH_OWNERS.make(now.part, paths=[] if path is None else [path]), base_of(now.part.facts)
    heats: dict[tuple[str, int], _Heat] = {}

    def heat_of(code: CodeLine) -> _Heat:
        file = whole_name(now.profile.trace, code.file)
        return heats.setdefault((file, code.line), _Heat(CodeLine(file, code.line, code.function)))

    for row, (code, each, title) in enumerate(
        zip(_codes(owners), owners.values("each"), owners.values("title"), strict=True)
    ):
        if code is not None:
            heat = heat_of(code)
            heat.path += each
            heat.told.append(say("source.owner", time=each, owner=title))
            heat.places = heat.places or places_of(now.trace, owners, row)
    for row, (code, lost, count) in enumerate(
        zip(_codes(losses), losses.values("lost"), losses.values("launches"), strict=True)
    ):
        if code is not None:
            heat = heat_of(code)
            heat.lost += lost / base.count
            heat.told.append(say("source.lost", time=lost, count=count))
            heat.places = heat.places or places_of(now.trace, losses, row)
    return list(heats.values())


def _codes(sheet: TableSheet) -> Iterable[CodeLine | None]:
    return () if sheet.code is None else map(sheet.code, range(sheet.rows))


def _hot_files(heats: Iterable[_Heat], trace: Path) -> Iterable[_File]:
    of_file: dict[str, list[_Heat]] = {}
    for heat in sorted(heats, key=lambda heat: heat.times, reverse=True)[:_MOST]:
        of_file.setdefault(heat.code.file, []).append(heat)
    for file, own in of_file.items():
        yield _File(own, source_of(file, [(heat.code.line, heat.code.function) for heat in own], trace))


class _Drawn:
    """The rows of all ``files`` under ``headings``; ``walk`` are those with a time, the hottest first."""

    def __init__(self, files: Sequence[_File], headings: tuple[str, str, str, str]) -> None:
        self.headings = headings
        heats = [heat for file in files for heat in file.heats]
        self._tops = max(heat.path for heat in heats), max(heat.lost for heat in heats)
        self._hot: dict[int, _Heat] = {}
        self.rows: list[TabRow] = []
        for file in files:
            if isinstance(file.source, Source):
                self._add_file(file, file.source)
        self._add_others([heat for file in files if not isinstance(file.source, Source) for heat in file.heats])
        self.walk = tuple(sorted(self._hot, key=lambda row: self._warmth(self._hot[row]), reverse=True))

    def _warmth(self, heat: _Heat) -> tuple[float, float]:
        return heat.heat(self._tops), heat.path

    def _add_file(self, file: _File, source: Source) -> None:
        """The path of the file with the sums of its lines, then the hot ones among those around them."""
        by_line = {heat.code.line: heat for heat in file.heats}
        last = len(source.lines)
        shown = sorted({line for hot in by_line for line in _shown_lines(source, hot)})
        width = len(str(last))
        self._add(Text(_clean(str(source.path)), style="bold"), file.path, file.lost)
        before = 0
        for line in [*shown, last + 1]:
            folded = line - before - 1
            if folded == 1:  # the mark of a fold takes as much room
                self._add_line(source, line - 1, width, None)
            elif folded:
                self._add(Text(f"{'⋯':>{width}}  {say('source.folded', count=folded)}", style="dim"))
            if line <= last:
                self._add_line(source, line, width, by_line.get(line))
            before = line

    def _add_line(self, source: Source, line: int, width: int, heat: _Heat | None) -> None:
        code = _clean(source.lines[line - 1])
        text = Text.assemble((f"{line:>{width}}  ", "dim"), (code, "bold" if heat else "dim"))
        named = CodeLine(str(source.path.absolute()), line, heat.code.function if heat else "")
        self._add(text, *((0.0, 0.0) if heat is None else heat.times), heat, named)

    def _add_others(self, heats: Sequence[_Heat]) -> None:
        """The lines without shown source, by their place."""
        if heats:
            self._add(Text(say("source.elsewhere"), style="bold"), *_sums(heats))
        for heat in heats:
            self._add(Text(words(line_of(heat.code))), *heat.times, heat, heat.code)

    def _add(
        self, text: Text, path: float = 0.0, lost: float = 0.0, heat: _Heat | None = None, code: CodeLine | None = None
    ) -> None:
        heated = "" if heat is None else bar(heat.heat(self._tops), _HEAT)
        cells = _figure(path), _figure(lost), text
        told = [
            say("panel.told", name=name, value=cell.plain.strip())
            for name, cell in zip(self.headings[1:], cells, strict=True)
            if cell.plain.strip()
        ]
        places: Sequence[Place] = ()
        if heat is not None:
            self._hot[len(self.rows)] = heat
            told += heat.told
            places = heat.places
        bars = Text(heated, style=ACCENT)
        self.rows.append(TabRow((bars, *cells), places, code=code, told=partial("\n".join, told), minor=heat is None))


def _shown_lines(source: Source, line: int) -> set[int]:
    """The lines that are shown around a hot ``line``: a few, and the heading of its function.

    Time in a function as a whole stands at its heading: it is anywhere in what follows.
    """
    first, last = max(line - _AROUND, 1), min(line + _AROUND, len(source.lines))
    heading = next((heading for heading in source.headings if heading.line == line), None)
    if heading is not None:
        last = max(last, min(source.end_of(heading), line + _BODY))
    return {*range(first, last + 1), *(heading.line for heading in source.around(line)[-1:])}


def _figure(time: float) -> Text:
    return Text(duration_text(time) if time else "", justify="right")


def _clean(text: str) -> str:
    """A line of a file, or a path, as cells that stay in their place."""
    return drawable(brief(text, _WIDEST))
