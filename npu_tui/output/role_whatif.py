"""What a change of the roles of a job would gain: tails as the median, a role faster; as the answer of a what-if."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npu_tui.analysis.what_if import UnknownChangeError
from npu_tui.jobs.job import Job
from npu_tui.jobs.role_findings import role_causes, shortened
from npu_tui.jobs.roles import Roles, RoleSpan
from npu_tui.load.errors import InputError
from npu_tui.output.whatif import SCHEMA_VERSION, Remedies, Row, WhatIf
from npu_tui.profile.table import us
from npu_tui.trace.message import message

_TAIL = re.compile(r"(?:tails?(?:\s+of\s+(?P<role>\S+))?\s+as\s+the\s+median|fix\s+ROLE\.TAIL)", re.IGNORECASE)
_ROLE = re.compile(r"role\s+(?P<role>\S+)\s+[x×*]\s*(?P<factor>\d{1,6}(?:\.\d{1,6})?)", re.IGNORECASE)

Less = dict[RoleSpan, float]
"""By how many ns stints get shorter."""


def is_of_roles(text: str) -> bool:
    """Whether ``text`` is a change of roles."""
    words = " ".join(text.split())
    return bool(_TAIL.fullmatch(words) or _ROLE.fullmatch(words))


def roles_in(job: Job) -> Roles:
    """The roles of ``job``. Raises ``InputError`` where it has none: there is nothing to replay."""
    if job.roles is None:
        raise InputError(message("whatif.no_roles", path=str(job.path)))
    return job.roles


def role_whatif(job: Job, texts: Sequence[str]) -> WhatIf:
    """The steps of ``job`` with ``texts`` changed one after another.

    Raises ``UnknownChangeError`` for a text that means nothing here, ``InputError`` where it has no roles.
    """
    roles = roles_in(job)
    count, recorded = len(roles.steps), max(span.end for span in roles.spans) - roles.spans[0].start
    less: Less = {}
    rows: list[Row] = []
    total = 0
    for text in texts:
        asked = _asked(roles, text)
        # Of two changes of one stint the one counts that shortens it more.
        less = {span: max(less.get(span, 0.0), asked.get(span, 0.0)) for span in less | asked}
        gain = roles.gain(less) - total
        total += gain
        rows.append(_row(" ".join(text.split()), roles, asked, roles.gain(asked), gain, total))
    return WhatIf(
        schema_version=SCHEMA_VERSION,
        kind="whatif",
        path=str(job.path),
        device=None,
        steps=count,
        warm_up=0,
        unit="step",
        recorded_us=us(recorded),
        replayed_us=us(recorded),
        error=0.0,
        step_us=us(roles.length),
        step_after_us=us(roles.length - total / count),
        gain_us=us(total / count),
        changes=tuple(rows),
        timeline=(),
        replays="roles",
    )


def role_remedies(job: Job) -> Remedies:
    """The tail of every role as the median, each alone, the one that gains most first. Raises ``InputError``."""
    roles = roles_in(job)
    texts = [f"tail of {cause.spans[0].role} as the median" for cause in role_causes(roles) if cause.id == "ROLE.TAIL"]
    rows = []
    for text in texts:
        asked = _asked(roles, text)
        gain = roles.gain(asked)
        rows.append(_row(text, roles, asked, gain, gain, gain))
    return Remedies("step", tuple(sorted((row for row in rows if row.alone_us > 0), key=lambda row: -row.alone_us)))


def _row(text: str, roles: Roles, asked: Less, alone: int, gain: int, total: int) -> Row:
    count = len(roles.steps)
    after = us(roles.length - total / count)
    return Row(text=text, matches=len(asked), alone_us=us(alone / count), gain_us=us(gain / count), step_us=after)


def _asked(roles: Roles, text: str) -> Less:
    """What ``text`` changes. Raises ``UnknownChangeError``."""
    words = " ".join(text.split())
    if match := _TAIL.fullmatch(words):
        named = match["role"]
        less = shortened([tail for tail in roles.tails if named in (None, tail.role)])
    elif match := _ROLE.fullmatch(words):
        spans = [span for span in roles.spans if match["role"] in (span.role, span.place)]
        less = {span: (1 - float(match["factor"])) * (span.end - span.start) for span in spans}
    else:
        raise UnknownChangeError(message("whatif.unknown_role", text=text))
    if not less:
        raise UnknownChangeError(message("whatif.nothing", text=text))
    return less
