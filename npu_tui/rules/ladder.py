"""The order of work: what the step would lose to each finding once those above it are fixed.

The finding that shortens the step most goes first, then the one that shortens what is left of it most, so that no time
counts twice; what is contained in a finding above is a part of it. Where the run can be replayed, a gain is how much
shorter the run is without the causes; otherwise it is the time of the device that they take together.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import A_PART, ALMOST_ALL, HALF, MAINLY, NOTABLE, PLACES, UNSEEN, Threshold
from npu_tui.analysis.replay import NO_CHANGE, Change, Replay
from npu_tui.rules.blame import late_behind_collectives
from npu_tui.rules.config import still_to_do
from npu_tui.rules.facts import Facts
from npu_tui.rules.functions import line_within
from npu_tui.rules.inputs import NOTHING, common, inside, length_of, together, without
from npu_tui.rules.joined import joined
from npu_tui.rules.judged_path import launching_gains, lines_under
from npu_tui.rules.left_out import UNENDED
from npu_tui.rules.model import MUCH_LOST, SEVERITIES, Finding, Remedy, Severity
from npu_tui.rules.rule import Draft, FiredRule, Reach, advise, sentences, severity_of
from npu_tui.strings import words
from npu_tui.trace.intervals import covered_before, union
from npu_tui.trace.message import Message, Said, message

COMPUTE_HIDDEN = Threshold("compute_hidden", 0.2)

SUMMING_UP = ("UTIL", "VERDICT")
"""The rules that sum the job up and come last."""

_NEARNESS: dict[Reach, int] = {"cause": 2, "place": 1, "broad": 0, "symptom": -1}


class Rung(Struct, frozen=True):
    """A candidate with its place on the ladder; lengths in ns over all steps.

    ``own`` is the most it gained at any point of the climb, ``alone`` what it gains as the first one: a rung that is
    ``held`` gains hardly anything before those above it are fixed. An ``idle`` one gains nothing at all, as something
    else takes as long. The gain of an ``unknown`` one is not known, as what waited for it was not recorded. One that
    ``leads`` is a loss that no rung explains: its gain is unknown. Those that a ``shown`` one is part of are nearer to
    what must be changed.
    """

    candidate: FiredRule
    gain: int | None
    removed: int | None
    part_of: tuple[str, ...] | None
    own: int = 0
    alone: int | None = None
    idle: bool = False
    unknown: bool = False
    leads: bool = False
    shown: bool = False

    @property
    def held(self) -> bool:
        """Whether something above it takes as long at the same time."""
        return self.alone is not None and self.gain is not None and self.alone < A_PART * self.gain


class Scale:
    """Weighs drafts, ns over all steps: by the time of the device that they name."""

    def removed(self, *drafts: Draft) -> int:
        """What ``drafts`` remove together."""
        spans = [draft.removes for draft in drafts if draft.removes is not None]
        return length_of(together(*spans)) if spans else 0

    def removed_by_each(self, groups: Sequence[Sequence[Draft]]) -> list[int]:
        """What the drafts of each group remove together."""
        return [self.removed(*drafts) for drafts in groups]


class ReplayScale(Scale):
    """Weighs drafts by running the job again without them; a draft that names no change is one of late launches."""

    def __init__(self, facts: Facts, replay: Replay, threads: int = 1) -> None:
        self._facts = facts
        self._replay = replay
        self._threads = threads
        self._gains: dict[frozenset[int], int] = {}
        self._changes: dict[int, Change] = {}
        self._drafts: list[Draft] = []

    def removed(self, *drafts: Draft) -> int:
        """How much shorter the run is without ``drafts``, ns."""
        key = frozenset(map(id, drafts))
        if key not in self._gains:
            self._drafts += drafts  # while a draft lives no other one gets its id
            change = NO_CHANGE
            for draft in drafts:
                change |= self.change_of(draft)
            self._gains[key] = max(self._replay.gain(change), 0)
        return self._gains[key]

    def removed_by_each(self, groups: Sequence[Sequence[Draft]]) -> list[int]:
        """How much shorter the run is without the drafts of each group, ns."""
        if self._threads == 1 or len(groups) < 2:
            return super().removed_by_each(groups)
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(lambda drafts: self.removed(*drafts), groups))

    def change_of(self, draft: Draft) -> Change:
        """What is changed in the run without ``draft``."""
        if id(draft) not in self._changes:
            change = draft.change if draft.change is not None else self._cpu_waits(draft)
            self._changes[id(draft)] = self._facts.judged(change)
        return self._changes[id(draft)]

    def _cpu_waits(self, draft: Draft) -> Change:
        if draft.removes is None or not len(draft.removes[0]):
            return NO_CHANGE
        start, end = draft.removes
        within = np.array([start.min()]), np.array([end.max()])
        late = common(late_behind_collectives(self._facts), within)
        return self._facts.without_work(together(draft.removes, late))


def scale_of(facts: Facts, threads: int = 1) -> Scale:
    """The replay of the run where it is close to what was recorded, else the intervals of the device."""
    return Scale() if facts.replay is None else ReplayScale(facts, facts.replay, threads)


def climb(candidates: list[FiredRule], facts: Facts, threads: int = 1) -> list[Finding]:
    """The findings of ``candidates`` in the order of work; those that shorten the step, or weigh as much, lead."""
    scale = scale_of(facts, threads)
    launching = None if facts.replay is None else max(launching_gains(facts), default=0)
    least = max(round(UNSEEN * facts.step_ns), 1) * facts.count
    counting = [candidate for candidate in candidates if _counts(candidate, facts)]
    if isinstance(scale, ReplayScale):
        whole = dict(zip(counting, joined(counting, facts, scale.removed), strict=True))
        candidates = [whole.get(candidate, candidate) for candidate in candidates]
        counting = list(whole.values())
    rungs = _ladder(counting, scale, least, launching)
    climbing = {rung.candidate for rung in rungs}
    others = [candidate for candidate in candidates if candidate not in climbing]
    weighed = [candidate for candidate in others if candidate.draft.weight and _is_work(candidate, facts)]
    others = sorted(
        (candidate for candidate in others if candidate not in weighed),
        key=lambda candidate: _rank_outside(candidate, facts),
    )
    steps = [rung for rung in rungs if rung.part_of is None]
    lead = _unexplained(candidates, others, steps, facts)
    if lead is not None:
        others = [candidate for candidate in others if candidate is not lead]
        unrecorded = _counts(lead, facts) and _is_unknown(lead, facts)
        steps.insert(0, Rung(lead, None, None, None, unknown=unrecorded, leads=True))
    # A weight is not a gain, so weighed findings come after all that shorten the step.
    weighed.sort(key=lambda candidate: (SEVERITIES.index(candidate.draft.severity), -candidate.draft.weight))
    steps += [Rung(candidate, _own_gain(candidate, scale), None, None) for candidate in weighed]
    unknown = [candidate for candidate in others if _counts(candidate, facts) and _is_unknown(candidate, facts)]
    others = [candidate for candidate in others if candidate not in unknown]
    unknown.sort(key=lambda candidate: (-_NEARNESS[candidate.reach], -length_of(candidate.span)))
    steps += [Rung(candidate, None, None, None, unknown=True) for candidate in unknown]
    stuck = [candidate for candidate in others if candidate.rule.id == UNENDED]
    others = [candidate for candidate in others if candidate not in stuck]
    steps = [*(Rung(candidate, None, None, None) for candidate in stuck), *steps]
    following = dict(zip((id(rung) for rung in steps), steps[1:], strict=False))
    parts = [rung for rung in rungs if rung.part_of is not None]
    # A finding that counts and gains nothing says so (0); one that does not count has no gain (None).
    rest = [
        Rung(candidate, _own_gain(candidate, scale) or (0 if counts else None), None, None, idle=counts)
        for candidate, counts in ((candidate, _counts(candidate, facts)) for candidate in others)
    ]
    findings = [
        _remedied(_finding_of_rung(rung, facts, above, following.get(id(rung))), rung, facts, scale)
        for above, rung in enumerate((*steps, *parts, *rest))
    ]
    return _numbered(findings, len(steps))


def is_work(finding: Finding) -> bool:
    """Whether to work on ``finding``, or its row: it does more than inform, computing does not hide it, there is more
    to do than what contains it asks for, and it sums no others up.
    """
    part, advice = finding.part_of, finding.advice
    contained = part is not None and len(advice) == 1 and part in words(advice[0])
    return finding.severity != "info" and not finding.hidden and not contained and finding.id not in SUMMING_UP


def _numbered(findings: list[Finding], leading: int) -> list[Finding]:
    """``findings``, those of one rule counted; only the ``leading`` ones have a line in the verdict."""
    numbers: dict[str, int] = {}
    numbered = []
    for place, finding in enumerate(findings):
        numbers[finding.id] = number = numbers.get(finding.id, 0) + 1
        numbered.append(replace(finding, number=number, verdict=finding.verdict if place < leading else None))
    return numbered


def _unexplained(
    candidates: list[FiredRule], others: list[FiredRule], steps: list[Rung], facts: Facts
) -> FiredRule | None:
    """The one of ``others`` that leads: the largest loss, where the ``steps`` of the ladder explain too little of it.

    That is the finding of the loss itself, or the one nearest to a cause that covers most of the loss.
    """
    explained = together(*(rung.candidate.span for rung in steps), NOTHING)
    losses = [
        (length_of(without(candidate.draft.unexplained.span, explained)), candidate)
        for candidate in candidates
        if candidate.draft.unexplained is not None
    ]
    rest, loss = max(losses, key=lambda row: row[0], default=(0, None))
    if loss is None or loss.draft.unexplained is None or facts.share(rest) <= MUCH_LOST:
        return None
    if any((rung.gain or 0) >= rest or rung.candidate is loss for rung in steps):
        return None
    span = without(loss.draft.unexplained.span, explained)
    covering = [
        candidate
        for candidate in others
        if candidate is loss or (_counts(candidate, facts) and length_of(common(candidate.span, span)) >= HALF * rest)
    ]
    return max(
        covering,
        key=lambda candidate: (_NEARNESS[candidate.reach], candidate is not loss, length_of(candidate.span)),
        default=None,
    )


def _counts(candidate: FiredRule, facts: Facts) -> bool:
    """Whether the candidate shortens the step: not what is info, hidden, a choice, or about the profile only."""
    if candidate.draft.choice:
        return False
    tried = candidate.draft.removes is not None and candidate.draft.change is not None
    return _is_work(candidate, facts) and (length_of(candidate.span) > 0 or tried)


def _is_unknown(candidate: FiredRule, facts: Facts) -> bool:
    """Whether streams waited, for an unknown reason, during most of what the candidate removes."""
    if facts.replay is None:
        return False
    waited = common(candidate.span, facts.replay.model.unexplained)
    return length_of(waited) > HALF * length_of(candidate.span)


def _is_work(candidate: FiredRule, facts: Facts) -> bool:
    real = candidate.draft.severity != "info" and not candidate.rule.of_profiler
    return real and not is_hidden(candidate, facts)


def is_hidden(candidate: FiredRule, facts: Facts) -> bool:
    """Whether the finding is about computing while computing is not where the time goes."""
    judged = candidate.rule.cls == "compute" and candidate.rule.id not in SUMMING_UP
    return judged and facts.share(facts.sums.computing) < facts.limits[COMPUTE_HIDDEN]


def _own_gain(candidate: FiredRule, scale: Scale) -> int | None:
    """What it removes alone. The replay always has the profiler's own work in it, so that counts by its device time."""
    if candidate.draft.removes is None:
        return None
    if candidate.rule.of_profiler:
        return length_of(candidate.span)
    return _at_most(candidate, scale.removed(candidate.draft))


