"""Every way into a run gives the same answers: the report of a text profile beside that of its database.

    python tests/same_answers.py                     # text profiles in NPU_TUI_TRACES, databases written from them
    python tests/same_answers.py TEXT DATABASE       # a text profile and a database of the same run
    python tests/same_answers.py --simulated [NAME…] # every simulated job of tests/causes.py, as both

prints the fields of the JSON report that differ by more than 0.2 % of a time, or at all in a count or a word. A
database keeps the start of the call that launches; a text of older versions has the time of the submission, some
microseconds later, from which differences of dispatch follow. With ``--launches`` the text has the start as well.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("tests/load/database", "tests/rules", "tests", "fixtures")
sys.path[:0] = [str(ROOT), *(str(ROOT / folder) for folder in FOLDERS)]

from cause import Job  # noqa: E402 - its folder is no package
from causes import ALL  # noqa: E402
from dialect import DECIMAL, OLDER_CHIP  # noqa: E402
from export import Profile as TextProfile  # noqa: E402
from export import export, export_analysis, nanoseconds  # noqa: E402
from jobs import first_of, put  # noqa: E402
from written import fields_of  # noqa: E402

from npu_tui.load.load import opening_of  # noqa: E402
from npu_tui.output.envelope import json_bytes  # noqa: E402
from npu_tui.output.report import report  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402

SHARE = 0.002
LEAST_US = 0.01
"""A text rounds the overlap analysis to whole nanoseconds elsewhere."""

KEYS = ("id", "name", "category", "type", "file", "key")
"""Fields that tell the entries of a list apart."""

SETTINGS = ("profiler_metadata.json",)

UNLIKE = (
    "source.path",
    "source.kind",
    "source.bytes",
    "trace.events",  # a database has no metadata events
    "health.events",
    "cross_check[",  # a database has no tables of the profiler to compare with
    "files[",  # other files lie there
    "findings[KERNEL.BOUND]",  # it reads OP State, which a database before schema 1.1 does not keep
    "findings[DTYPE].advice[",  # nor HF32 Eligible
)
"""Fields that no database can answer as a text does."""

UNLIKE_AT_LEVEL_0 = (
    *UNLIKE,
    "trace.slices",
    "trace.lanes",
    "layers[CANN].lanes",
    "layers[CANN].slices",
    "apis[",
    "not_checked[",
    "findings[OP.FORMAT]",  # nor does it have the formats of tensors
    # What the run takes without a cause is replayed with the calls of CANN where they are known.
    "findings[STEP.START].",
    "findings[DISPATCH.INTERRUPT].",
    *(f"findings[{each}].step_after_us" for each in ("COMM.LONGOP", "DISPATCH.FREE", "DISPATCH.STAGE", "OP.SMALL")),
)
"""At level 0 a text leaves the calls of CANN out, and with them what is told of them."""


UNLIKE_SIMULATED = (
    *UNLIKE,
    "not_checked[",  # its text has no tables beside the trace
    "findings[OP.FORMAT]",
    "memory",
    "health.warnings[",
)


UNLIKE_SIMULATED_AT_LEVEL_0 = (
    *UNLIKE_SIMULATED,
    "trace.slices",
    "trace.lanes",
    "layers[CANN].",
    "apis[",
    "findings[SYNC.HOST]",  # its waits are calls of CANN
    "findings[DISPATCH.FREE].gain",
    "dispatch.drains[",
    "findings[DISPATCH.INTERRUPT].",
    # What a sync ends with is a call of CANN, and what follows it is replayed from there.
    "findings[STEP.START].",
    "findings[DISPATCH.VERTICAL].gain",
    "findings[DISPATCH.STAGE].",
    "critical_path.",
)

UNLIKE_OF_AN_OLDER_CHIP = (*UNLIKE_SIMULATED, "findings[DATA.COPY].detail")
"""Its text has the size and direction of copies."""


@dataclass(frozen=True)
class Difference:
    """A field of two reports with both its values."""

    field: str
    text: Any
    database: Any


def answers(path: Path) -> dict[str, Any]:
    """The JSON report of the profile at ``path``."""
    opening = opening_of(path, cached=False)
    found: dict[str, Any] = fields_of(json_bytes(report(Profile(opening.trace(), opening.source))))
    return found


def differences(text: Any, database: Any, field: str = "") -> Iterator[Difference]:
    """Where two reports differ; entries of lists are matched by what names them, else by their place."""
    if isinstance(text, dict) and isinstance(database, dict):
        for key in [*text, *(key for key in database if key not in text)]:
            yield from differences(text.get(key), database.get(key), f"{field}.{key}" if field else str(key))
    elif isinstance(text, list) and isinstance(database, list):
        left, right = _by_name(text), _by_name(database)
        for name in [*left, *(name for name in right if name not in left)]:
            yield from differences(left.get(name), right.get(name), f"{field}[{name}]")
    elif not _same(text, database):
        yield Difference(field, text, database)


def _by_name(entries: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, entry in enumerate(entries):
        names = [str(entry[key]) for key in KEYS if isinstance(entry, dict) and entry.get(key) is not None]
        if isinstance(entry, dict) and "line" in entry:
            names.append(str(entry["line"]))
        name = " ".join(names) or str(place)
        while name in found:
            name += "'"
        found[name] = entry
    return found


def _same(text: Any, database: Any) -> bool:
    numbers = isinstance(text, int | float) and isinstance(database, int | float)
    if not numbers or isinstance(text, bool) or isinstance(database, bool):
        return bool(text == database)
    if isinstance(text, int) and isinstance(database, int):
        return text == database
    return bool(abs(text - database) <= max(SHARE * max(abs(text), abs(database)), LEAST_US))


def exported(profile: Path, folder: Path, rank: int) -> Path:
    """A profile in ``folder`` with databases instead of the text files of ``profile``."""
    output = folder / profile.name / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    for settings in [*profile.glob("profiler_info*.json"), *(profile / name for name in SETTINGS)]:
        if settings.is_file():
            shutil.copy(settings, output.parent)
    export(profile, output / f"ascend_pytorch_profiler_{rank}.db", rank)
    export_analysis(profile, output / "analysis.db")
    return output.parent


def simulated(job: Job, folder: Path) -> tuple[Path, Path]:
    """The first rank of ``job`` as a text profile and as one with a database, both below ``folder``.

    The links of the text begin with the calls that launch, as those of newer versions and of databases do.
    """
    job = tuple(replace(rank, dialect=replace(rank.dialect, links_from_call=True)) for rank in job)
    text, called, database = (folder / name / "run" for name in ("text", "called", "database"))
    put(first_of(job), text)
    calls = None
    if not job[0].profiler_level:
        put(first_of(tuple(replace(rank, profiler_level=1) for rank in job)), called)
        calls = TextProfile(called)
    output = database / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    for settings in text.glob("profiler_info*.json"):
        shutil.copy(settings, database)
    export(text, output / f"ascend_pytorch_profiler_{job[0].rank}.db", job[0].rank, calls=calls)
    return text, database


def with_calls_as_sources(profile: Path, folder: Path) -> Path:
    """A copy of the text ``profile`` in ``folder`` whose launches begin with their calls, as newer versions have it."""
    copy = folder / "text" / profile.name
    shutil.copytree(profile, copy)
    trace = copy / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    events = json.loads(trace.read_bytes())
    calls: dict[int, list[tuple[int, int, str]]] = {}
    for event in events:
        if event["ph"] == "X" and event["name"] == "Node@launch":
            start = nanoseconds(event["ts"])
            calls.setdefault(event["tid"], []).append((start, start + round(event["dur"] * 1000), event["ts"]))
    for event in events:
        if event["ph"] == "s" and event.get("cat") == "HostToDevice":
            time = nanoseconds(event["ts"])
            inside = [text for start, end, text in calls.get(event["tid"], []) if start <= time < end]
            event["ts"] = inside[-1] if inside else event["ts"]
    trace.chmod(0o644)
    trace.write_text(json.dumps(events))
    return copy


def main(words: list[str]) -> int:
    """Print the tables."""
    moved = "--launches" in words
    words = [word for word in words if word != "--launches"]
    if words[:1] == ["--simulated"]:
        for name, cause in ALL.items():
            if cause.job[0].dialect is DECIMAL:
                continue  # those versions write no databases
            if any(word in name for word in words[1:] or [""]):
                with tempfile.TemporaryDirectory() as folder:
                    unlike = UNLIKE_SIMULATED if cause.job[0].profiler_level else UNLIKE_SIMULATED_AT_LEVEL_0
                    if cause.job[0].dialect is OLDER_CHIP:
                        unlike = UNLIKE_OF_AN_OLDER_CHIP
                    _table(name, *simulated(cause.job, Path(folder)), unlike)
        return 0
    if len(words) == 2:
        _table(words[0], Path(words[0]), Path(words[1]))
        return 0
    traces = Path(os.environ["NPU_TUI_TRACES"])
    for profile in sorted(traces.glob("text/*/*_ascend_pt")):
        with tempfile.TemporaryDirectory() as folder:
            rank = int("".join(letter for letter in profile.name if letter.isdecimal()) or 0)
            text = with_calls_as_sources(profile, Path(folder)) if moved else profile
            _table(str(profile.relative_to(traces)), text, exported(profile, Path(folder), rank))
    return 0


def _apart(text: dict[str, Any], database: dict[str, Any], unlike: tuple[str, ...]) -> set[str]:
    """The titles of findings worth work that the two tell otherwise, of those that they cannot tell alike."""
    rows = ([row for row in side["findings"] if row["severity"] != "info"] for side in (text, database))
    one, other = ({(row["id"], row["title"]) for row in side} for side in rows)
    return {title for key, title in one ^ other if f"findings[{key}]" in unlike}


def _told(answer: dict[str, Any], apart: set[str]) -> dict[str, Any]:
    """``answer`` without what follows from the findings that are told ``apart``: their places in the order of work."""
    for row in answer["findings"] if apart else []:
        row["step_after_us"], row["detail"] = None, row["detail"].partition("; the next bottleneck is")[0].rstrip(".")
    answer["verdict"] = [line for line in answer["verdict"] if not any(title in line for title in apart)]
    return answer


def _table(title: str, text: Path, database: Path, unlike: tuple[str, ...] = ()) -> None:
    both = answers(text), answers(database)
    apart = _apart(*both, unlike)
    found = [each for each in differences(*(_told(side, apart) for side in both)) if not each.field.startswith(unlike)]
    print(f"{title}: {len(found)} fields differ")
    for each in found:
        shown = [json.dumps(value, ensure_ascii=False)[:48] for value in (each.text, each.database)]
        print(f"  {each.field[:74]:74}  {shown[0]:>48}  {shown[1]:>48}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
