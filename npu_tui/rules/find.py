"""All findings of a trace, in the order of work, with what could not be checked and the verdict in words.

Each device is judged alone, and one of several counts: that which loses most. ``ladder`` orders the findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.communication import beyond_usual
from npu_tui.analysis.limits import LITTLE, SHORT_NS, AnyThreshold
from npu_tui.rules import FAMILIES
from npu_tui.rules.compute import computing_is
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import length_of
from npu_tui.rules.ladder import COMPUTE_HIDDEN, SUMMING_UP, climb, is_work
from npu_tui.rules.left_out import UNENDED, left_out
from npu_tui.rules.model import MUCH_LOST, SEVERITIES, Finding, Findings
from npu_tui.rules.rule import Draft, FiredRule, Rule, Skipped, advise, sentences
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.rules.waits import blocked_for_nothing
from npu_tui.trace.arrays import in_groups
from npu_tui.trace.kineto import exchanges
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES for rule in import_module(f"npu_tui.rules.{family}").RULES)
"""Every rule; each id occurs once."""

THRESHOLDS: tuple[AnyThreshold, ...] = tuple(
    dict.fromkeys((COMPUTE_HIDDEN, *(limit for rule in (*RULES, *SERVICE_RULES) for limit in rule.thresholds)))
)
"""Every number that findings depend on, each once: what a user can set in the table ``[thresholds]``."""


def find(devices: Sequence[Facts], threads: int = 1, unsafe: Message | None = None) -> Findings:
    """The findings of all ``devices`` of one trace; among several devices the one counts that loses most to a finding.

    ``threads`` of them run the rules, which are independent of each other. What makes the trace ``unsafe`` to judge is
    reported instead.
    """
    if not devices or unsafe is not None:
        why, said = message("finding.needs.device"), message("finding.verdict.no_device")
        captured = unsafe is not None and unsafe.code == "finding.verdict.capturing"  # else a clock jumps
        blocked = blocked_for_nothing(devices[0]) if devices and captured else None
        lines = (unsafe or said, *([] if blocked is None else [blocked]))
        return Findings((), tuple((rule.id, unsafe or why) for rule in RULES), lines)
    judged = [_judged_device(facts, threads) for facts in devices]
    if len(judged) == 1:
        (only,) = judged
        leaders = tuple(finding for finding in only.findings if finding.verdict is not None)[:2]
        lines = _work_lines(leaders) or only.otherwise
        return Findings(_work_first(only.findings), only.not_checked, _after_left_out(devices[0], lines), leaders)
    replayed = next((facts for facts in devices if facts.replay is not None), None)
    named = [
        _with_device(one_device, facts, facts is replayed) for one_device, facts in zip(judged, devices, strict=True)
    ]
    best: dict[object, Finding] = {}
    for finding in sorted((candidate for row in named for candidate in row.findings), key=_importance):
        best.setdefault((finding.id, finding.code_lines), finding)
    checked = {finding.id for finding in best.values()}
    skipped = {rule: reason for row in named for rule, reason in row.not_checked if rule not in checked}
    order = sorted(best.values(), key=_importance)
    # The first two that a device works on.
    leaders = tuple(finding for finding in order if finding.verdict is not None)[:2]
    verdict = _work_lines(leaders) or named[0].otherwise
    return Findings(_work_first(order), tuple(skipped.items()), _after_left_out(devices[0], verdict), leaders)


def _work_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """``findings`` in their order, those to be worked on first: numbered from 1 they are the same everywhere."""
    return tuple(sorted(findings, key=lambda finding: not is_work(finding)))


def _after_left_out(facts: Facts, lines: tuple[Message, ...]) -> tuple[Message, ...]:
    """``lines`` after what is left out of their figures."""
    left = left_out(facts)
    return (sentences(*left, lines[0]), *lines[1:]) if left else lines


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
    """The findings of one device in the order of work, and what is said where none is to be worked on."""

    findings: tuple[Finding, ...]
    not_checked: tuple[tuple[str, Message], ...]
    otherwise: tuple[Message, ...]


def _judged_device(facts: Facts, threads: int) -> _Judged:
    candidates, skipped = _candidates(facts, threads)
    drafts = {candidate.rule.id: candidate.draft for candidate in candidates}
    return _Judged(tuple(climb(candidates, facts, threads)), tuple(skipped), _nothing_to_do(facts, drafts))


def _candidates(facts: Facts, threads: int = 1) -> tuple[list[FiredRule], list[tuple[str, Message]]]:
    """The drafts of a device, and the rules that could not be applied to it with the reason."""
    recorder = facts.recorder

    def drafts_of(rule: Rule) -> tuple[Draft, ...] | Skipped:
        if getattr(rule, recorder.advice) is None:
            return Skipped(message("finding.needs.npu"))
        missing = next((needed for needed in rule.inputs if not facts.has(needed)), None)
        if missing is not None:
            return Skipped(message(f"finding.needs.{missing}"))
        answer = rule.check(facts)
        if isinstance(answer, Skipped):
            return answer
        found = (answer,) if isinstance(answer, Draft) else answer or ()
        if recorder.own_advice:
            return tuple(_own_advice(rule, draft) for draft in found)
        return found if facts.is_of_torch else tuple(_advice_without_torch(rule, draft) for draft in found)

    if threads > 1:
        # The model takes longest: it is begun first, and the rules that wait for it come last.
        from concurrent.futures import ThreadPoolExecutor  # few traces are worth it

        with ThreadPoolExecutor(threads + 1) as pool:
            pool.submit(lambda: facts.replay)
            order = sorted(RULES, key=lambda rule: rule.replayed)
            given = {rule.id: answer for rule, answer in zip(order, pool.map(drafts_of, order), strict=True)}
        answers = [given[rule.id] for rule in RULES]
    else:
        answers = [drafts_of(rule) for rule in RULES]
    candidates: list[FiredRule] = []
    skipped: list[tuple[str, Message]] = []
    for rule, answer in zip(RULES, answers, strict=True):
        if isinstance(answer, Skipped):
            skipped.append((rule.id, answer.reason))
        else:
            candidates += [FiredRule(rule, _limited_to_range(draft, facts)) for draft in answer]
    return candidates, skipped


def _own_advice(rule: Rule, draft: Draft) -> Draft:
    """``draft`` with the advice that holds on a GPU; what names the recordings of an NPU is left out."""
    loss = None if draft.unexplained is None else replace(draft.unexplained, advice=())
    every = advise(*(rule.gpu or ()))
    advice = tuple(text for text in draft.advice or () if text in every) or every
    return replace(draft, advice=advice, unexplained=loss)


OF_TORCH = frozenset(
    f"finding.advice.{word}"
    for word in (
        "task_queue", "set_queue", "binding", "jit_compile", "metrics_rarely", "copy_back", "non_blocking", "prefetch",
        "inference", "foreach", "graph", "fewer_operators", "larger_packets", "expandable", "empty_cache",
        "fused_optimizer", "prefetch_weights", "gather_less", "asynchronous", "mc2", "share.softmax", "internal_format",
        "gc", "workers", "workers_more", "pin_memory", "pause_record", "pause_thread", "work_on_device", "engine_async",
        "affinity", "ai_cpu_operators", "mixed_precision", "formats", "checkpointing", "leak_detach", "not_recorded",
        "profile_again", "level1_tasks", "late_unknown", "launch_blocking", "overlap_steps", "record_host", "gc_record",
        "deterministic", "undetermined", "anomaly", "topk", "fixed_shape", "timers", "grouped_products", "sum_together",
        "fetch_itself", "allow_hf32", "sparse_rows", "windows",
    )
)  # fmt: skip
"""Advice that names what only torch_npu and its profiler have."""
_HOST = frozenset({"dispatch", "data"})  # classes of findings about what the host does


def _advice_without_torch(rule: Rule, draft: Draft) -> Draft:
    """``draft`` without the advice that only programs of torch_npu can follow."""
    every = advise(*rule.advice) if draft.advice is None else draft.advice
    kept = tuple(
        text for text in every if text.code not in OF_TORCH and not text.code.startswith("finding.environment")
    )
    if every and not kept and rule.cls in _HOST:
        kept = advise("host_ahead")
    loss = draft.unexplained
    if loss is not None:
        loss = replace(loss, advice=tuple(text for text in loss.advice if text.code not in OF_TORCH))
    return replace(draft, advice=kept, unexplained=loss)


def _limited_to_range(draft: Draft, facts: Facts) -> Draft:
    """The draft with nothing removed outside a range of time; a step owns what belongs to it as a whole."""
    if draft.removes is None or facts.whole_steps:
        return draft
    removes = facts.cut(draft.removes)
    most = length_of(removes) or facts.total  # the run may gain more of it, also elsewhere
    return replace(draft, removes=removes, most=most if draft.most is None else min(most, draft.most))


def _work_lines(leaders: Sequence[Finding]) -> tuple[Message, ...]:
    """The lines of the findings to work on, the first and those after it."""
    lines = [leader.verdict for leader in leaders if leader.verdict is not None]
    return (*lines[:1], *(message("finding.verdict.then", line=line) for line in lines[1:]))


def _nothing_to_do(facts: Facts, drafts: dict[str, Draft]) -> tuple[Message, ...]:
    """What the device does with its time, where no finding is to be worked on; a large loss is named first."""
    sums = facts.sums
    if not sums.total:
        return (message("finding.verdict.no_device"),)
    parts = {"compute": sums.computing, "exposed": sums.not_overlapped, "free": sums.free}
    shares: dict[str, float] = {name: facts.share(part) for name, part in parts.items()}
    loss = max("exposed", "free", key=lambda name: shares[name])
    unread: list[Message] = []
    why: Said = ""
    if not facts.has("overlap"):
        file = facts.inputs.table_sums()[0]
        of_steps = file.startswith("step_trace_time")
        why = message("finding.verdict.tables_why" if of_steps else "finding.verdict.kernels_why", file=file)
        unread = [warning for warning in facts.trace.health.warnings if warning.code != "odd.no_trace"][:1]
        whole = sums.total + (ahead := facts.inputs.preparing() if of_steps else 0)
        if ahead > MUCH_LOST * whole:
            words = {"time": ahead, "total": whole, "share": ahead / whole, "file": file}
            unread.insert(0, message("finding.verdict.preparing", **words))
        if shares[loss] <= MUCH_LOST:
            key = "finding.verdict.tables" if of_steps else "finding.verdict.kernels"
            return (message(key, file=file, total=sums.total, **shares), *unread)
    elif shares[loss] <= MUCH_LOST:
        idle = drafts["ENGINE.DUMMY"].verdict if "ENGINE.DUMMY" in drafts else None  # work, but for no request
        healthy = sentences(message("finding.verdict.healthy", each=facts.per_unit(sums.total), **shares), idle or "")
        return (healthy, *computing_is(facts))
    rule = {"exposed": "COMM.EXPOSED", "free": "DISPATCH.FREE"}[loss]
    if rule in drafts and drafts[rule].verdict is not None and drafts[rule].severity == "info":
        why = drafts[rule].verdict or ""
    lost = message(f"finding.verdict.lost_{loss}", each=facts.per_unit(sums.total), **shares)
    most: Said = ""
    if not facts.has("overlap") and loss == "exposed":
        most = _communicated(facts)
    return (sentences(lost, most, why), *unread)


def _communicated(facts: Facts) -> Said:
    """Which collectives take longest by the files of a profile without a trace, or which of their kernels wait."""
    kernels = facts.inputs.all_kernels()
    exchanging = np.flatnonzero(kernels.name.where(exchanges) | kernels.type.where(exchanges))
    found: list[tuple[int, Message]] = []
    for of_type in in_groups(kernels.type.code[exchanging]):
        items = exchanging[of_type]
        length = kernels.duration[items]
        waited = int(beyond_usual(length, np.zeros_like(length), SHORT_NS).sum())
        name, time = kernels.type.at(int(items[0])) or kernels.name.at(int(items[0])) or "", int(length.sum())
        if waited >= LITTLE * time:
            words = {"name": brief(name), "count": len(items), "time": time, "waited": waited}
            found.append((waited, message("finding.verdict.communicated_guess", **words)))
    for name, count, time, waited in facts.inputs.communicated()[:1]:
        words = {"name": brief(name), "count": count, "time": time, "waited": waited}
        kind = "_waits" * (waited >= LITTLE * time)
        found.append((waited or time, message(f"finding.verdict.communicated{kind}", **words)))
    return max(found, key=lambda row: row[0])[1] if found else ""


def _with_device(judged: _Judged, facts: Facts, replayed: bool) -> _Judged:
    """The findings and the lines with their device; what-if is asked of the one that is ``replayed``."""

    def labelled(text: Message) -> Message:
        return message("finding.device", device=facts.part.device, text=text)

    return _Judged(
        tuple(
            replace(
                finding,
                title=labelled(finding.title),
                remedy=finding.remedy if replayed else None,
                verdict=None if finding.verdict is None else labelled(finding.verdict),
            )
            for finding in judged.findings
        ),
        judged.not_checked,
        (labelled(judged.otherwise[0]), *judged.otherwise[1:]),
    )


def _importance(finding: Finding) -> tuple[object, ...]:
    """Sorts the findings of several devices as one device's ladder does."""
    outside = finding.step_after_ns is None
    return (
        finding.id != UNENDED,
        not finding.leads,
        finding.id in SUMMING_UP,
        finding.hidden,
        outside,
        finding.part_of is not None,
        SEVERITIES.index(finding.severity) if outside else 0,
        -(finding.gain_ns or 0),
    )
