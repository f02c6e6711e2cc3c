"""What is wrong with a job as a whole: slow ranks, stages, hosts, links, clocks, and ranks that are missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from statistics import median, median_low

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import HALF, LITTLE, MAINLY, MORE_THAN_ONE, NEARLY_ALL, NOTABLE, PLACES
from npu_tui.jobs.expert_loads import expert_findings, explained_by_experts, padding_findings, swap_findings
from npu_tui.jobs.finding import LEAST_SHARE, noted, priced
from npu_tui.jobs.job import Job
from npu_tui.jobs.links import Link
from npu_tui.jobs.meetings import Unpaired
from npu_tui.jobs.model import RankFinding
from npu_tui.jobs.reasons import SLOW_CARD, SLOW_HOST, slow_in, stands_still
from npu_tui.jobs.rings import in_less, late_roots, ring_findings, spread_findings
from npu_tui.jobs.roles import role_findings
from npu_tui.jobs.several import (
    ALARM,
    OF_OTHERS,
    alone_in_stage,
    gains_of,
    lost_by_all,
    pipeline_findings,
    placed,
    step_time,
)
from npu_tui.rules.model import Evidence, Finding
from npu_tui.rules.rule import LISTED, sentences, severity_of
from npu_tui.trace.arrays import F64
from npu_tui.trace.message import Message, message

_DRIFT = 1e-5
"""Drift of a clock from which it is a finding: ten times what simulated clocks are estimated wrong by at most."""
_LINK = "COMM.LINK"
"""What one rank says of a slow link."""


def job_findings(job: Job, alone: bool = True) -> list[Finding]:
    """All findings, the dearest first; those that only limit the report come last.

    A part that is not ``alone`` says nothing about roles: the job does.
    """
    if len(job.parts) > 1:
        return _of_roles(job)
    if not job.has_profiles:
        return swap_findings(job)
    experts = expert_findings(job)
    # The ranks of a stage without profiles come late as the pipeline drains too. What a stage of one rank takes longer
    # than others is a matter of how the work is divided.
    hot = (explained_by_experts(job) if experts else frozenset()) | {*job.lost_stages} | alone_in_stage(job)
    uneven = _uneven(job) if not hot else []
    hot |= {rank for finding in uneven for rank in finding.ranks}
    findings = [*experts, *padding_findings(job), *uneven, *pipeline_findings(job), *_slow_ranks(job, hot)]
    findings += [*_slow_hosts(job, hot), *_wandering(job, hot), *_slow_links(job)]
    findings += [*ring_findings(job), *spread_findings(job), *late_roots(job, _why)]
    findings += [*role_findings(job.roles), *swap_findings(job)] if alone else []
    findings.sort(key=lambda finding: -(finding.gain_ns or 0))
    findings = [*lost_by_all(job, findings[0] if findings else None), *findings]
    return [*findings, *_missing(job), *_clocks(job), *_unpaired_calls(job)]


def _of_roles(job: Job) -> list[Finding]:
    """What is wrong within the roles; that nothing ties ranks which never meet is no news there."""
    findings = [*role_findings(job.roles), *swap_findings(job)]
    for part in job.parts:
        for row in job_findings(part, alone=False):
            if row.title.code != "job.clock.title":
                title = message("job.of_role", role=part.role or "–", what=row.title)
                findings.append(replace(row, title=title, role=part.role))
    findings.sort(key=lambda finding: (finding.severity == "info", -(finding.gain_ns or 0)))
    return findings


def _slow_ranks(job: Job, without: frozenset[int]) -> list[Finding]:
    """Ranks that each lengthen the job, and groups of ranks that hide one another.

    Ranks ``without`` are slow by what another finding says of them.
    """
    findings, shape = [], job.shapes
    on_disk = {profile.rank for profile in job.ranks}
    cells = job.slow_cells
    slow_steps = {profile.rank: int(slow.sum()) for profile, slow in zip(job.ranks, cells, strict=True)}
    for row in job.sums:
        gain = row.gain or 0
        kind: str = shape.get(row.rank, "once") if row.rank in on_disk else "outside"
        if not job.length or gain < LEAST_SHARE * job.length or kind in ("wandering", "host") or row.rank in without:
            continue
        if row.rank in on_disk and row.rank not in shape:
            # In no step it is slower than chance makes ranks: only a sum worth an alarm is reported.
            if gain < ALARM * job.length:
                continue
            kind = "sum"
        held = step_time(job)
        args: dict[str, object] = {"rank": row.rank, "own": held.each(row.own), "cost": held.each(row.cost)}
        hidden = "" if row.exposed is None else message("job.slow.exposed", exposed=held.each(row.exposed))
        args |= {"last": row.came_last, "count": row.collectives, "hidden": hidden}
        args |= {"steps": slow_steps.get(row.rank, 0), "all": len(job.steps)}
        why = _why(job, (row.rank,), gain)
        args |= {"what": why or ""}
        title = "job.late.title" if kind == "outside" else "job.slow.title_by" if why else "job.slow.title"
        codes = title, f"job.slow.{kind}"
        places = _evidence(job, row.rank)
        findings.append(priced("RANK.SLOW", codes, (row.rank,), gain, step_time(job), places, **args))
    findings = _by_cause(job, findings)
    for longest in job.longest:
        if longest.rank not in without:
            codes, gain = ("job.slow.title", "job.slow.sum"), round(longest.gain)
            held = step_time(job)
            args = {"rank": longest.rank, "own": held.each(longest.more), "cost": held.each(gain)}
            findings.append(priced("RANK.SLOW", codes, (longest.rank,), gain, step_time(job), **args))
    # Two that are slow in the same steps hide each other in them, as two that always are.
    beside = cells & (cells.sum(axis=0) > 1)
    often = {
        profile.rank
        for profile, slow in zip(job.ranks, beside, strict=True)
        if 2 * slow.sum() > slow_steps[profile.rank]
    }
    always = [
        row
        for row in job.sums
        if row.own >= LEAST_SHARE * job.length
        and row.rank not in without
        and (shape.get(row.rank) == "always" or (row.rank in often and shape.get(row.rank) == "once"))
    ]
    # Two that are each slower than the other are not: of ranks with the same work one must be in time.
    named = {row.rank for row in always}
    slower = Counter(job.peers_key(profile.rank) for profile in job.ranks if profile.rank not in named)
    always = [row for row in always if row.rank not in on_disk or slower[job.peers_key(row.rank)]]
    if len(always) > 1:
        together = gains_of(job, [[row.rank for row in always]])[0]
        alone = max(row.gain or 0 for row in always)
        if together - alone >= LEAST_SHARE * job.length:
            always.sort(key=lambda row: (-(row.gain or 0), -row.own, row.rank))
            ranks = tuple(row.rank for row in always)
            held = step_time(job)
            prefixes = [ranks[:count] for count in range(1, min(len(ranks), LISTED) + 1)]
            turns = [
                message("job.several.too" if count else "job.several.alone", rank=ranks[count], gain=held.each(gain))
                for count, gain in enumerate(gains_of(job, prefixes))
            ]
            args = {"count": len(ranks), "ranks": list(ranks[:8]), "turns": turns}
            by = _why(job, ranks, together)
            args |= {"what": by or ""}
            codes = "job.several.title_by" if by else "job.several.title", "job.several.detail"
            findings.append(
                priced("RANK.SLOW", codes, ranks, together, step_time(job), _first_places(job, ranks), **args)
            )
    return findings


def _by_cause(job: Job, slow: list[Finding]) -> list[Finding]:
    """The findings about ``slow`` ranks, those as one that a cause of the same kind holds up at different times."""
    whole, held, same = list[Finding](), step_time(job), dict[str, list[tuple[Finding, RankFinding]]]()
    for found in slow:
        cause = _cause_on(job, found.ranks[0], found.gain_ns or 0)
        if cause is None:
            whole.append(found)
        else:
            same.setdefault(cause.id, []).append((found, cause))
    for each in same.values():
        each.sort(key=lambda pair: -(pair[0].gain_ns or 0))
        gains = [found.gain_ns or 0 for found, _ in each]
        ranks = tuple(found.ranks[0] for found, _ in each)
        together = gains_of(job, [ranks])[0]
        if len(each) < MORE_THAN_ONE or not sum(gains) <= (1 + NOTABLE) * together <= (1 + NOTABLE) ** 2 * sum(gains):
            whole += [found for found, _ in each]
            continue
        turns = [
            message("job.several.alone", rank=rank, gain=held.each(gain))
            for rank, gain in zip(ranks, gains, strict=True)
        ]
        what = message("job.several.by.own", what=placed(each[0][1]))
        args = {"count": len(ranks), "ranks": list(ranks[:8]), "turns": turns[:LISTED], "what": what}
        codes, places = ("job.several.title_same", "job.several.detail_same"), _first_places(job, ranks)
        whole.append(priced("RANK.SLOW", codes, ranks, together, held, places, **args))
    return whole


def _why(job: Job, ranks: Sequence[int], gain: int) -> Message | None:
    """What makes ``ranks`` slow by ``gain`` ns, for their title: the card or host of each, or what their profiles find.

    All of them have the same reason; the figures are those of the one that has least of it.
    """
    places = [place for place, each in enumerate(job.ranks) if each.rank in ranks]
    if len(places) < len(ranks):
        return None
    every, whose = [job.beside[place] for place in places], "several" if len(ranks) > 1 else "slow"
    if all((each.card or 0.0) >= SLOW_CARD and each.slower >= HALF * gain for each in every):
        what, words = slow_in(every)
        return message(f"job.{whose}.by.{what}", **words)
    for what, each_times in (("host", [each.host for each in every]), ("asking", [each.asking for each in every])):
        times = min(each or 0.0 for each in each_times)
        if times >= SLOW_HOST and all(_idles_longer(job, place) >= HALF * gain for place in places):
            return message(f"job.{whose}.by.{what}", times=times)
    cause = _cause_on_all(job, ranks, gain)
    waits = len(ranks) == 1 and (cause is None or cause.id == "SYNC.HOST")
    if waits and (still := stands_still(job.ranks, places[0], gain, job.by_step.steps, job.slow_cells[places[0]])):
        return still
    return None if cause is None else message(f"job.{whose}.by.own", what=placed(cause))


def _idles_longer(job: Job, place: int) -> int:
    """How much longer than on its median peer the device at ``place`` is idle, ns over all steps."""
    key = job.peers_key(job.ranks[place].rank)
    peers = [each for each in job.ranks if job.peers_key(each.rank) == key]
    idle = [sum(step.free for step in each.steps) for each in peers]
    return sum(step.free for step in job.ranks[place].steps) - median_low(idle)


def _cause_on(job: Job, rank: int, gain: int) -> RankFinding | None:
    """What by the rank's own profile is most of its ``gain``, ns, and not so on its median peer."""
    own, peers = next((each for each in job.ranks if each.rank == rank), None), []
    for each in job.ranks:
        if each.rank != rank and each.recorded is not None and job.peers_key(each.rank) == job.peers_key(rank):
            peers.append({found.about: found.gain * found.count for found in reversed(each.findings)})
    for found in own.findings if own is not None and peers else ():
        more = found.gain * found.count - median_low([of_peer.get(found.about, 0) for of_peer in peers])
        if found.is_cause and found.id not in OF_OTHERS and more >= HALF * gain:
            return found
    return None


