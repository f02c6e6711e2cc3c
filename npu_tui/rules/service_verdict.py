"""The causes of what is slow in an inference service, the gravest first, and the sentences that tell them."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.service_replay import FIGURES
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import TTFT, Timeline
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.rules.model import Evidence, Finding, Findings, Severity
from npu_tui.rules.rule import Skipped, sentences
from npu_tui.rules.service import FEWEST_REQUESTS, SERVICE_RULES
from npu_tui.rules.service_facts import SHARE, Draft, ServiceFacts, ServiceRule
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.model import Trace
from npu_tui.trace.service import UNKNOWN
from npu_tui.trace.text import brief

_HIGH, _MEDIUM, _LITTLE = 0.5, 0.25, 0.05
_SHOWN = 3
_REST = 0.2
"""What another remedy must leave of the gain of a finding, for the finding to be one of its own."""
_HUNDRED = 100


class ServiceFinding(Struct, frozen=True):
    """One cause: what ``rule`` found. ``after`` are the figures of the replayed service without it alone.

    They are None where it cannot be replayed. A finding that is ``part_of`` another is gone once that one is.
    """

    rule: ServiceRule
    draft: Draft
    after: dict[str, float] | None
    part_of: str | None = None
    saved: float = 1.0
    """The share of the figure that gains most; 1 where the gain is unknown."""

    @property
    def id(self) -> str:
        """That of the rule."""
        return self.rule.id

    @property
    def severity(self) -> Severity:
        """By the share of the latency that it takes and would gain; what is part of another is for information."""
        share = min(self.draft.share, self.saved)
        if self.part_of or share < _LITTLE:
            return "info"
        return "high" if share >= _HIGH else "medium" if share >= _MEDIUM else "low"


class Judged(Struct, frozen=True):
    """What was found: causes, the gravest first; which rules had nothing to go by; the ``figures`` as recorded."""

    found: Timeline
    findings: list[ServiceFinding]
    not_checked: list[tuple[str, Message]]
    figures: dict[str, float]


def judge(found: Timeline, limits: Thresholds | None = None) -> Judged:
    """What is wrong with a service."""
    facts = ServiceFacts(found, limits or Thresholds())
    figures = facts.figures
    if len(facts.ttft.rids) < FEWEST_REQUESTS:
        service = found.service
        why = message("service.no_requests", count=len(service.batches))
        if len(service.requests):
            why = message("service.few_requests", count=len(facts.ttft.rids), fewest=FEWEST_REQUESTS)
        return Judged(found, [], [("requests", why)], figures)
    if not len(found.pair_rid):
        return Judged(found, [], [("requests", message("service.no_batches"))], figures)
    drafts: list[tuple[ServiceRule, Draft]] = []
    not_checked = _missing(facts)
    for rule in SERVICE_RULES:
        draft = rule.check(facts)
        if isinstance(draft, Skipped):
            not_checked.append((rule.id, draft.reason))
        elif draft is not None:
            drafts.append((rule, draft))
    if drafts and facts.model is None:
        not_checked.append(("gain", message("service.no_replay")))
    return Judged(found, _ladder(facts, drafts), not_checked, figures)


def _known(*figures: dict[str, float]) -> list[str]:
    """The figures that all of ``figures`` tell."""
    return [name for name in FIGURES if all(one[name] > 0 for one in figures)]


def _better(now: dict[str, float], then: dict[str, float], whole: dict[str, float]) -> float:
    """How much better ``then`` is than ``now``: the best share of a figure of the ``whole``, less the worst one."""
    shares = [(now[name] - then[name]) / whole[name] for name in _known(now, then, whole)]
    return max(shares) + min(*shares, 0.0) if shares else 0.0


def _most_saved(now: dict[str, float], then: dict[str, float]) -> str:
    """The figure that is best in ``then`` beside ``now``."""
    return max(_known(now, then), key=lambda name: now[name] / then[name], default="ttft_p50")


def _missing(facts: ServiceFacts) -> list[tuple[str, Message]]:
    """What the tables do not tell: rules that have nothing to go by, and time that has no part of its own."""
    steps, service = facts.found.steps, facts.found.service
    without = [
        ("SERVICE.KV", "blocks", not facts.knows_blocks),
        ("SERVICE.SCHEDULER", "schedule", bool((steps.schedule == UNKNOWN).all())),
        ("SERVICE.SAMPLING", "forward", not len(service.forwards)),
    ]
    missing = [(id_, message(f"service.no_{what}")) for id_, what, holds in without if holds]
    told = {} if facts.knows_blocks else {TTFT.queue_other: "reasonless"}
    for part, word in (told | {TTFT.before: "before", TTFT.unrecorded: "unrecorded"}).items():
        shares = facts.ttft.share(part)
        if facts.notable(shares):
            missing.append(("ttft", message(f"service.{word}", share=max(shares))))
    return missing


def _ladder(facts: ServiceFacts, drafts: list[tuple[ServiceRule, Draft]]) -> list[ServiceFinding]:
    """The drafts in the order of what they would gain; what the first one would take away is part of it."""
    now = facts.figures
    weighed = []
    for rule, draft in drafts:
        after = None if draft.remedy is None else facts.after(draft.remedy)
        weight, saved = draft.share, float(not draft.hint)
        if after is not None:
            best = _most_saved(now, after)
            saved = 1 - after[best] / now[best]
        if after is not None and saved < _LITTLE < weight and len(_known(now, after)) < len(_known(now)):
            after, saved = None, 1.0  # what it costs is among the figures that are not known
        if after is not None and rule.id != "SERVICE.MIX":  # chunks trade one latency for another
            weight = _better(now, after, now)
        weighed.append((0.0 if draft.hint else weight, ServiceFinding(rule, draft, after, saved=saved)))
    others = [one for _, one in weighed]
    weighed = [(_on_top(facts, weight, one, others), one) for weight, one in weighed]
    weighed.sort(key=lambda one: -one[0])
    findings = [finding for _, finding in weighed]
    first = findings[0] if findings else None
    for place, finding in enumerate(findings):
        remedy, after = finding.draft.remedy, finding.after
        if place and first is not None and first.draft.remedy and first.after and remedy and after:
            both = facts.after(first.draft.remedy, remedy)
            figure = _most_saved(now, after)
            if both is not None and first.after[figure] - both[figure] < _REST * (now[figure] - after[figure]):
                findings[place] = replace(finding, part_of=first.id)
    return sorted(findings, key=lambda finding: finding.part_of is not None)


def _on_top(facts: ServiceFacts, weight: float, one: ServiceFinding, others: list[ServiceFinding]) -> float:
    """``weight``, of more places what is left of it once another cause is mended: a batch is full because of that."""
    remedy = one.draft.remedy
    if one.id != "SERVICE.QUEUE" or remedy is None:
        return weight
    for other in others:
        if other is not one and other.draft.remedy is not None and other.after is not None:
            both = facts.after(other.draft.remedy, remedy)
            weight = weight if both is None else min(weight, _better(other.after, both, facts.figures))
    return weight


def service_findings(judged: Judged, trace: Trace) -> Findings:
    """What was found as the explorer and reports show it, at the requests that lost most."""
    found = judged.found
    lat, n, origin = found.latencies, len(found.latencies.ttft), trace.start_ns
    findings = []
    for one in judged.findings:
        cost, blame = one.draft.cost, one.draft.blame
        evidence: list[Evidence] = []
        for rid in _most(cost):
            begin = int(lat.start[rid] if lat.start[rid] != UNKNOWN else found.steps.opened[lat.first[rid]])
            end = int(found.steps.end[lat.last[rid]]) if lat.last[rid] >= 0 else begin + max(int(lat.ttft[rid]), 0)
            note = message("finding.service.place", time=int(cost[rid]))
            evidence.append(Evidence(begin - origin, end - origin, None, brief(found.service.rids[rid]), note))
        for step in _most(blame):
            begin, end = int(found.steps.opened[step]), int(found.steps.end[step])
            batch = message("service.batch", count=int(found.steps.size[step]))
            lasting = message("service.lasting", time=end - begin)
            evidence.append(Evidence(begin - origin, end - origin, None, batch, lasting))
        figure, gain, then = gain_of(judged, one)
        advice = one.draft.advice or one.rule.advice or (one.id,)
        findings.append(
            Finding(
                one.id, "service", one.severity, one.draft.title, _told(judged, one), tuple(evidence),
                tuple(message(f"finding.advice.{word}") for word in advice), None if gain is None else round(gain),
                "medium" if one.after is None else "high", tuple(title for title, _ in one.rule.pages),
                step_after_ns=None if then is None else round(then), part_of=one.part_of,
                unit="token" if figure.startswith("tpot") else "request", count=n,
            )
        )  # fmt: skip
    verdict = verdict_of(judged)
    return Findings(
        tuple(findings),
        tuple(judged.not_checked),
        tuple(verdict),
        tuple(one for one in findings[:1] if one.severity != "info"),
    )


def _most(values: I64) -> list[int]:
    """Where the largest ``values`` are."""
    order = np.argsort(-values, kind="stable")[:_SHOWN]
    return [place for place in order.tolist() if values[place] > 0]


def gain_of(judged: Judged, finding: ServiceFinding) -> tuple[str, float | None, float | None]:
    """The figure that gains most without ``finding``, what it gains and what it is then (ns; None: unknown)."""
    now, after = judged.figures, finding.after
    if after is None:
        return "ttft_p50", None, None
    figure = _most_saved(now, after)
    return figure, max(now[figure] - after[figure], 0.0), after[figure]


def _after(judged: Judged, finding: ServiceFinding) -> Said:
    """What the figure that gains most would be without ``finding``; empty where that is not known."""
    figure, gain, then = gain_of(judged, finding)
    words = {"figure": message(f"service.figure.{figure}"), "now": judged.figures[figure], "then": then}
    return "" if gain is None else message("finding.service.after", **words)


def _told(judged: Judged, finding: ServiceFinding) -> Message:
    """The detail of ``finding`` with what it would gain, or why that is not known."""
    if finding.part_of is not None:
        return sentences(finding.draft.detail, message("finding.service.part_of", id=finding.part_of))
    why = message("service.no_remedy" if finding.draft.remedy is None else "service.no_replay")
    return sentences(finding.draft.detail, _after(judged, finding) or message("finding.service.unknown", why=why))


def verdict_of(judged: Judged) -> list[Message]:
    """The gravest cause, else that there is none; then the figures, and how long no request was there."""
    figures, found = judged.figures, judged.found
    told: list[Message] = []
    causes = [one for one in judged.findings if one.severity != "info"]
    if causes:
        told.append(sentences(message("service.cause", title=causes[0].draft.title), _after(judged, causes[0])))
    unknown = [why for id_, why in judged.not_checked if id_ in ("requests", "ttft")]
    told += unknown
    if not causes and not unknown:
        told.append(message("service.nothing", share=SHARE.default))
    if figures["ttft_p50"] == figures["ttft_p50"]:  # not NaN
        both = figures["tpot_p50"] == figures["tpot_p50"]
        told.append(message("service.verdict" if both else "service.verdict_first", **figures))
    if 0 < len(found.latencies.answered) < _HUNDRED:
        told.append(message("service.few"))
    parts = [found.steps.cycle[found.steps.of(number)] for number in range(len(found.engines))]
    for number in np.flatnonzero(found.ahead).tolist():
        ahead = int(found.ahead[number])
        told.append(message("service.ahead" if ahead > 0 else "service.behind", engine=number, time=abs(ahead)))
    idle = min((part[:, Cycle.idle].sum() / max(part.sum(), 1) for part in parts), default=0.0)
    if idle >= SHARE.default:
        told.append(message("service.idle", share=float(idle)))
    return told
