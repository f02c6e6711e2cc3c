"""The tools: what each is called with, in which words it is described, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from npu_tui.load.errors import InputError, SeveralError
from npu_tui.load.find import find_source
from npu_tui.mcp.session import (
    MOST_TOKENS,
    ROWS,
    TOKENS,
    Next,
    Opened,
    OpenProfiles,
    Refusal,
    ToolAnswer,
    ToolCall,
    one_profile,
    one_timeline,
    plain,
)
from npu_tui.output.envelope import document, side_by_side
from npu_tui.output.statement import (
    Statement,
    comparison_of,
    job_comparison_statement,
    job_statement,
    log_statement,
    profile_statement,
    whatif_statement,
)
from npu_tui.output.svg import Piece, svg
from npu_tui.profile.selection import part_of
from npu_tui.strings import Ours, say
from npu_tui.subjects import subject_of
from npu_tui.trace.message import message
from npu_tui.trace.text import printable

Path = Annotated[str, Meta(description="A profile or folder of ranks below a root, or #1 as open names it")]
Texts = list[str] | str


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool is called with."""

    limit: Annotated[int, Meta(ge=1, le=10_000, description="Most rows of a list")] = ROWS
    cursor: Annotated[int, Meta(ge=0, description="First row of a list")] = 0
    tokens: Annotated[int, Meta(ge=300, le=MOST_TOKENS, description="Most tokens of the answer")] = TOKENS


class Open(Arguments, frozen=True, kw_only=True):
    """Read a profile or a job (once; later calls are fast) and say what is wrong. Without path: what there is."""

    path: Path = "."
    eager: Annotated[str, Meta(description="Profile that replayed kernels get code from: eager, or the capture")] = ""


class ReportArguments(Arguments, frozen=True, kw_only=True):
    """Verdict, where the step's time goes, and findings in the order of work: gain_us is what a step gets shorter."""

    path: Path
    finding: Annotated[str, Meta(description="Only this finding, with all its evidence, lines and advice")] = ""
    fields: Annotated[Texts, Meta(description="Only these fields, e.g. path_owners or findings.id")] = []
    range: Annotated[str | None, Meta(description="Only this time, e.g. 12ms..14ms")] = None
    step: Annotated[int | str | None, Meta(description="Only ProfilerStep#N, or a kind: decode")] = None


class Explain(Arguments, frozen=True, kw_only=True):
    """What a finding or word means, its rule and thresholds, what to change in the code. Without id: all ids."""

    id: Annotated[str, Meta(description="E.g. DISPATCH.VERTICAL, or a word such as path")] = ""


class Tables(Arguments, frozen=True, kw_only=True):
    """The tables that query reads; with table its columns, their units and meaning."""

    path: Path
    table: str = ""


class Query(Arguments, frozen=True, kw_only=True):
    """SQL (polars, read-only) over the tables of a profile or job. Times are in ns, null is unknown."""

    path: Path
    sql: str


class WhatIf(Arguments, frozen=True, kw_only=True):
    """The step with changes applied, replayed. Without changes: which would gain most."""

    path: Path
    changes: Annotated[
        Texts,
        Meta(description="E.g. owner 1, line train.py:12 x0, kernel NAME x0.5, op NAME x0, no .item(), rank 3 in time"),
    ] = []


class Compare(Arguments, frozen=True, kw_only=True):
    """Did the change help: verdict on the step with its interval, and what changed. unsure is no gain."""

    base: Path
    new: Path
    fields: Annotated[Texts, Meta(description="Only these fields, e.g. groups, lines, collectives")] = []


class Ranks(Arguments, frozen=True, kw_only=True):
    """A job: which rank holds the others up, why, and what it costs them."""

    path: Path
    fields: Annotated[Texts, Meta(description="Only these fields, e.g. rank_table, links, collectives")] = []
    group: str | None = None
    step: int | str | None = None


class History(Arguments, frozen=True, kw_only=True):
    """A log of runs (npu-tui log add): since which run the step is slower, by how much, and in which part."""

    path: Annotated[str, Meta(description="The folder of the log, below a root")] = "npu-tui-log"
    fields: Annotated[Texts, Meta(description="Only these fields, e.g. changes, runs.step_us")] = []


class Screenshot(Arguments, frozen=True, kw_only=True):
    """The explorer's screen as text, and as a picture (an address, or an .svg file)."""

    path: Path
    range: Annotated[str | None, Meta(description="Show and mark this time, e.g. 12ms..14ms")] = None
    finding: Annotated[str, Meta(description="Show the evidence of this finding")] = ""
    select: Annotated[str, Meta(description="Select the slice of this name")] = ""
    columns: Annotated[int, Meta(ge=40, le=240)] = 100
    rows: Annotated[int, Meta(ge=10, le=100)] = 28
    keys: Annotated[str, Meta(max_length=1_000, description="Keys to press first, e.g. x Enter")] = ""
    output: Annotated[str, Meta(description="Write the picture to this new .svg file")] = ""


