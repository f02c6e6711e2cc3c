"""All findings of a trace, in the order of work, with what could not be checked and the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.thresholds import AnyThreshold
from npu_tui.rules import FAMILIES
from npu_tui.rules.facts import Facts
from npu_tui.rules.ladder import COMPUTE_HIDDEN, SUMMING_UP, Candidate, climb
from npu_tui.rules.model import SEVERITIES, Finding, Findings
from npu_tui.rules.rule import Draft, Rule, Skipped, advise
from npu_tui.trace.message import Message, message

RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES for rule in import_module(f"npu_tui.rules.{family}").RULES)
"""Every rule; each id occurs once."""

THRESHOLDS: tuple[AnyThreshold, ...] = tuple(
    dict.fromkeys((COMPUTE_HIDDEN, *(threshold for rule in RULES for threshold in rule.thresholds)))
)
"""Every number that findings depend on, each once: what a user can set in the table ``[thresholds]``."""


def find(devices: Sequence[Facts], threads: int = 1) -> Findings:
    """The findings of all ``devices`` of one trace; of several devices the one counts that loses most to a finding.

    ``threads`` of them run the rules, which are independent of each other.
    """
    if not devices:
        missing = message("finding.needs.device")
        return Findings((), tuple((rule.id, missing) for rule in RULES), (message("finding.verdict.no_device"),))
    judged = [_of_device(facts, threads) for facts in devices]
    if len(judged) == 1:
        (only,) = judged
        return Findings(only.findings, only.not_checked, _in_order([*only.lines.values()][:2]) or only.otherwise)
    named = [_named(one_device, facts) for one_device, facts in zip(judged, devices, strict=True)]
    best: dict[str, Finding] = {}
    for finding in sorted((candidate for row in named for candidate in row.findings), key=_importance):
        best.setdefault(finding.id, finding)
    checked = set(best)
    skipped = {rule: reason for row in named for rule, reason in row.not_checked if rule not in checked}
    order = sorted(best.values(), key=_importance)
    return Findings(tuple(order), tuple(skipped.items()), _verdict_of_all(order, named))


def _verdict_of_all(order: list[Finding], named: list[_Judged]) -> tuple[Message, ...]:
    """The verdict of several devices: the first two of ``order`` that a device works on, in this order."""
    lines = {id(finding): row.lines[finding.id] for row in named for finding in row.findings if finding.id in row.lines}
    leading = [lines[id(leader)] for leader in order if id(leader) in lines]
    return _in_order(leading[:2]) if leading else named[0].otherwise


def titles(devices: Sequence[Facts]) -> tuple[dict[str, Message], set[str]]:
    """Titles of the findings above info on any of ``devices``, by id, and the rules that some device could not answer.

    Findings are not weighed, so this takes a fraction of the time of ``find``.
    """
    titles: dict[str, Message] = {}
    silent: set[str] = set() if devices else {rule.id for rule in RULES}
    for facts in devices:
        candidates, skipped = _candidates(facts)
        silent.update(rule for rule, _ in skipped)
        for candidate in candidates:
            title = candidate.draft.title
            if len(devices) > 1:
                title = message("finding.device", device=facts.part.device, text=title)
            if candidate.draft.severity != "info":
                titles.setdefault(candidate.rule.id, title)
    return titles, silent


class _Judged(Struct, frozen=True):
    """The findings of one device, a line for each that is to be worked on, in this order, and what is said of none."""

    findings: tuple[Finding, ...]
    not_checked: tuple[tuple[str, Message], ...]
    lines: dict[str, Message]
    otherwise: tuple[Message, ...]


def _of_device(facts: Facts, threads: int) -> _Judged:
    candidates, skipped = _candidates(facts, threads)
    findings, leading = climb(candidates, facts, threads)
    drafts = {candidate.rule.id: candidate.draft.verdict for candidate in candidates}
    lines = {
        finding.id: drafts[finding.id]
        or message("finding.verdict.line", what=message(f"finding.class.{finding.cls}"), title=finding.title)
        for finding in findings[:leading]
    }
    return _Judged(tuple(findings), tuple(skipped), lines, _nothing_to_do(facts))


def _candidates(facts: Facts, threads: int = 1) -> tuple[list[Candidate], list[tuple[str, Message]]]:
    """The drafts of a device, and the rules that could not be applied to it with the reason."""

    def asked(rule: Rule) -> Draft | Skipped | None:
        if facts.on_gpu and rule.gpu is None:
            return Skipped(message("finding.needs.npu"))
        missing = next((needed for needed in rule.inputs if not facts.has(needed)), None)
        if missing is not None:
            return Skipped(message(f"finding.needs.{missing}"))
        answer = rule.check(facts)
        if facts.on_gpu and isinstance(answer, Draft):
            return replace(answer, advice=advise(*(rule.gpu or ())))
        return answer

    if threads > 1:
        # The model takes longest: it is begun first, and the rules that wait for it come last.
        from concurrent.futures import ThreadPoolExecutor  # few traces are worth it

        with ThreadPoolExecutor(threads + 1) as pool:
            pool.submit(lambda: facts.replay)
            order = sorted(RULES, key=lambda rule: rule.replayed)
            given = {rule.id: answer for rule, answer in zip(order, pool.map(asked, order), strict=True)}
        answers = [given[rule.id] for rule in RULES]
    else:
        answers = [asked(rule) for rule in RULES]
    candidates: list[Candidate] = []
    skipped: list[tuple[str, Message]] = []
    for rule, draft in zip(RULES, answers, strict=True):
        if isinstance(draft, Skipped):
            skipped.append((rule.id, draft.reason))
        elif draft is not None:
            candidates.append(Candidate(rule, _within(draft, facts)))
    return candidates, skipped


def _within(draft: Draft, facts: Facts) -> Draft:
    """The draft with nothing removed outside a range of time; a step owns what belongs to it as a whole."""
    if draft.removes is None or facts.whole_steps:
        return draft
    return replace(draft, removes=facts.cut(draft.removes))


def _in_order(lines: list[Message]) -> tuple[Message, ...]:
    """The lines of the findings to work on, the first and those after it."""
    return (*lines[:1], *(message("finding.verdict.then", line=line) for line in lines[1:]))


def _nothing_to_do(facts: Facts) -> tuple[Message, ...]:
    """What the device does with its time, where no finding is to be worked on."""
    if not facts.has("overlap"):
        sums = facts.sums
        if not sums.total:
            return (message("finding.verdict.no_device"),)
        parts = {"compute": sums.computing, "exposed": sums.not_overlapped, "free": sums.free}
        shares = {name: sums.ratio(part) for name, part in parts.items()}
        return (message("finding.verdict.tables", total=sums.total, **shares),)
    compute, free = facts.share(facts.sums.computing), facts.share(facts.sums.free)
    return (message("finding.verdict.healthy", total=facts.total, compute=compute, free=free),)


def _named(judged: _Judged, facts: Facts) -> _Judged:
    """The findings and the lines with their device."""

    def labelled(text: Message) -> Message:
        return message("finding.device", device=facts.part.device, text=text)

    return _Judged(
        tuple(replace(finding, title=labelled(finding.title)) for finding in judged.findings),
        judged.not_checked,
        {name: labelled(line) for name, line in judged.lines.items()},
        (labelled(judged.otherwise[0]), *judged.otherwise[1:]),
    )


def _importance(finding: Finding) -> tuple[object, ...]:
    """Sorts the findings of several devices as one device's ladder does."""
    outside = finding.step_after_ns is None
    return (
        finding.id in SUMMING_UP,
        finding.hidden,
        outside,
        finding.part_of is not None,
        SEVERITIES.index(finding.severity) if outside else 0,
        -(finding.gain_ns or 0),
    )