def _cause_on_all(job: Job, ranks: Sequence[int], gain: int) -> RankFinding | None:
    """What is most of the ``gain``, ns, on each of ``ranks``; of several it is enough that most of them name it."""
    causes = [_cause_on(job, rank, gain) for rank in ranks]
    named = Counter(cause.about for cause in causes if cause is not None)
    about, count = max(named.items(), key=lambda row: row[1], default=(None, 0))
    alike = count > MAINLY * len(ranks) or count == len(ranks)
    return next(cause for cause in causes if cause is not None and cause.about == about) if count and alike else None


def _first_places(job: Job, ranks: Sequence[int]) -> tuple[Evidence, ...]:
    """The first place of each of a few ranks."""
    return tuple(place for rank in ranks[:PLACES] for place in _evidence(job, rank)[:1])


def _evidence(job: Job, rank: int) -> tuple[Evidence, ...]:
    """The work before the collectives that the rank itself delayed most, at most five of them."""
    blame = job.blamed
    arrivals = np.flatnonzero(np.array(blame.ranks)[blame.rank] == rank) if len(blame) else np.zeros(0, np.int64)
    arrivals = arrivals[(blame.own[arrivals] > 0) & (blame.call[arrivals] >= 0)]
    arrivals = arrivals[np.argsort(-blame.own[arrivals], kind="stable")][:5]
    start = job.calls.start[blame.call[arrivals]]
    length = np.where(blame.has_gap[arrivals], blame.gap[arrivals], blame.own[arrivals])
    return tuple(
        Evidence(begun - took, begun, rank=rank) for begun, took in zip(start.tolist(), length.tolist(), strict=True)
    )