def _rank_outside(candidate: FiredRule, facts: Facts) -> tuple[object, ...]:
    """Orders findings after the ladder: by severity, those of the job before those of the profile, then by weight.

    What is hidden comes after all that is not, and the two that sum the job up come last.
    """
    draft = candidate.draft
    summing_up = candidate.rule.id in SUMMING_UP
    hidden = is_hidden(candidate, facts)
    severity = SEVERITIES.index(draft.severity)
    return summing_up, hidden, severity, -(length_of(candidate.span) or draft.weight)


def _ladder(candidates: list[FiredRule], scale: Scale, least: int, launching: int | None = None) -> list[Rung]:
    """The rungs of ``candidates``; those that gain less than ``least`` ns, whatever is fixed before, are left out."""
    left = list(candidates)
    taken: list[FiredRule] = []
    rungs: list[Rung] = []
    most = dict.fromkeys(candidates, 0)
    parts: list[FiredRule] = []
    before: dict[FiredRule, int] = {}
    shares: dict[FiredRule, list[tuple[int, Rung]]] = {candidate: [] for candidate in candidates}
    alone = _gains_of(candidates, [], scale)
    total = 0
    while left:
        above = [candidate.draft for candidate in taken]
        rest = _gains_of(left, above, scale, total)
        for candidate in left if rungs else ():
            shares[candidate].append((before[candidate] - rest[candidate], rungs[-1]))
        before = rest
        held = [candidate for candidate in left if rest[candidate] < A_PART * most[candidate]]
        parts += held
        for candidate in left:
            # What others hold up gains nothing before they are fixed.
            most[candidate] = max(most[candidate], rest[candidate])
        left = [candidate for candidate in left if candidate not in held]
        fresh = [candidate for candidate in left if rest[candidate] >= least]
        if not fresh:
            break
        fresh = [candidate for candidate in fresh if not candidate.draft.by_design] or fresh
        top = max(rest[candidate] for candidate in fresh)
        alike = [candidate for candidate in fresh if rest[candidate] >= ALMOST_ALL * top]
        best = max(alike, key=lambda each: (_NEARNESS[each.reach], rest[each], each.draft.confidence == "high"))
        best = _nearer(best, fresh, rest, above, scale, launching)
        best = next((candidate for candidate in fresh if candidate.draft.first), best)
        total += rest[best]
        taken.append(best)
        rungs.append(Rung(best, rest[best], total, None, most[best], alone[best]))
        left = [candidate for candidate in left if candidate is not best]
    parts.sort(key=lambda candidate: (-_NEARNESS[candidate.reach], -most[candidate]))
    return rungs + [_rung_of_part(candidate, most[candidate], total, shares[candidate]) for candidate in parts]


