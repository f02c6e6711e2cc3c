"""An inference service: what msServiceProfiler says of its requests, batches and KV blocks.

It is recognised by the names of its tables (``load.formats.service``) and read into a ``Service`` (``load.service``)
and a trace of its requests and engines (``load.service_trace``). Its rules replay the scheduler (``rules.service``).
"""

from __future__ import annotations

from npu_tui.profile.profile import Profile
from npu_tui.profile.service_tables import BATCH_KINDS, service_about
from npu_tui.rules.model import SubjectVerdict
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.rules.service_verdict import JudgedService
from npu_tui.strings import say
from npu_tui.subjects.declaration import Fact, Subject, Without
from npu_tui.trace.model import Trace
from npu_tui.trace.text import duration_text, size_text


def _about(trace: Trace, judged: SubjectVerdict | None) -> str | None:
    if trace.service is None:
        return None
    found = judged.found if isinstance(judged, JudgedService) else None
    steps, engines = (0, 0) if found is None else (len(found.steps), len(found.engines))
    return service_about(len(trace.service.requests), steps, engines)


def _summary(profile: Profile) -> list[Fact]:
    """Batches of a service by engine and by what they compute, and its files."""
    sheet, service = BATCH_KINDS.make(profile), profile.trace.service
    columns = map(sheet.values, ("dp_rank", "pass", "kind", "total", "calls", "p50", "p99"))
    facts = []
    for rank, passed, kind, total, calls, p50, p99 in zip(*columns, strict=True):
        words = [word for word in (None if rank is None else f"DP {rank}", passed, kind) if word]
        more = say("summary.passes", count=calls, p50=p50, p99=p99)
        facts.append(Fact("batch", " ".join(words), duration_text(total), more))
    files = {} if service is None else service.files
    return facts + [Fact("file", name, size_text(size)) for name, size in files.items()]


SUBJECT = Subject(
    id="service",
    about=_about,
    summary=_summary,
    is_profiled=False,
    is_alone=True,
    lies_among=True,
    ways="again.limits",
    hint=("requests", "tab_lines"),
    tabs={
        "lines": "requests",
        "links": "batches",
        "operators": "batch_kinds",
        "communication": "kv_blocks",
        "memory": "",
        "engine_steps": "requests",
        "engine_kinds": "batch_kinds",
    },
    no_kernels="lines.service",
    findings=lambda: SERVICE_RULES,
    of_others="gate.no_service",
    not_here="gate.service_only",
    no_times="gate.no_device_here",
    no_film="film.service",
    without={
        "compare": Without(("step", "map", "rank", "tolerance", "ignore", "eager"), "compare.service.options"),
        "check": Without(("against", "baseline", "write_baseline", "range", "step"), "gate.service_alone"),
    },
    refusals={"crop": "crop.service"},
    unlike="compare.service.mixed",
)