def _slow_hosts(job: Job, without: frozenset[int]) -> list[Finding]:
    """Hosts whose ranks are slow together."""
    findings, shape = [], job.shapes
    for host in job.hosts:
        ranks = [rank for rank in host.ranks if shape.get(rank) == "host" and rank not in without]
        gain = gains_of(job, [ranks])[0] if ranks else 0
        if not ranks or not job.length or gain < LEAST_SHARE * job.length:
            continue
        by = _why(job, ranks, gain)
        args: dict[str, object] = {"host": host.id, "count": len(ranks), "all": len(host.ranks)}
        detail = "job.host.detail"
        if by is None and (at_once := _at_once(job, ranks)):
            args |= at_once
            by, detail = message("job.host.by.at_once", **at_once), "job.host.detail_at_once"
        args["what"] = by or ""
        codes = "job.host.title_by" if by else "job.host.title", detail
        places = _first_places(job, ranks)
        findings.append(priced("RANK.HOST", codes, tuple(ranks), gain, step_time(job), places, **args))
    return findings


def _at_once(job: Job, ranks: Sequence[int]) -> dict[str, object]:
    """The few steps in which all of ``ranks`` fall behind together, and how far; empty if one does so alone."""
    own = [place for place, profile in enumerate(job.ranks) if profile.rank in ranks]
    cells, names = job.slow_cells[own], job.by_step.steps
    steps = np.flatnonzero(cells.any(axis=0))
    if not len(steps) or not cells[:, steps].all() or len(steps) > HALF * len(names):
        return {}
    lost = job.by_step.own[own][:, steps].mean(axis=1)
    args: dict[str, object] = {"steps": len(steps), "named": [names[step] for step in steps[:LISTED].tolist()]}
    return args | {"whole": len(names), "least": int(lost.min()), "most": int(lost.max())}