def _rung_of_part(candidate: FiredRule, most: int, total: int, shares: list[tuple[int, Rung]]) -> Rung:
    """A candidate that rungs above contain: those that took a notable part of it, the largest first.

    It gains no more than they do together.
    """
    shares = sorted(shares, key=lambda row: -row[0])
    wholes = [rung for taken, rung in shares if taken >= NOTABLE * most] or [shares[0][1]]
    gain = min(most, sum(rung.gain or 0 for rung in wholes))
    # Launching in another way, or other buckets, help against no cause that is nearer.
    shown = all(_NEARNESS[rung.candidate.reach] > _NEARNESS[candidate.reach] for rung in wholes)
    return Rung(candidate, gain, total, tuple(rung.candidate.rule.id for rung in wholes), most, shown=shown)


def _gains_of(candidates: list[FiredRule], above: list[Draft], scale: Scale, total: int = 0) -> dict[FiredRule, int]:
    """What each removes once those ``above`` have removed ``total``."""
    gains = scale.removed_by_each([(*above, candidate.draft) for candidate in candidates])
    return {candidate: _at_most(candidate, gain - total) for candidate, gain in zip(candidates, gains, strict=True)}


def _at_most(candidate: FiredRule, gain: int) -> int:
    """``gain``, limited to what the draft claims for itself."""
    return gain if candidate.draft.most is None else min(gain, candidate.draft.most)


