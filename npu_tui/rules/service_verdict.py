"""The causes of what is slow in an inference service, the gravest first, and their sentences."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.evidence import half_recorded
from npu_tui.analysis.limits import A_PART, FEWEST_OF_P99, HALF, LITTLE, Thresholds
from npu_tui.analysis.service_latency import timeline
from npu_tui.analysis.service_steps import Cycle, forward_passes, handed_over
from npu_tui.analysis.service_timeline import TTFT, Metric, ServiceTimeline
from npu_tui.rules.model import Evidence, Finding, Findings, SubjectVerdict
from npu_tui.rules.rule import Skipped, advise, sentences, severity_of
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.rules.service_facts import SHARE, Cause, Remedy, ServiceFacts, ServiceRule, known, most_saved
from npu_tui.rules.service_parts import FEWEST_REQUESTS
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.model import Trace
from npu_tui.trace.service import UNKNOWN
from npu_tui.trace.text import brief

_SHOWN = 3  # places of a finding: the largest ones


class JudgedService(SubjectVerdict, frozen=True, kw_only=True):
    """What was ``found`` of a service, its ``findings``, the gravest first, and its ``figures`` as recorded.

    ``facts`` has its model; ``remedies`` are those of the findings that a replay can leave out, by their ids, in the
    order of work.
    """

    found: ServiceTimeline
    figures: dict[str, float]
    facts: ServiceFacts
    remedies: dict[str, Remedy]


_LIMITS = "SERVICE.QUEUE", "SERVICE.KV"  # of what requests wait for while steps run
_Weighed = tuple[ServiceRule, Cause, str | None]
"""A rule, what it found, and the id of the finding that this is a part of: it is gone once that one is."""


def judged(trace: Trace, limits: Thresholds) -> JudgedService:
    """What is wrong with the service that ``trace`` was made of."""
    assert trace.service is not None
    return judge(timeline(trace.service), limits, trace.start_ns)


def judge(found: ServiceTimeline, limits: Thresholds | None = None, origin: int = 0) -> JudgedService:
    """What is wrong with a service; the places of its findings are in ns since ``origin``."""
    facts = ServiceFacts(found, limits or Thresholds())
    causes: list[tuple[ServiceRule, Cause]] = []
    not_checked: list[tuple[str, Message]] = []
    service, served = found.service, len(facts.ttft.rids)
    if served < FEWEST_REQUESTS:
        why = message("service.no_requests", count=len(found.steps))
        if len(service.requests):
            why = message("service.few_requests", count=served, fewest=FEWEST_REQUESTS)
        not_checked.append(("requests", why))
    elif not len(found.pair_rid):
        not_checked.append(("requests", message("service.no_batches")))
    else:
        not_checked += _missing(facts)
        for rule in SERVICE_RULES:
            cause = rule.check(facts)
            if isinstance(cause, Skipped):
                not_checked.append((rule.id, cause.reason))
            elif cause is not None:
                causes.append((rule, cause))
        if causes and facts.model is None:
            not_checked.append(("gain", message("service.no_replay")))
    weighed = _ladder(facts, causes)
    findings = tuple(_finding(facts, one, origin) for one in weighed)
    led = [one for one, finding in zip(weighed, findings, strict=True) if finding.severity != "info"]
    unsure = [cause for _, cause, _ in weighed if cause.hint]
    unsure.sort(key=lambda cause: -_would_gain(facts, cause))
    least = _would_gain(facts, led[0][1]) if led else HALF * SHARE.default
    hints = [  # what is known comes first, unless it is far less than what something speaks for
        (
            sentences(message("service.cause", title=cause.title), cause.hint),
            cause.likely and HALF * _would_gain(facts, cause) > least,
        )
        for cause in unsure
    ]
    verdict = [said for said, is_more in hints if is_more]
    verdict += _verdict(
        facts, led, [said for said, is_more in hints if not is_more],
        [why for id_, why in not_checked if id_ in ("requests", "ttft")], bool(verdict),
    )  # fmt: skip
    leaders = tuple(finding for finding in findings[:1] if finding.severity != "info")
    half, every = half_recorded(found), len(found.latencies.start)
    warnings = [message("odd.half_told", count=half, all=every, share=half / every)] if half else []
    if handed := handed_over(service, found.steps):
        warnings.append(message("service.handed_over", count=handed, all=len(found.steps)))
    return JudgedService(
        Findings(findings, tuple(not_checked), tuple(verdict), leaders),
        tuple(warnings),
        found=found,
        figures=facts.figures,
        facts=facts,
        remedies={
            rule.id: cause.remedy
            for (rule, cause, part_of), finding in zip(weighed, findings, strict=True)
            if cause.remedy is not None and cause.after is not None and not part_of and finding.severity != "info"
        },
    )


def _would_gain(facts: ServiceFacts, cause: Cause) -> float:
    """How much better the service would be without ``cause``, if that is one."""
    return facts.most(facts.figures, None if cause.remedy is None else facts.after(cause.remedy))


def _missing(facts: ServiceFacts) -> list[tuple[str, Message]]:
    """What the tables do not say: rules that have nothing to go by, and time that has no part of its own."""
    steps, service = facts.found.steps, facts.found.service
    without = [
        ("SERVICE.KV", "blocks", not facts.knows_blocks),
        ("SERVICE.SCHEDULER", "schedule", bool((steps.schedule == UNKNOWN).all())),
        ("SERVICE.SAMPLING", "forward", not len(forward_passes(service))),
    ]
    missing = [(id_, message(f"service.no_{what}")) for id_, what, holds in without if holds]
    told = {} if facts.knows_blocks else {TTFT.queue_other: "reasonless"}
    for part, word in (told | {TTFT.before: "before", TTFT.unrecorded: "unrecorded"}).items():
        shares = facts.ttft.share(part)
        if facts.notable(shares):
            missing.append(("ttft", message(f"service.{word}", share=max(shares))))
    return missing


def _ladder(facts: ServiceFacts, causes: list[tuple[ServiceRule, Cause]]) -> list[_Weighed]:
    """The causes by gain; one that gains little more once the first is mended is part of that one."""
    now = facts.figures
    if any(not (cause.hint or _is_load(rule, cause)) for rule, cause in causes):
        causes = [(rule, cause) for rule, cause in causes if not _is_load(rule, cause)]
    weighed: list[tuple[float, ServiceRule, Cause]] = []
    for rule, cause in causes:
        after = None if cause.remedy is None or cause.hint else facts.after(cause.remedy)
        weight, saved = cause.share, float(not cause.hint)
        if after is not None:
            best = most_saved(now, after)
            saved = 1 - after[best] / now[best]
        if after is not None and saved < LITTLE < weight and len(known(now, after)) < len(known(now)):
            after, saved = None, 1.0  # what it costs is among the figures that are not known
        if cause.remedy is None:  # how most of the time is spent, which nothing is known to mend
            weight = min(weight, facts.limits[SHARE])
        if after is not None:  # chunks trade one latency for another, and instances cost: they come after what does not
            weight = facts.better(now, after) * (HALF if rule.id == "SERVICE.MIX" or cause.buys else 1.0)
        weighed.append((0.0 if cause.hint else weight, rule, replace(cause, after=after, saved=saved)))
    weighed = [(_besides(facts, one, weighed), *one[1:]) for one in weighed]
    weighed.sort(key=lambda one: (-one[0], not one[2].likely, -_would_gain(facts, one[2]) if one[2].hint else 0.0))
    found: list[_Weighed] = []
    for _, rule, cause in weighed:
        first, part_of = found[0][1] if found else cause, None
        if first is not cause and first.remedy and first.after and cause.remedy and cause.after:
            both = facts.after(first.remedy, cause.remedy)
            figure = most_saved(now, cause.after)
            if (
                both is not None  # a batch is full because of the first one: that is not enough for more places
                and first.after[figure] - both[figure] < A_PART * (now[figure] - cause.after[figure])
                and (
                    rule.id == "SERVICE.QUEUE"
                    or (facts.most(first.after, both) < HALF and facts.better(first.after, both) < facts.limits[SHARE])
                )
            ):
                part_of = found[0][0].id
        found.append((rule, cause, part_of))
    return sorted(found, key=lambda one: one[2] is not None)


def _is_load(rule: ServiceRule, cause: Cause) -> bool:
    """Whether it is how requests come, in bursts or with prompts that no setting shortens: told where that is all."""
    return bool(cause.hint) if rule.id == "SERVICE.QUEUE" else rule.id == "SERVICE.MIX" and cause.remedy is None


def _besides(
    facts: ServiceFacts, weighed: tuple[float, ServiceRule, Cause], others: list[tuple[float, ServiceRule, Cause]]
) -> float:
    """The weight left to a cause once those are mended which it hangs on: it is longer, or gains more, by them.

    Others are longer by a root. A batch is full by what takes long in itself. And while requests wait for places or
    blocks, whatever shortens steps shortens that queue by far more: what takes little itself counts without it.
    """
    weight, rule, one = weighed
    share: float = facts.limits[SHARE]
    for _, other_rule, other in others:
        if rule.id == "SERVICE.QUEUE":
            hangs = other.root or other.share >= share
        else:
            hangs = other.root or (other_rule.id in _LIMITS and one.share < share)
        if other is one or not hangs or one.remedy is None or other.remedy is None or other.after is None:
            continue
        if one.after is not None and (both := facts.after(other.remedy, one.remedy)) is not None:
            weight = min(weight, facts.better(other.after, both))
        if other.feeds:
            weight = min(weight, HALF * facts.better(facts.figures, other.after))
    return weight


def _finding(facts: ServiceFacts, weighed: _Weighed, origin: int) -> Finding:
    """A cause at the requests that lost most by it, and at the batches that show it."""
    rule, cause, part_of = weighed
    found, lat = facts.found, facts.found.latencies
    evidence: list[Evidence] = []
    for rid in _largest_first(cause.cost):
        begin = int(lat.start[rid] if lat.start[rid] != UNKNOWN else found.steps.opened[lat.first[rid]])
        end = int(found.steps.end[lat.last[rid]]) if lat.last[rid] >= 0 else begin + max(int(lat.ttft[rid]), 0)
        note = message("finding.service.place", time=int(cause.cost[rid]))
        evidence.append(Evidence(begin - origin, end - origin, None, brief(found.service.rids[rid]), note))
    for step in _largest_first(cause.blame):
        begin, end = int(found.steps.opened[step]), int(found.steps.end[step])
        batch = message("service.batch", count=int(found.steps.size[step]))
        lasting = message("service.lasting", time=end - begin)
        evidence.append(Evidence(begin - origin, end - origin, None, batch, lasting))
    share = min(cause.share, cause.saved)
    advice = cause.advice or rule.advice[:1] or (rule.id,)
    figure, gain, then = _gain(facts, cause)
    why = message("service.no_remedy" if cause.remedy is None else "service.no_replay")
    outlook = cause.hint or _outlook(facts, cause) or message("finding.service.unknown", why=why)
    if part_of is not None:
        outlook = message("finding.service.part_of", id=part_of)
    trait = facts.trait_of(cause.cost)
    who = message("finding.service.who", **trait.words) if trait else ""
    return Finding(
        rule.id, rule.cls, "info" if part_of or share < LITTLE else severity_of(facts.limits, share), cause.title,
        sentences(cause.detail, who, outlook), tuple(evidence), advise(*advice),
        None if gain is None else round(gain), "medium" if cause.after is None else "high",
        tuple(title for title, _ in rule.pages), step_after_ns=None if then is None else round(then), part_of=part_of,
        unit="token" if figure.startswith("tpot") else "request", count=len(lat.ttft),
    )  # fmt: skip


def _largest_first(values: I64) -> list[int]:
    """Where the largest ``values`` are."""
    order = np.argsort(-values, kind="stable")[:_SHOWN]
    return [place for place in order.tolist() if values[place] > 0]


def _gain(facts: ServiceFacts, cause: Cause) -> tuple[str, float | None, float | None]:
    """The figure that gains most without ``cause``, what it gains and what it is then (ns; None: unknown)."""
    now, after = facts.figures, cause.after
    if after is None:
        return "ttft_p50", None, None
    figure = most_saved(now, after)
    return figure, max(now[figure] - after[figure], 0.0), after[figure]


def _outlook(facts: ServiceFacts, cause: Cause) -> Said:
    """What the figures would be without ``cause``, or with what is done instead; empty if unknown."""
    after = cause.after
    if after is None:
        return ""
    changes = facts.changes(after)
    best = most_saved(facts.figures, after)
    told = [message("finding.service.after", changes=changes)] if np.isfinite(after[best]) else []
    if cause.instead is not None and (other := facts.after(cause.instead[1])) is not None:
        told.append(message(f"finding.service.instead_{cause.instead[0]}", changes=facts.changes(other)))
    return sentences(*told)


def _verdict(
    facts: ServiceFacts, led: list[_Weighed], hints: list[Message], unknown: list[Message], is_told: bool
) -> list[Message]:
    """The gravest cause, or that none was found and what is possible; the figures, and the time without any request.

    It says that there is none only where no hint ``is_told`` before.
    """
    figures, found = facts.figures, facts.found
    told: list[Message] = []
    if led:
        told.append(sentences(message("service.cause", title=led[0][1].title), _outlook(facts, led[0][1])))
    if len(facts.ttft.rids) < FEWEST_REQUESTS:
        told += [_mostly(facts, metric) for metric in facts.latencies.metrics if len(metric.rids)]
    told += unknown
    if not led and not unknown and not is_told:
        told.append(_verdict_without_cause(facts))
    told += hints
    if figures["ttft_p50"] == figures["ttft_p50"]:  # not NaN
        both = figures["tpot_p50"] == figures["tpot_p50"]
        told.append(message("service.verdict" if both else "service.verdict_first", **figures))
    if any(0 < len(metric.rids) < FEWEST_OF_P99 for metric in facts.latencies.metrics):
        told.append(message("service.few", fewest=FEWEST_OF_P99))
    parts = [found.steps.cycle[found.steps.of(number)] for number in range(len(found.engines))]
    for number in np.flatnonzero(found.ahead).tolist():
        ahead = int(found.ahead[number])
        told.append(message("service.ahead" if ahead > 0 else "service.behind", engine=number, time=abs(ahead)))
    lat, rows = found.latencies, found.service.requests
    left_out, every = int(np.count_nonzero(~lat.complete[rows.rid[rows.rid >= 0]])), len(rows)
    if left_out > LITTLE * every:
        told.append(message("service.left_out", count=left_out, all=every))
    for key, odd in (("unstreamed", ~lat.streamed), ("contradicted", lat.contradicted)):
        if count := int(np.count_nonzero(odd & (lat.first >= 0))):
            told.append(message(f"service.{key}", count=count, all=int(np.count_nonzero(lat.first >= 0))))
    idle = min((part[:, Cycle.idle].sum() / max(part.sum(), 1) for part in parts), default=0.0)
    if idle >= SHARE.default:
        told.append(message("service.idle", share=float(idle)))
    return told


def _verdict_without_cause(facts: ServiceFacts) -> Message:
    """The verdict that nothing needs mending, with the largest part besides computing if it is notable."""
    parts = [
        (shares, metric.name, name)
        for metric in facts.latencies.metrics
        for place, name in enumerate(metric.names)
        if name not in _COMPUTED and facts.notable(shares := metric.share(place))
    ]
    if not parts:
        return message("service.nothing", share=SHARE.default)
    (every, slowest), metric, name = max(parts)
    words = {"metric": message(f"latency.metric.{metric}"), "part": message(f"latency.part.{name}")}
    return message("service.most", every=every, slowest=slowest, **words)


def _mostly(facts: ServiceFacts, metric: Metric) -> Message:
    """What ``metric`` is on average, and its largest part."""
    place = max(range(len(metric.names)), key=lambda place: metric.share(place)[0])
    words = {"metric": facts.called(metric), "part": message(f"latency.part.{metric.names[place]}")}
    mean, share = float(metric.values.mean()), metric.share(place)[0]
    return message("service.mostly", count=len(metric.rids), mean=mean, share=share, **words)


_COMPUTED = "prefill", "decode", "forward"  # parts in which the engine computes for the request itself