def _wandering(job: Job, without: frozenset[int]) -> list[Finding]:
    """Ranks that are slow in turns, with what the job would save if none of them were."""
    slow = [number for number, profile in enumerate(job.ranks) if job.shapes.get(profile.rank) == "wandering"]
    places = [number for number in slow if job.ranks[number].rank not in without]
    if not places or not job.length or len(places) < len(slow) / 2:
        return []
    cells, blame = job.slow_cells, job.blamed
    column = {step: number for number, step in enumerate(job.by_step.steps)}
    step = np.array([column.get(name, -1) for name in blame.step_names], np.int64)[blame.steps[blame.row]]
    inside = ~blame.outside & (step >= 0)
    case = np.zeros(len(inside), np.bool_)
    case[inside] = cells[blame.rank[inside], step[inside]]
    part = np.zeros(len(inside))
    part[inside] = 1 - _stays(job)[blame.rank[inside], step[inside]]
    gain = job.savings.saved([job.savings.reduced_to_median(case, part)])[0]
    if gain < LEAST_SHARE * job.length:
        return []
    ranks = tuple(job.ranks[place].rank for place in places)
    args: dict[str, object] = {"steps": int(cells.any(axis=0).sum()), "ranks": len(ranks)}
    args["cost"] = step_time(job).each(gain)
    told = _cause_in_turns(job, ranks, gain)
    if told is not None:
        args |= {"rank": told[0], "what": placed(told[1]), "advice": message("list.sentences", parts=told[1].advice)}
    codes = ("job.wander.title_by", "job.wander.detail_by") if told else ("job.wander.title", "job.wander.detail")
    return [priced("RANK.WANDER", codes, ranks, gain, step_time(job), **args)]


