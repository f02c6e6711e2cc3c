"""Profiles of traces that a test has loaded, and what they say."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from written import fields_of

import npu_tui
from npu_tui.analysis.device import device_slices
from npu_tui.analysis.launches import Dispatch, dispatch
from npu_tui.analysis.limits import Thresholds
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.output.envelope import json_bytes
from npu_tui.output.report import report
from npu_tui.output.report_schema import Report
from npu_tui.profile.parts import WHOLE_TRACE, Selection
from npu_tui.profile.profile import Profile
from npu_tui.rules.model import Findings
from npu_tui.trace.model import Trace
from npu_tui.tui.session import Session, make_session

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def path_of(name: str) -> Path:
    """The fixture called ``name``, or the real profile at that path below the folder of traces."""
    bundled = FIXTURES / name
    if bundled.exists():
        return bundled
    traces = os.environ.get("NPU_TUI_TRACES")
    if not traces:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(traces) / name


@cache
def opened(name: str) -> npu_tui.Profile:
    """What ``path_of`` finds under ``name``, opened."""
    return npu_tui.open(path_of(name))


def profile_of(trace: Trace, thresholds: Thresholds | None = None, opened: Path | None = None) -> Profile:
    """The profile of ``trace`` with what lies beside it, as if ``opened`` had been given."""
    try:
        source = find_source(opened or Path(trace.path))
    except InputError:
        source = None
    return Profile(trace, source, thresholds)


@cache
def _kept(path: Path) -> Trace:
    return load(find_source(path))


def profile_at(path: Path | str, thresholds: Thresholds | None = None) -> Profile:
    """The profile at ``path``; fixtures and real profiles, which nobody changes, are read once."""
    source = find_source(Path(path))
    lasting = (FIXTURES, Path(os.environ.get("NPU_TUI_TRACES") or FIXTURES).resolve())
    stays = any(Path(path).resolve().is_relative_to(folder) for folder in lasting)
    return Profile(_kept(Path(path)) if stays else load(source), source, thresholds)


def part_of(trace: Trace, selection: Selection = WHOLE_TRACE, thresholds: Thresholds | None = None) -> Profile:
    return profile_of(trace, thresholds).part(selection)


def answers(trace: Trace, selection: Selection = WHOLE_TRACE, opened: Path | None = None) -> dict[str, Any]:
    """The JSON report, read back."""
    found: dict[str, Any] = fields_of(json_bytes(report(profile_of(trace, None, opened).part(selection))))
    return found


def report_of(found: dict[str, Any]) -> Report:
    """The report that ``found`` was read back from."""
    return msgspec.convert(found, Report)


def findings_of(trace: Trace, selection: Selection = WHOLE_TRACE) -> Findings:
    return part_of(trace, selection).findings


def session_of(*traces: Trace, whole: bool = True) -> Session:
    return make_session([profile_of(trace) for trace in traces], whole)


def dispatch_of(trace: Trace, thresholds: Thresholds | None = None) -> list[Dispatch]:
    return dispatch(trace, device_slices(trace), thresholds or Thresholds())