def _nearer(
    best: FiredRule,
    fresh: list[FiredRule],
    rest: dict[FiredRule, int],
    above: list[Draft],
    scale: Scale,
    launching: int | None,
) -> FiredRule:
    """The candidate with most gain of those that explain most of ``best`` and are nearer to what must be changed.

    Several together may explain a place where time is lost.
    Late launches are explained by a cause that gains more than any launching (``launching`` ns) of the critical path,
    or half of what it leaves of them: launching costs something anywhere, and what is left says how much.
    """
    total = scale.removed(*above)
    while True:
        gain_of_best = rest[best]
        late = best.draft.change is None and launching is not None  # which is how late launches are reported
        covers = MAINLY if best.reach == "place" else HALF
        nearer = [candidate for candidate in fresh if _NEARNESS[candidate.reach] > _NEARNESS[best.reach]]
        with_best = scale.removed_by_each([(*above, candidate.draft, best.draft) for candidate in nearer])
        covered = {
            candidate: rest[candidate] + gain_of_best + total - gain
            for candidate, gain in zip(nearer, with_best, strict=True)
        }
        parts = [candidate for candidate in nearer if covered[candidate] >= NOTABLE * gain_of_best]
        nearer = [
            candidate
            for candidate in nearer
            if covered[candidate] >= covers * gain_of_best
            or (
                # What hides communication gains by what a cause makes needless as well: in its time, by other means.
                best.reach == "broad"
                and not late
                and rest[candidate] >= HALF * gain_of_best
                and length_of(common(candidate.span, best.span)) >= MAINLY * length_of(candidate.span) > 0
            )
            or (
                # What is known to slow all launches, such as a queue that is off, is a part of how late they are.
                best.reach == "broad"
                and late
                and rest[candidate] >= HALF * gain_of_best
                and covered[candidate] >= HALF * rest[candidate]
            )
            or (
                late
                # Without a wait the host runs ahead of anything; a draft may say that its waits are the cause even so.
                and not ((candidate.draft.change or NO_CHANGE).waits and candidate.draft.reach is None)
                and rest[candidate] > min(launching or 0, HALF * (gain_of_best - covered[candidate]))
                and covered[candidate] >= HALF * rest[candidate]
            )
        ]
        if not nearer and best.reach == "place" and len(parts) > 1:
            drafts = [*above, *(candidate.draft for candidate in parts)]
            alone, joint = scale.removed_by_each([drafts, [*drafts, best.draft]])
            nearer = parts if alone + gain_of_best - joint >= covers * gain_of_best else []
        if not nearer:
            return best
        best = max(nearer, key=lambda candidate: rest[candidate])