def _cause_in_turns(job: Job, ranks: Sequence[int], gain: int) -> tuple[int, RankFinding] | None:
    """What most of ``ranks`` lose alike, now one and now another, in sum most of ``gain``; and who loses most by it."""
    lost: dict[Hashable, list[tuple[int, int, RankFinding]]] = defaultdict(list)
    for each in job.ranks:
        own = {row.about: row for row in reversed(each.findings) if row.is_cause and row.id not in OF_OTHERS}
        for about, row in own.items() if each.rank in ranks else ():
            lost[about].append((max(row.gain, row.freed) * row.count, each.rank, row))
    shared = [rows for rows in lost.values() if len(rows) > MAINLY * len(ranks)]
    most = max(shared, key=lambda rows: sum(time for time, _, _ in rows), default=[])
    return max(most, key=lambda row: row[:2])[1:] if sum(time for time, _, _ in most) >= HALF * gain else None


def _uneven(job: Job) -> list[Finding]:
    """Ranks that have more work than their peers: evenly divided, each has the mean.

    Kernels separate work from a slow card: what takes longer at equal shapes is no more work. Where they are not known,
    nearly all ranks must differ, as no fault of some of them does.
    """
    steps = [{told.step: told.computing for told in profile.steps} for profile in job.ranks]
    if not all(steps) or not job.length or not job.blamed:
        return []
    own, names = job.by_step.own, job.by_step.steps
    card = np.array([each.card or 1.0 for each in job.beside])[:, None]
    work = np.array([[each.get(name, 0) for name in names] for each in steps], np.float64) / card
    mean, least = work.copy(), work.copy()
    keys = [job.peers_key(profile.rank) for profile in job.ranks]
    for key in set(keys):
        same = [place for place, each in enumerate(keys) if each == key]
        mean[same], least[same] = work[same].mean(axis=0), work[same].min(axis=0)
    more = ((work - mean) * card).clip(0)
    other = [each.other for each in job.beside if each.other is not None]
    known = len(other) == len(work)
    if known:
        more[more.sum(axis=1) > other] = 0  # the same kernels now and then longer
    else:
        differ = np.count_nonzero(work - least > NOTABLE * mean, axis=0) >= len(job.ranks) - 1
        if len(set(keys)) > 1 or len(keys) <= MORE_THAN_ONE or not np.count_nonzero(differ) > HALF * len(names):
            return []
    blame = job.blamed
    column = {step: number for number, step in enumerate(names)}
    step = np.array([column.get(name, -1) for name in blame.step_names], np.int64)[blame.steps[blame.row]]
    inside = ~blame.outside & (step >= 0)
    part = np.zeros(len(inside))
    part[inside] = (more / np.maximum(own, 1)).clip(0, 1)[blame.rank[inside], step[inside]]
    gain, held = job.savings.saved([job.savings.reduced_to_median(part > 0, part)])[0], step_time(job)
    if gain < ALARM * job.length:
        return []
    most, fewest = int(more.sum(axis=1).argmax()), int(work.mean(axis=1).argmin())
    args: dict[str, object] = {"rank": job.ranks[most].rank, "time": float(work[most].mean())}
    args |= {"mean": float(mean[most].mean()), "other": job.ranks[fewest].rank, "less": float(work[fewest].mean())}
    turns = int(np.count_nonzero(more.argmax(axis=0) == most)) < NEARLY_ALL * len(names)
    above = np.flatnonzero((more > LITTLE * mean).any(axis=1)).tolist()
    how = "_turns" if turns else "_known" if known else ""
    codes = f"job.uneven.title{'_turns' * turns}", f"job.uneven.detail{how}"
    ranks, places = tuple(job.ranks[place].rank for place in above), _evidence(job, job.ranks[most].rank)
    found = priced("RANK.WANDER" if turns else "RANK.SLOW", codes, ranks, gain, held, places, **args)
    kinds = [message("job.uneven.kind", type=kind, time=held.each(time)) for kind, time in job.beside[most].more]
    what = message("job.uneven.more", rank=job.ranks[most].rank, kinds=kinds) if how == "_known" and kinds else ""
    even = all(each.card is not None and each.card < SLOW_CARD for each in job.beside)
    return [replace(found, detail=sentences(what, message("job.uneven.even") if even else "", found.detail))]


