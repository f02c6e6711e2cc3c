"""What is said of a profile of which a part is not there: its analysis has not ended, no device, or nothing ran."""

from __future__ import annotations

import re

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.borrowed import capture_time
from npu_tui.analysis.limits import A_PART
from npu_tui.load.find import Source, writer_of
from npu_tui.load.raw import unfinished, without_device
from npu_tui.rules.model import Finding, Findings
from npu_tui.trace.kineto import runtime_calls
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace

_RECORD = frozenset({"finding.advice.record_host", "finding.advice.record_launches"})
"""Advice to record what was recorded, and waits to be analysed."""
_NO_DEVICE = "finding.verdict.no_device"


def with_what_is_missing(found: Findings, source: Source) -> Findings:
    """``found`` with what is missing of the profile that ``source`` is part of, and why."""
    file, survey = source.files[0], source.survey
    if (place := unfinished(file, survey)) is not None:
        advice = message("finding.advice.analyse", path=str(place))
        told = {id(one): _advised(one, advice) for one in found.findings}
        return replace(
            found,
            findings=tuple(told.values()),
            verdict=(message("finding.verdict.unfinished", path=str(place)), *found.verdict),
            leaders=tuple(told.get(id(one), one) for one in found.leaders),
        )
    codes = [line.code for line in found.verdict if isinstance(line, Message)]
    if codes[:1] == [_NO_DEVICE] and writer_of(source) in ("torch_npu", "mindspore", "msprof"):
        why = message(f"finding.verdict.device_{without_device(file, survey) or 'unknown'}")
        return replace(found, verdict=(*found.verdict, why))
    return found


def capturing(trace: Trace) -> Message | None:
    """That the trace is one of a graph's capture, in which nothing runs; None if it is not."""
    time = capture_time(trace)
    return message("finding.verdict.capturing", time=time, total=trace.end) if time > A_PART * trace.end else None


_LAUNCH = re.compile(r"(?:cuda|hip|musa|cu|xpu|ur)\w*Launch\w*", re.IGNORECASE)


def with_launches(found: Findings, trace: Trace, kind: str) -> Findings:
    """``found`` with what is known of a trace without a device: launches of another device, or another tool's trace."""
    if [line.code for line in found.verdict if isinstance(line, Message)] != [_NO_DEVICE]:
        return found
    calls = runtime_calls(trace)
    if kind == "kineto" and len(calls):
        launches = np.array([_LAUNCH.match(name) is not None for name in trace.names] + [False])
        count = int(np.count_nonzero(launches[trace.slices.name[calls]]))
        return replace(found, verdict=(message("finding.verdict.no_kernels", count=count),))
    if kind == "chrome_trace":
        return replace(found, verdict=(message("finding.verdict.other_tool"),))
    return found


def _advised(finding: Finding, instead: Message) -> Finding:
    advice = dict.fromkeys(instead if one.code in _RECORD else one for one in finding.advice)
    return replace(finding, advice=tuple(advice))