def _kernels_at(facts: Facts, line: CodeLine, rung: Rung) -> Said:
    """``line``, with the place in a library that launches most of the kernels there that the finding is about."""
    kernels = facts.kernels[inside(rung.candidate.span, facts.trace.slices.start[facts.kernels])]
    return line_within(facts, line, operation_of(facts.trace, kernels), facts.length(kernels))


def _finding_of_rung(rung: Rung, facts: Facts, above: int, following: Rung | None) -> Finding:
    rule, draft = rung.candidate.rule, rung.candidate.draft
    gain = None if rung.gain is None else round(rung.gain / facts.count)
    steps = steps_of(draft, facts) if rule.id not in SUMMING_UP else ()
    advice = advise(*rule.advice) if draft.advice is None else draft.advice
    if rung.shown and rung.part_of is not None:
        advice = (message("finding.advice.whole", wholes=list(rung.part_of)),)
    advice = still_to_do(facts, advice)
    if rung.leads and draft.unexplained is not None:
        advice = tuple(dict.fromkeys((*draft.unexplained.advice, *advice)))
    after = None if rung.removed is None else max(round(facts.step_ns - rung.removed / facts.count), 0)
    # What no rule looked for has the line that the path has there.
    under = (
        ()
        if draft.code_lines or draft.anywhere or rung.part_of or not rung.gain
        else lines_under(facts, rung.candidate.span)
    )
    said = message("finding.share.lines", lines=[_kernels_at(facts, line, rung) for line in under]) if under else ""
    return Finding(
        rule.id,
        rule.cls,
        _severity(rung, facts),
        draft.title,
        sentences(draft.detail, said, *_steps_in_words(steps, facts), *_outlook(rung, facts, above, following)),
        draft.evidence,
        advice,
        gain,
        "low" if rung.leads else draft.confidence,
        rule.documents,
        draft.code_lines or under,
        is_hidden(rung.candidate, facts),
        after,
        rung.part_of[0] if rung.part_of else None,
        steps,
        above if rung.held and rung.part_of is None else 0,
        rung.leads,
        draft.by_design,
        facts.unit_name,
        facts.count,
        verdict=_verdict_line(rung, facts),
    )


def _severity(rung: Rung, facts: Facts) -> Severity:
    """The severity of a finding: by what it gains of the step where that is known, else by what the rule says."""
    draft, gain = rung.candidate.draft, rung.gain
    if draft.severity == "info" or rung.leads or draft.choice:
        return draft.severity
    if rung.idle:
        return "low"
    if gain is None or draft.first or facts.replay is None or not facts.step_ns:
        return draft.severity
    severity = severity_of(facts.limits, gain / facts.count / facts.step_ns)
    return "medium" if draft.by_design and severity == "high" else severity