def _stays(job: Job) -> F64:
    """Which part of its own excess each rank keeps in each step where the work is divided evenly; (ranks, steps).

    What it computes more is shared by all ranks then; what its host takes longer is gone.
    """
    own, column = job.by_step.own, {name: number for number, name in enumerate(job.by_step.steps)}
    computing = np.zeros(own.shape)
    for place, profile in enumerate(job.ranks):
        for told in profile.steps:
            if told.step in column:
                computing[place, column[told.step]] = told.computing
    moved = (computing - np.median(computing, axis=0)).clip(0, np.maximum(own, 0)).sum(axis=0)
    return np.asarray((moved / len(own) / np.maximum(own, 1)).clip(0, 1))


def _slow_links(job: Job) -> list[Finding]:
    """Links and ports that are slow: for each link the size at which it is slowest beside the others."""
    findings = []
    slowest: dict[tuple[int, int], Link] = {}
    for link in sorted(job.links, key=lambda link: link.speed / link.expected):
        slowest.setdefault((link.source, link.target), link)
    slow = {pair: link for pair, link in slowest.items() if link.verdict in ("slow", "falters")}
    for pair, link in sorted(slow.items()):
        both = pair[::-1] in slow
        if both and pair[0] > pair[1]:
            continue
        link = min(link, slow.get(pair[::-1], link), key=lambda link: link.speed / link.expected)
        args = {"source": link.source, "target": link.target, "transport": link.transport, "type": link.type}
        args |= {
            "ranks": pair,
            "others": link.beside,
            "speed": link.speed,
            "expected": link.expected,
            "size": link.size_mb * 1e6,
        }
        falters, all_same = link.verdict == "falters", {"count": link.count, "all": link.all}
        detail = "falters.detail" if falters else "beside" if link.beside else "detail"
        codes = f"job.link{'.falters' * falters}.title{'_both' * both}", f"job.link.{detail}"
        # How much of a transfer now and then computing hides, only the rank's own replay knows.
        saved = 0 if falters else in_less(job, (link.source, link.target), link.type, link.speed / link.expected)
        findings.append(_of_links(job, "LINK.SLOW", codes, pair, pair, args | all_same, saved))
    ports: dict[int, list[Link]] = defaultdict(list)
    for link in slowest.values():
        if link.verdict in ("slow_sender", "slow_receiver"):
            ports[link.source if link.verdict == "slow_sender" else link.target].append(link)
    for rank, links in sorted(ports.items()):
        speed, expected = median(link.speed for link in links), median(link.expected for link in links)
        seeing = [end for link in links for end in (link.source, link.target)]
        args = {"rank": rank, "links": len({*seeing} - {rank}), "speed": speed, "expected": expected}
        verdicts = {link.verdict for link in links}
        codes = f"job.port.{min(verdicts) if len(verdicts) == 1 else 'both'}", "job.port.detail"
        # Whoever it exchanges data with in a group, all wait for it.
        saved = max(in_less(job, (rank,), kind, speed / expected) for kind in {link.type for link in links})
        findings.append(_of_links(job, "LINK.PORT", codes, (rank,), seeing, args, saved))
    return findings


