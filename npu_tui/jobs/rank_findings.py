"""What a rank alone would gain by its own profile, as the summary of the rank keeps it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import PLACES
from npu_tui.analysis.replay import NO_CHANGE, Change
from npu_tui.jobs.model import RankFinding
from npu_tui.profile.profile import Profile
from npu_tui.rules.host_pauses import pauses_behind_peers
from npu_tui.rules.host_work import work_behind_peers
from npu_tui.rules.model import Finding
from npu_tui.trace.intervals import covered_within, union


def findings_of(profile: Profile) -> tuple[RankFinding, ...]:
    """What the rank alone would gain, causes before what they explain, the dearest first."""
    found, above = [], NO_CHANGE
    for row in profile.findings.findings:
        is_cause = row.verdict is not None and row.part_of is None and not row.by_design
        if row.gain_ns and not row.hidden:
            line = next(((code.file, code.line) for code in row.code_lines), None)
            told = RankFinding(row.id, row.gain_ns, row.title, row.cls, line, row.count, is_cause)
            if is_cause:
                by_step = () if row.remedy is None else _by_step(profile, row.remedy.change)
                told = replace(told, freed=_freed(profile, row, above), advice=row.advice, by_step=by_step)
            found.append(told)
        if is_cause and row.remedy is not None:
            above |= row.remedy.change
    kept = sorted(found, key=lambda row: (not row.is_cause, -row.gain))[:PLACES]
    return (*kept, *_behind_peers(profile, {row.about for row in kept if row.is_cause}))


def _by_step(profile: Profile, change: Change) -> tuple[int, ...]:
    """How long the host does what ``change`` takes out in each numbered step, ns; empty where it does not."""
    slices, steps = profile.trace.slices, [step.item for step in profile.steps if step.number is not None]
    if not change.host or not steps:
        return ()
    start, end = (np.concatenate([cut.span[side] for cut in change.host]) for side in (0, 1))
    return tuple(covered_within(*union(start, end), slices.start[steps], slices.end[steps]).astype(int).tolist())


def _behind_peers(profile: Profile, known: set[Hashable]) -> list[RankFinding]:
    """Work and pauses of the host, but what is ``known``, shorter than the rank waits for others: no gain alone."""
    found = []
    for facts in profile.facts if len(profile.facts) == 1 else ():
        pauses = pauses_behind_peers(facts)
        drafts = [("HOST.WORK", draft) for draft in work_behind_peers(facts)]
        for id, draft in (*drafts, *([("HOST.PAUSE", pauses)] if pauses is not None else [])):
            line = next(((code.file, code.line) for code in draft.code_lines), None)
            freed, advice = round((draft.most or 0) / facts.count), draft.advice or ()
            by_step = _by_step(profile, draft.change or NO_CHANGE)
            row = RankFinding(id, 0, draft.title, "dispatch", line, facts.count, True, freed, advice, by_step)
            found += [row] if row.about not in known else []
    return found


def _freed(profile: Profile, finding: Finding, above: Change) -> int:
    """What a step of the rank gains without ``finding``, after ``above``, once the others are in time, ns.

    0 where no replay tells.
    """
    if finding.remedy is None or len(profile.facts) > 1:
        return 0
    gain = profile.facts[0].freed(finding.remedy.change, above) or 0
    return round((gain if finding.remedy.most is None else min(gain, finding.remedy.most)) / finding.count)