class Crop(Arguments, frozen=True, kw_only=True):
    """Write a smaller trace, which every viewer opens, to a new file."""

    path: Path
    output: Annotated[str, Meta(description="A new .json or .json.gz file below a root")]
    range: Annotated[str | None, Meta(description="Only this time, e.g. 12ms..14ms")] = None
    step: int | str | None = None
    lanes: Annotated[Texts, Meta(description="Only lanes or layers with this in their names")] = []
    slices: Annotated[Texts, Meta(description="Only slices with this in their names")] = []
    clip: bool = False


def separated_texts(texts: Texts) -> list[str]:
    """Several texts, also where the caller gives one, separated by commas."""
    return [text.strip() for text in texts.split(",") if text.strip()] if isinstance(texts, str) else texts


def open_tool(session: OpenProfiles, call: ToolCall, given: Open) -> ToolAnswer:
    """What is at a path, read and measured."""
    from npu_tui.output.whatif import NoReplayError, remedies
    from npu_tui.tui.session import make_session

    place = session.place_of(given.path)
    if place.is_dir() and (below := _several(place)):
        count = sum(not entry["is_job"] for entry in below)
        roots = [str(root) for root in session.roots.folders]
        again = Next("open", {"path": given.path}) if given.path in (".", "#1") else None
        return ToolAnswer(
            verdict=[say("mcp.several", count=count)], data={"profiles": below, "roots": roots}, again=again
        )
    opened = session.opened(given.path, call)
    if given.eager:
        opened.borrow(session.opened(given.eager, call))
    if opened.profile is None:
        answer = ranks_tool(session, call, Ranks(path=opened.name))
        answer.data = {"name": opened.name, "kind": "ranks", **{k: answer.data[k] for k in ("source", "findings")}}
    else:
        answer = report_tool(session, call, ReportArguments(path=opened.name))
        if "timeline" in subject_of(opened.profile.trace).refusals:
            answer.data = {"name": opened.name, **answer.data}
            return answer
        # What is asked next takes a second where the trace is large.
        with suppress(NoReplayError):
            opened.kept("remedies", partial(remedies, opened.profile))
        if opened.kept("session", partial(make_session, [opened.profile])).is_long:
            lead = [row["id"] for row in answer.data["findings"][:1]]
            _screen(opened, Screenshot(path=opened.name, finding="".join(lead)), None)
        answer.data = {"name": opened.name, "kind": "profile", **_chosen_fields(answer.data, _OPENED)}
    answer.overview, answer.again = None, None
    return answer


_OPENED = ["source", "trace", "health", *(f"findings.{key}" for key in ("id", "severity", "gain_us", "per"))]


def _several(folder: Any) -> list[dict[str, Any]]:
    """The profiles below ``folder``, the newest first, each job before its ranks; none where it is one itself."""
    from npu_tui.nearby import holds_several, nearby

    try:
        find_source(folder)
        return []
    except SeveralError:
        if not holds_several(folder):
            return []
    except InputError:
        pass
    return [
        {"path": printable(str(entry.path)), "is_job": entry.is_job, "rank": entry.rank, "bytes": entry.bytes}
        for entry in nearby(folder)
    ]


def report_tool(session: OpenProfiles, call: ToolCall, given: ReportArguments) -> ToolAnswer:
    """The report about a profile, or about a job."""
    from npu_tui.output.explain import kind_of, unknown

    opened = session.opened(given.path, call)
    if opened.profile is None:
        return ranks_tool(session, call, Ranks(path=given.path, fields=given.fields))
    part = part_of(one_profile(opened), given.range, given.step)

    def make() -> _Fields:
        told = _all_fields(profile_statement(part))
        return told._replace(data=_with_owners(told.data))

    told = opened.kept(("report", part.selection), make)
    data = told.data
    named: dict[str, Any] = {"path": opened.name}
    named |= {key: value for key in ("range", "step") if (value := getattr(given, key)) is not None}
    lead = [row["id"] for row in data["findings"] if row.get("gain_us") and row["part_of"] is None][:1]
    follow = [Next("report", named | {"finding": id}) for id in lead if not given.finding]
    follow += [Next("explain", {"id": id}) for id in lead if given.finding]
    if lead and not part.selection.step and given.range is None:
        follow.append(Next("whatif", {"path": opened.name, "changes": [f"fix {lead[0]}"]}))
    if given.finding:
        kind = kind_of(given.finding)
        rows = [row for row in data["findings"] if kind is not None and row["id"] == kind.id]
        if kind is None:
            raise Refusal(message("mcp.said", text=unknown(given.finding)))
        if not rows:
            ids = [row["id"] for row in data["findings"]]
            raise Refusal(message("mcp.no_finding", id=kind.id, ids=ids))
        again = Next("report", named | {"finding": kind.id})
        return ToolAnswer(verdict=[row["title"] for row in rows], data={"findings": rows}, next=follow, again=again)
    return _document(told, separated_texts(given.fields), follow, Next("report", named))


