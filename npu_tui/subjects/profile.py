"""The profile of one rank, and every other trace that has no subject of its own."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tui.rules.model import Kind
from npu_tui.subjects.declaration import Subject


def _findings() -> Sequence[Kind]:
    from npu_tui.rules.find import RULES  # all rules: the first picture does not wait for them

    return RULES


def _differences() -> Sequence[Kind]:
    from npu_tui.compare.differences import DIFFERENCES

    return DIFFERENCES


SUBJECT = Subject(id="profile", findings=_findings, differences=_differences)