def _of_links(
    job: Job, id: str, codes: tuple[str, str], ranks: tuple[int, ...], seeing: Sequence[int], args: dict[str, object],
    saved: int = 0,
) -> Finding:  # fmt: skip
    """A finding about links that are worth ``saved`` ns, or what a rank ``seeing`` them says of their price.

    All ranks leave a collective together, so that the job gains what the rank gains that waits longest for the link.
    """
    gains = [found.gain for each in job.ranks if each.rank in seeing for found in each.findings if found.id == _LINK]
    found = noted(id, codes, ranks, "medium", **args)
    if not (saved or gains) or not job.length:
        return found
    gain = saved or max(gains) * max(len(job.steps), 1)
    held = step_time(job)
    saves = message("job.links.saves", gain=held.each(gain), share=gain / job.length, **held.words)
    detail = message("list.sentences", parts=[found.detail, saves])
    return replace(found, severity=severity_of(None, gain / job.length), detail=detail, gain_ns=gain)


def _missing(job: Job) -> list[Finding]:
    if not job.missing:
        return []
    stages = sorted({*job.lost_stages.values()})
    detail = "job.missing.stage" if stages else "job.missing.detail"
    args = {"count": len(job.missing), "ranks": job.missing[:8], "there": len(job.ranks), "stages": stages}
    return [noted("RANK.MISSING", ("job.missing.title", detail), tuple(job.missing), "info", **args)]


def _clocks(job: Job) -> list[Finding]:
    findings = []
    every = job.all_blamed
    for rank in np.unique(every.last[job.skewed]).tolist():
        of_rank = np.flatnonzero(job.skewed & (every.last == rank))
        kind = every.met.table.kinds[every.met.kind[every.meeting[of_rank[0]]]][1]
        args: dict[str, object] = {"rank": job.ranks[rank].rank, "by": int(every.cost[of_rank].max())}
        args |= {"count": len(of_rank), "type": kind}
        codes = "job.skew.title", "job.skew.detail"
        findings.append(noted("RANK.CLOCK", codes, (job.ranks[rank].rank,), "info", **args))
    if job.untied:
        args = {"count": len(job.untied), "ranks": list(job.untied[:8])}
        findings.append(noted("RANK.CLOCK", ("job.clock.title", "job.clock.detail"), job.untied, "info", **args))
    drifting = sorted(
        (clock for clock in job.clocks if abs(clock.drift) >= _DRIFT), key=lambda clock: -abs(clock.drift)
    )
    if drifting:
        ranks = tuple(clock.rank for clock in drifting)
        args = {"count": len(ranks), "ranks": list(ranks[:8]), "drift": drifting[0].drift * 1e6}
        findings.append(noted("RANK.CLOCK", ("job.drift.title", "job.drift.detail"), ranks, "info", **args))
    return findings


def _unpaired_calls(job: Job) -> list[Finding]:
    """Calls that belong to no call of another rank, by group and type."""
    same: dict[tuple[str, str], list[Unpaired]] = defaultdict(list)
    for unpaired in job.unpaired:
        same[unpaired.group, unpaired.type].append(unpaired)
    findings: list[Finding] = []
    for (group, kind), rows in list(same.items())[:PLACES]:
        counts = max((row.counts for row in rows), key=lambda each: max(each.values()) - min(each.values()))
        least, most, paired = min(counts.values()), max(counts.values()), sum(row.paired for row in rows)
        args: dict[str, object] = {"type": kind, "group": group, "steps": len(rows), "step": rows[0].step}
        args |= {"left_out": sum(row.left_out for row in rows), "all": sum(sum(row.counts.values()) for row in rows)}
        why = [message("job.sizes.uneven", least=least, most=most) if least < most else message("job.sizes.apart")]
        why += [message("job.sizes.paired", paired=paired)] if paired else []
        if len(findings) == PLACES - 1 and len(same) > PLACES:
            why.append(message("job.sizes.more", count=len(same) - PLACES))
        codes = "job.sizes.title", "job.sizes.detail"
        findings.append(noted("GROUP.SIZES", codes, tuple(sorted(counts)), "low", why=why, **args))
    return findings