class _Fields(NamedTuple):
    """The fields of a document side by side, and which of them are given first."""

    data: dict[str, Any]
    first: Sequence[str]


def _all_fields(statement: Statement) -> _Fields:
    laid_out = plain(document(statement.data, statement.verdict))
    return _Fields(side_by_side(laid_out), statement.data.FIRST)


_OWNER = ("number", "title", "ratio", "gain_us")


def _with_owners(data: dict[str, Any]) -> dict[str, Any]:
    """``data`` of a report with owners and stretches of its paths as lists of their own, which are read on by rows."""
    paths = data.get("critical_path")
    if paths is None:
        return data
    several = paths if isinstance(paths, list) else [paths]
    device = [{"device": path["device"]} if len(several) > 1 else {} for path in several]
    lists = {
        f"path_{name}": [of | row for of, path in zip(device, several, strict=True) for row in path[name]]
        for name in ("owners", "stretches")
    }
    slim = [
        {key: value for key, value in path.items() if key != "stretches"}
        | {"owners": [{key: row[key] for key in _OWNER} for row in path["owners"]]}
        for path in several
    ]
    return data | {"critical_path": slim if isinstance(paths, list) else slim[0]} | lists


def _document(told: _Fields, fields: list[str], follow: list[Next], again: Next | None) -> ToolAnswer:
    """The answer that is ``told``, or ``fields`` of it."""
    verdict = told.data["verdict"]
    if not fields:
        return ToolAnswer(verdict=verdict, data=told.data, next=follow, again=again, overview=told.first)
    more = None if again is None else Next(again.tool, again.arguments | {"fields": fields})
    return ToolAnswer(verdict=verdict, data=_chosen_fields(told.data, fields), again=more)