def _verdict_line(rung: Rung, facts: Facts) -> Message:
    """The line of a finding in the verdict."""
    rule, draft = rung.candidate.rule, rung.candidate.draft
    if rung.leads and draft.unexplained is not None:
        return draft.unexplained.verdict
    what, title = message(f"finding.class.{rule.cls}"), draft.title
    return draft.verdict or message("finding.verdict.line", what=what, title=title)


def _remedied(finding: Finding, rung: Rung, facts: Facts, scale: Scale) -> Finding:
    """``finding`` with its remedy, where its gain is that of a replayed run."""
    candidate = rung.candidate
    if not isinstance(scale, ReplayScale) or candidate.rule.of_profiler or not facts.is_whole or rung.gain is None:
        return finding
    alone = _own_gain(candidate, scale)
    if alone is None:
        return finding
    change = scale.change_of(candidate.draft)
    return replace(finding, remedy=Remedy(change, candidate.draft.most, round(alone / facts.count)))


def steps_of(draft: Draft, facts: Facts) -> tuple[int, ...]:
    """The numbers of the steps that hold a notable part of the finding."""
    if draft.removes is not None and len(draft.removes[0]):
        start, end = draft.removes
    elif draft.shown is not None and len(draft.shown[0]):
        start, end = draft.shown
    else:  # the evidence may be the first few of many places
        return ()
    steps = [step for step in facts.steps if step.window is not None]
    # What comes before the first kernel of a step belongs to that step; what crosses its end is divided.
    ends = np.array([step.window.end for step in steps if step.window is not None], np.float64)
    weight = np.diff(covered_before(*union(start, end), ends), prepend=0.0).tolist()
    least = NOTABLE * max(weight, default=0)
    shown = [
        step.number for step, shown_there in zip(steps, weight, strict=True) if shown_there and shown_there >= least
    ]
    return tuple(number for number in shown if number is not None)


def _steps_in_words(steps: tuple[int, ...], facts: Facts) -> list[Message]:
    """Which of several steps the finding is about."""
    numbers = [step.number for step in facts.steps]
    if len(numbers) < 2 or not steps or not facts.whole_steps:
        return []
    if len(steps) == len(numbers):
        return [message("finding.steps.every")]
    if len(steps) == 1:
        return [message("finding.steps.one", step=steps[0], first=numbers[0], last=numbers[-1])]
    code = "finding.steps.some" if len(steps) <= PLACES else "finding.steps.first"
    return [message(code, count=len(steps), all=len(numbers), steps=steps[:PLACES])]


def _outlook(rung: Rung, facts: Facts, above: int, following: Rung | None) -> list[Message]:
    """The gain that remains after the first ``above`` findings, and the length of the step then."""
    if rung.unknown:
        return [message("finding.outlook.untold")]
    if rung.leads:
        outside = "untold" if facts.trace.health.cropped is not None else "covered"  # a crop has left it out
        word = outside if rung.candidate.draft.unexplained is None else "unknown"
        return [message(f"finding.outlook.{word}")]
    if rung.idle and round((rung.gain or 0) / facts.count) == 0:
        return [message("finding.outlook.idle")]
    if rung.idle:
        gain = (rung.gain or 0) / facts.count
        return [message("finding.outlook.step", saved=message("finding.saved", gain=gain, unit=facts.unit))]
    if rung.removed is None or rung.gain is None:
        return []
    if rung.part_of is not None:
        return [message("finding.outlook.part", wholes=list(rung.part_of))]
    word = "step"
    if rung.held or rung.gain < 0.99 * rung.own:
        word = f"{'held' if rung.held else 'rest'}{'_many' if above > 1 else ''}"
    gain = rung.gain / facts.count
    saved = message("finding.saved", gain=gain, unit=facts.unit)
    if facts.whole_steps:
        after = facts.step_ns - rung.removed / facts.count
        before, after = (max(length, 0) for length in (after + gain, after))
        saved = message("finding.saved.of", gain=gain, unit=facts.unit, before=before, after=after)
    parts = [message(f"finding.outlook.{word}", above=above, saved=saved)]
    if rung.gain == rung.removed and facts.replay is None:
        parts.append(message("finding.outlook.intervals"))
    if facts.whole_steps and following:
        parts.append(message("finding.outlook.next", following=following.candidate.rule.id))
    return parts
