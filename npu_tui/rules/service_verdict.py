"""The causes of what is slow in an inference service, the gravest first, and the sentences that tell them."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.service_latency import Timeline
from npu_tui.analysis.service_replay import replayed
from npu_tui.analysis.service_steps import I
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.rules.model import Evidence, Finding, Findings, Severity
from npu_tui.rules.pages import Page
from npu_tui.rules.rule import Skipped, sentences
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.rules.service_facts import SHARE, Draft, ServiceFacts, ServiceRule, figures_of
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.model import Trace
from npu_tui.trace.service import UNKNOWN
from npu_tui.trace.text import brief

_HIGH, _MEDIUM = 0.5, 0.25
_SHOWN = 3
_REST = 0.2
"""What another remedy must leave of the gain of a finding, for the finding to be one of its own."""
_FEWEST_REQUESTS = 10
_HUNDRED = 100


class ServiceFinding(Struct, frozen=True):
    """One cause: ``worst`` are the requests (codes of rids) that lost most by it, ``cost`` what each of them lost (ns).

    ``batches`` are the steps
    that show it most. ``after`` are the figures of the replayed service without it alone, None where it cannot be
    replayed. A finding that is ``part_of`` another is gone once that one is.
    """

    id: str
    severity: Severity
    share: float
    title: Message
    detail: Message
    worst: tuple[int, ...]
    cost: tuple[int, ...]
    batches: tuple[int, ...]
    advice: tuple[str, ...]
    after: dict[str, float] | None
    part_of: str | None = None


class Judged(Struct, frozen=True):
    """What was found: causes, the gravest first; which rules had nothing to go by; the ``figures`` as recorded."""

    found: Timeline
    findings: list[ServiceFinding]
    not_checked: list[tuple[str, Message]]
    figures: dict[str, float]


def judge(found: Timeline, limits: Thresholds | None = None) -> Judged:
    """What is wrong with a service."""
    facts = ServiceFacts(found, limits or Thresholds())
    figures = figures_of(facts)
    if len(facts.answered) < _FEWEST_REQUESTS:
        why = message("service.few_requests", count=len(facts.answered), fewest=_FEWEST_REQUESTS)
        return Judged(found, [], [("requests", why)], figures)
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
    return Judged(found, _ladder(facts, drafts, figures), not_checked, figures)


_JUDGED = "ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"


def _better(now: dict[str, float], then: dict[str, float]) -> float:
    """How much better ``then`` is: the logarithm of the best ratio, less that of the worst."""
    ratios = [float(np.log(now[name] / then[name])) for name in _JUDGED if now.get(name) and then.get(name)]
    return max(ratios) + min(*ratios, 0.0) if ratios else 0.0


def _missing(facts: ServiceFacts) -> list[tuple[str, Message]]:
    """What the tables do not tell: rules that have nothing to go by, and time that has no part of its own."""
    steps, service = facts.found.steps, facts.found.service
    without = [
        ("SERVICE.KV", "blocks", not facts.knows_blocks),
        ("SERVICE.SCHEDULER", "schedule", bool((steps.schedule == UNKNOWN).all())),
        ("SERVICE.SAMPLING", "forward", not len(service.forwards)),
    ]
    missing = [(id_, message(f"service.no_{what}")) for id_, what, holds in without if holds]
    if not facts.knows_blocks and facts.notable(shares := facts.first("queue_other")):
        missing.append(("ttft", message("service.reasonless", share=max(shares))))
    for part in ("before", "unrecorded"):
        shares = facts.first(part)
        if facts.notable(shares):
            missing.append(("ttft", message(f"service.{part}", share=max(shares))))
    return missing


def _ladder(
    facts: ServiceFacts, drafts: list[tuple[ServiceRule, Draft]], figures: dict[str, float]
) -> list[ServiceFinding]:
    """The drafts in the order of what they would gain; what the first one would take away is part of it."""
    if not drafts:
        return []
    model = facts.model
    now = {} if model is None else replayed(model).figures()
    weighed = []
    for rule, draft in drafts:
        served = None if draft.remedy is None else facts.after(draft.remedy)
        after = None if served is None else served.figures()
        weight = float(-np.log(max(1 - draft.share, 1e-3)))
        if after is not None and rule.id != "SERVICE.MIX":  # chunks trade one latency for another
            weight = _better(now, after)
        weighed.append((weight, rule, draft, after))
    weighed.sort(key=lambda one: -one[0])
    findings: list[ServiceFinding] = []
    for place, (weight, rule, draft, after) in enumerate(weighed):
        part_of = None
        first = weighed[0][2]
        if place and model is not None and first.remedy is not None and draft.remedy is not None and weight > 0:
            mended = first.remedy(model)
            both = replayed(mended), replayed(draft.remedy(mended))
            if all(served.complete for served in both):
                left = _better(both[0].figures(), both[1].figures())
                part_of = weighed[0][1].id if left < _REST * weight else None
        order = np.argsort(-draft.cost, kind="stable")
        worst = order[draft.cost[order] > 0][:_SHOWN]
        batches = np.argsort(-draft.blame, kind="stable")[:_SHOWN]
        batches = batches[draft.blame[batches] > 0]
        share = draft.share
        severity: Severity = "high" if share >= _HIGH else "medium" if share >= _MEDIUM else "low"
        findings.append(
            ServiceFinding(
                rule.id, "info" if part_of else severity, share, draft.title, draft.detail,
                tuple(worst.tolist()), tuple(draft.cost[worst].tolist()), tuple(batches.tolist()),
                draft.advice or rule.advice or (rule.id,),
                after, part_of,
            )
        )  # fmt: skip
    return sorted(findings, key=lambda finding: finding.part_of is not None)


def service_findings(judged: Judged, trace: Trace) -> Findings:
    """What was found as the explorer and reports show it, at the requests that lost most."""
    found = judged.found
    lat, n = found.latencies, len(found.latencies.ttft)
    findings = []
    for one in judged.findings:
        evidence = []
        for rid, cost in zip(one.worst, one.cost, strict=True):
            begin = int(lat.start[rid] if lat.start[rid] != UNKNOWN else found.steps.opened[lat.first[rid]])
            end = int(found.steps.end[lat.last[rid]]) if lat.last[rid] >= 0 else begin + max(int(lat.ttft[rid]), 0)
            note = message("finding.service.place", time=cost)
            name = brief(found.service.rids[rid])
            evidence.append(Evidence(begin - trace.start_ns, end - trace.start_ns, None, name, note))
        for step in one.batches:
            begin, end = int(found.steps.opened[step]), int(found.steps.end[step])
            batch = message("service.batch", count=int(found.steps.size[step]))
            lasting = message("service.lasting", time=end - begin)
            evidence.append(Evidence(begin - trace.start_ns, end - trace.start_ns, None, batch, lasting))
        figure, gain, then = gain_of(judged, one)
        findings.append(
            Finding(
                one.id, "service", one.severity, one.title, _told(judged, one), tuple(evidence),
                tuple(message(f"finding.advice.{word}") for word in one.advice), None if gain is None else round(gain),
                "medium" if one.after is None else "high", tuple(title for title, _ in pages_of(one.id)),
                step_after_ns=None if then is None else round(then), part_of=one.part_of,
                unit="token" if figure.startswith("tpot") else "request", count=n,
            )
        )  # fmt: skip
    verdict = verdict_of(judged)
    return Findings(tuple(findings), tuple(judged.not_checked), tuple(verdict), tuple(findings[:1]))


def pages_of(id_: str) -> tuple[Page, ...]:
    """The pages of the finding ``id_``."""
    return next(rule.pages for rule in SERVICE_RULES if rule.id == id_)


def gain_of(judged: Judged, finding: ServiceFinding) -> tuple[str, float | None, float | None]:
    """The figure that gains most without ``finding``, what it gains and what it is then (ns; None: unknown)."""
    now, after = judged.figures, finding.after
    if after is None:
        return "ttft_p50", None, None
    known = [name for name in _JUDGED if after.get(name) and now[name] > 0]
    figure = max(known, key=lambda name: now[name] / after[name], default="ttft_p50")
    return figure, max(now[figure] - after[figure], 0.0), after[figure]


def _told(judged: Judged, finding: ServiceFinding) -> Message:
    """The detail of ``finding`` with what it would gain, or why that is not known."""
    figure, gain, then = gain_of(judged, finding)
    if finding.part_of is not None:
        return sentences(finding.detail, message("finding.service.part_of", id=finding.part_of))
    if gain is None:
        why = message("service.no_replay") if ("gain" in dict(judged.not_checked)) else message("service.no_remedy")
        return sentences(finding.detail, message("finding.service.unknown", why=why))
    words = {"figure": message(f"service.figure.{figure}"), "now": judged.figures[figure], "then": then}
    return sentences(finding.detail, message("finding.service.after", **words))


def verdict_of(judged: Judged) -> list[Message]:
    """The gravest cause, else that there is none; then the figures, and how long no request was there."""
    figures, found = judged.figures, judged.found
    told: list[Message] = []
    causes = [one for one in judged.findings if one.part_of is None]
    if causes:
        figure, gain, then = gain_of(judged, causes[0])
        words = {"figure": message(f"service.figure.{figure}"), "now": figures[figure], "then": then}
        after: Said = message("finding.service.after", **words) if gain is not None else ""
        told.append(message("service.cause", title=causes[0].title, after=after))
    unknown = [why for id_, why in judged.not_checked if id_ in ("requests", "ttft")]
    told += unknown
    if not causes and not unknown:
        told.append(message("service.nothing", share=SHARE.default))
    if figures["ttft_p50"] == figures["ttft_p50"]:  # not NaN
        both = figures["tpot_p50"] == figures["tpot_p50"]
        told.append(message("service.verdict" if both else "service.verdict_first", **figures))
    if len(found.latencies.answered) < _HUNDRED:
        told.append(message("service.few"))
    parts = [found.steps.cycle[found.steps.of(number)] for number in range(len(found.engines))]
    idle = min((part[:, I].sum() / max(part.sum(), 1) for part in parts), default=0.0)
    if idle >= SHARE.default:
        told.append(message("service.idle", share=float(idle)))
    return told