def _chosen_fields(data: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    """``fields`` of ``data``: ``operators``, ``overlap.free_us``, ``findings.id``."""
    chosen: dict[str, Any] = {}
    for field in fields:
        name, _, inner = field.removeprefix("sections.").partition(".")
        if name not in data:
            near = ", ".join(get_close_matches(name, data, 1) or data)
            raise Refusal(message("mcp.no_field", name=field, near=Ours(near)))
        rows = data[name] if isinstance(data[name], list) else [data[name]]
        if inner and not all(isinstance(row, dict) and (inner in row) for row in rows):
            keys = ", ".join(rows[0]) if rows and isinstance(rows[0], dict) else name
            raise Refusal(message("mcp.no_field", name=field, near=Ours(keys)))
        if not inner:
            chosen[name] = data[name]
        elif isinstance(data[name], list):
            before = chosen.get(name) or [{} for _ in rows]
            chosen[name] = [part | {inner: row[inner]} for part, row in zip(before, rows, strict=True)]
        else:
            chosen[name] = chosen.get(name, {}) | {inner: data[name][inner]}
    return chosen


def explain_tool(session: OpenProfiles, call: ToolCall, given: Explain) -> ToolAnswer:
    """What a finding or a word means."""
    from npu_tui.output.explain import KINDS, explained, kind_of, meant, unknown
    from npu_tui.rules.explanation import explanation

    if not given.id:
        rows = [{"id": kind.id, "summary": explanation(kind).summary} for kind in KINDS]
        return ToolAnswer(verdict=[], data={"findings": rows}, again=Next("explain", {}))
    kind = kind_of(given.id)
    if kind is not None:
        [about] = plain(explained([kind], [], session.thresholds).explanations)
        return ToolAnswer(verdict=[explanation(kind).summary], data=about)
    known = meant(given.id)
    if not (known.words or known.kinds):
        raise Refusal(message("mcp.said", text=unknown(given.id)))
    rows = [{"id": kind.id, "summary": explanation(kind).summary} for kind in known.kinds]
    word_rows = plain(explained([], known.words).words)
    return ToolAnswer(verdict=[word.meaning for word in known.words[:1]], data={"words": word_rows, "findings": rows})


def tables_tool(session: OpenProfiles, call: ToolCall, given: Tables) -> ToolAnswer:
    """Tables, or the columns of one."""
    from npu_tui.query.query import about, described_columns, no_table

    tables = session.opened(given.path, call).tables
    if not given.table:
        rows = [{"table": name, "about": about(name)} for name in tables.names]
        return ToolAnswer(verdict=[], data={"tables": rows}, again=Next("tables", {"path": given.path}))
    if given.table not in tables.names:
        raise no_table(given.table, tables)
    columns = [
        {"name": printable(name), "type": kind, "unit": unit, "about": meaning}
        for name, kind, unit, meaning in described_columns(given.table, tables.columns(given.table))
    ]
    return ToolAnswer(
        verdict=[about(given.table)], data={"rows_of_table": tables.rows(given.table), "columns": columns}
    )


_MOST_ROWS = 10_000


def query_tool(session: OpenProfiles, call: ToolCall, given: Query) -> ToolAnswer:
    """Rows of SQL."""
    from npu_tui.query.query import query

    opened = session.opened(given.path, call)
    make = partial(query, opened.tables, given.sql, _MOST_ROWS, stopped=call.given_up)
    frame = opened.kept(("sql", given.sql), make)
    first, lacking = min(given.cursor, len(frame)), max(frame.width - ROWS, 0)
    frame = frame.select(frame.columns[:ROWS])
    rows = [[_short_cell(value) for value in row] for row in frame.slice(first, given.limit).iter_rows()]
    data: dict[str, Any] = {
        "columns": [printable(name) for name in frame.columns],
        "rows": [None] * first + rows + [None] * (len(frame) - first - len(rows)),
    }
    if lacking:
        data["columns_left_out"] = lacking
    return ToolAnswer(verdict=[], data=data)  # a call that reads on would repeat SQL, with what it has of the trace


def _short_cell(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return round(value, 3) if value == value and abs(value) < 1e300 else None
    if value is None or isinstance(value, (bool, int)):
        return value
    return [_short_cell(inner) for inner in value] if isinstance(value, list) else printable(str(value))


_MOST_CHANGES = 100


def whatif_tool(session: OpenProfiles, call: ToolCall, given: WhatIf) -> ToolAnswer:
    """What changes would gain."""
    from npu_tui.output.job_whatif import is_replayed, job_remedies, job_whatif
    from npu_tui.output.whatif import remedies, remedies_document, whatif

    opened = session.opened(given.path, call)
    changes, job = separated_texts(given.changes), None
    if opened.profile is None and is_replayed(opened.job):
        job = opened.job
    if len(changes) > _MOST_CHANGES:
        raise Refusal(message("mcp.too_many_changes", count=len(changes), most=_MOST_CHANGES))
    again = Next("whatif", {"path": opened.name})
    if not changes:
        make = partial(remedies, one_timeline(opened)) if job is None else partial(job_remedies, job)
        told = opened.kept("remedies", make)
        return ToolAnswer(verdict=[remedies_document(told).title], data=plain(told), again=again)
    found = whatif(one_timeline(opened), changes) if job is None else job_whatif(job, changes)
    told = _all_fields(whatif_statement(found)).data
    left_out = ("timeline", "source", "findings", "not_checked", "health")
    return ToolAnswer(verdict=told["verdict"], data={key: told[key] for key in told if key not in left_out})


def compare_tool(session: OpenProfiles, call: ToolCall, given: Compare) -> ToolAnswer:
    """A profile or a job against a base."""
    from npu_tui.jobs.against import JobComparison

    base, new = session.opened(given.base, call), session.opened(given.new, call)

    def compared() -> _Fields:
        if base.profile is None and new.profile is None:
            return _all_fields(job_comparison_statement(JobComparison(base.job, new.job)))
        return _all_fields(comparison_of(*(one_profile(side) for side in (base, new))))

    told = new.kept(("compared", base.place, base.stamp), compared)
    follow = [Next("explain", {"id": row["id"]}) for row in told.data["findings"][:1]]
    again = Next("compare", {"base": base.name, "new": new.name})
    return _document(told, separated_texts(given.fields), follow, again)


def ranks_tool(session: OpenProfiles, call: ToolCall, given: Ranks) -> ToolAnswer:
    """The report about a job."""
    opened = session.opened(given.path, call)
    job = opened.job
    if given.group is not None and not any(given.group in (group.name, group.kind) for group in job.groups):
        there = sorted({group.kind or group.name for group in job.groups})
        raise Refusal(message("job.no_group", group=given.group, there=there))
    step = None if given.step is None else str(given.step)
    if step is not None and step not in job.steps:
        raise Refusal(message("job.no_step", step=step, there=job.steps))
    narrow = given.group is not None or step is not None

    def make() -> _Fields:
        return _all_fields(job_statement(job.narrowed(given.group, step) if narrow else job))

    told = opened.kept(("ranks", given.group, step), make)
    follow = [Next("explain", {"id": row["id"]}) for row in told.data["findings"][:1]]
    again = None if narrow else Next("ranks", {"path": opened.name})
    return _document(told, separated_texts(given.fields), follow, again)


def log_tool(session: OpenProfiles, call: ToolCall, given: History) -> ToolAnswer:
    """The history of a run."""
    from npu_tui.jobs.history import read_log

    told = _all_fields(log_statement(read_log(session.roots.place(given.path))))
    fields = separated_texts(given.fields) or ["changes", "runs.label", "runs.step_us"]
    return _document(told, fields, [], Next("log", {"path": given.path}))


def screenshot_tool(session: OpenProfiles, call: ToolCall, given: Screenshot) -> ToolAnswer:
    """The screen, as text and as a picture."""
    from npu_tui.output.explain import kind_of, unknown
    from npu_tui.tui.picture import unknown_keys
    from npu_tui.view.start import parse_span
    from npu_tui.whole_file import write_file

    output = session.roots.new_file(given.output) if given.output else None
    if output is not None and output.suffix != ".svg":
        raise Refusal(message("cli.bad_output"))
    span = None if given.range is None else parse_span(given.range)
    if given.range is not None and span is None:
        raise Refusal(message("cli.bad_range"))
    if given.finding and kind_of(given.finding) is None:
        raise Refusal(message("mcp.said", text=unknown(given.finding)))
    if wrong := unknown_keys(given.keys.split()):
        raise Refusal(message("cli.bad_keys", keys=" ".join(wrong)))
    opened = session.opened(given.path, call)
    rows = _screen(opened, given, span)
    frame = ["".join(piece[0] for piece in row).rstrip() for row in rows]
    draw = partial(svg, rows, f"npu-tui {opened.name}")
    data: dict[str, Any] = {"frame": frame, "picture": session.keep_picture(draw)}
    if output is not None:
        write_file(output, draw().encode())
        data["written"] = printable(str(output))
    return ToolAnswer(verdict=[], data=data, links=[data["picture"]])


def _screen(opened: Opened, given: Screenshot, span: tuple[int, int] | None) -> list[list[Piece]]:
    """The rows of the screen; one of a profile keeps for the next what drawing has found out."""
    from npu_tui.tui.picture import screen
    from npu_tui.tui.session import make_session
    from npu_tui.view.start import Start

    profile, keys = opened.profile, given.keys.split()
    shown = opened.place if profile is None else opened.kept("session", partial(make_session, [profile]))
    start = Start(view=span, range=span, select=given.select, finding=given.finding.upper())
    key = ("screen", given.columns, given.rows, given.keys, span, given.select, start.finding)
    rows: list[list[Piece]] = opened.kept(key, partial(screen, shown, given.columns, given.rows, keys, start))
    return rows


def crop_tool(session: OpenProfiles, call: ToolCall, given: Crop) -> ToolAnswer:
    """A smaller trace."""
    from npu_tui.crop import crop

    output = session.roots.new_file(given.output)
    opened = session.opened(given.path, call)
    part = part_of(one_timeline(opened), given.range, given.step)
    made = crop(part, output, separated_texts(given.lanes), separated_texts(given.slices), given.clip)
    return ToolAnswer(verdict=[say("crop.done", **plain(made))], data=plain(made))


class Tool(NamedTuple):
    """A tool: the type of its arguments, what it does, and whether it may write a file that the caller names."""

    arguments: type[Arguments]
    run: Callable[[OpenProfiles, ToolCall, Any], ToolAnswer]
    writes: bool = False


TOOLS: dict[str, Tool] = {
    "open": Tool(Open, open_tool),
    "report": Tool(ReportArguments, report_tool),
    "explain": Tool(Explain, explain_tool),
    "tables": Tool(Tables, tables_tool),
    "query": Tool(Query, query_tool),
    "whatif": Tool(WhatIf, whatif_tool),
    "compare": Tool(Compare, compare_tool),
    "ranks": Tool(Ranks, ranks_tool),
    "log": Tool(History, log_tool),
    "screenshot": Tool(Screenshot, screenshot_tool, writes=True),
    "crop": Tool(Crop, crop_tool, writes=True),
}
"""Every tool by name, in the order in which they are used."""
