"""What a finding means, in plain text: its rule, inputs, thresholds, advice and documents."""

from __future__ import annotations

import difflib
import re

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.compare.differences import IDS
from npu_tui.job.findings import IDS as JOB_IDS
from npu_tui.report.reading import change_of, pages_of
from npu_tui.rules.find import RULES
from npu_tui.rules.model import FindingClass
from npu_tui.rules.rule import Rule
from npu_tui.strings import say
from npu_tui.trace.text import padded, printable, wrapped

_CLASSES: tuple[FindingClass, ...] = ("dispatch", "compute", "communication", "memory", "config", "data")
_WIDTH = 100

ADVICE: dict[str, tuple[str, ...]] = {
    "OP.OUTLIER": ("outlier_shape", "outlier_neighbour"),
    "DEVICE.EVENT": ("event_order", "event_graph"),
    "HOST.PAUSE": ("pause_look", "pause_record"),
    "DISPATCH.VERTICAL": ("task_queue", "binding", "cann_cache", "jit_compile", "metrics_rarely", "fewer_operators"),
    "DISPATCH.FREE": ("task_queue", "binding", "fewer_operators", "device_gaps"),
    "DISPATCH.STAGE": ("task_queue", "binding", "fewer_operators", "cann_cache", "jit_compile"),
    "DISPATCH.INTERRUPT": ("causes", "task_queue", "binding"),
    "SYNC.HOST": ("metrics_rarely", "non_blocking", "launch_blocking", "inference"),
    "OP.COMPILE": ("jit_compile", "internal_format", "bucket_shapes"),
    "STEP.START": ("prefetch", "non_blocking", "overlap_steps"),
    "OP.SMALL": ("fewer_operators", "foreach", "graph"),
    "OPT.FUSED": ("foreach",),
    "COMM.STRAGGLER": ("check_peer", "no_tuning"),
    "COMM.EXPOSED": ("late_first", "overlap", "accumulate", "mc2"),
    "COMM.LONGOP": ("check_peer", "level1"),
    "COMM.LINK": ("larger_packets", "contention", "rdma"),
    "OP.SHARE": ("share.copy", "share.layout", "share.softmax", "share.cube"),
    "OP.DOMINANT": ("dominant", "replace"),
    "KERNEL.BOUND": ("ai_cpu", "ai_cpu_operators", "ai_cpu_other", "jit_compile", "graph"),
    "DTYPE": ("mixed_precision",),
    "MEM.BW": ("bandwidth",),
    "UTIL": ("order",),
    "VERDICT": ("order",),
    "OP.AFFINITY_API": ("replace",),
    "OP.AFFINITY_KERNEL": ("replace",),
    "DATA.LOADER": ("workers", "workers_more", "pin_memory", "storage"),
    "DATA.COPY": ("non_blocking", "prefetch", "fewer_copies"),
    "MEM.ALLOC": ("expandable", "empty_cache", "temporaries", "smaller_batch"),
    "MEM.PRESSURE": ("expandable", "checkpointing", "smaller_batch"),
    "KERNEL.CORES": ("block_dim", "larger_shapes"),
    "KERNEL.AICPU": ("narrow_types",),
    "KERNEL.PIPE": ("pipes_mac", "pipes_mte2", "pipes_vec", "pipes_none"),
    "MEM.L2": ("cache_tiling",),
    "MFU": ("mfu",),
    "OP.FORMAT": ("formats", "formats_group"),
    "MEM.VECTOR": ("bandwidth", "vector_layout"),
    "COMM.PACKETS": ("larger_packets",),
    "COMM.BANDWIDTH": ("contention", "slow_link"),
    "DATA.PREPROCESS": ("preprocess",),
    "MEM.GROWTH": ("expandable", "warm_pool", "empty_cache"),
    "MEM.LEAK": ("leak", "leak_detach"),
    "PY.GC": ("gc", "gc_record"),
    "FREQ": ("power",),
    "ENV/STARTUP": ("not_recorded", "launch_blocking"),
    "PROFILER.OVERHEAD": ("profile_again", "not_your_model"),
}
"""The advice of each finding, as keys ``finding.advice.<word>``: what of it needs no numbers of a trace."""


def rule_of(wanted: str) -> Rule | None:
    """The rule with the id ``wanted``, in any case; None if there is none."""
    return next((rule for rule in RULES if rule.id.lower() == wanted.strip().lower()), None)


_ALIKE = 0.75


def nearest(wanted: str) -> str | None:
    """The id that looks like ``wanted``: one that contains it, else the most alike one; None if none is."""
    word = wanted.strip().upper()
    ids = finding_ids()
    parts = [part for each in ids for part in each.split(".")]
    begun = [each for each in ids if word and any(part.startswith(word) for part in each.split("."))]
    inside = begun or [each for each in ids if word and word in each]
    close = difflib.get_close_matches(word, [*ids, *parts], n=1, cutoff=_ALIKE)
    near = [each for each in ids if close and close[0] in (each, *each.split("."))]
    return next(iter(inside or near), None)


def unknown(wanted: str) -> str:
    """What to say where no finding is called ``wanted``: the one that may be meant, else all."""
    near = nearest(wanted)
    if near is not None:
        return say("explain.unknown", id=printable(wanted), near=near)
    return say("explain.unknown_all", id=printable(wanted), ids=" ".join(finding_ids()))


def finding_ids() -> list[str]:
    """All findings: of one profile, of a comparison, and of a job."""
    return [*(rule.id for rule in RULES), *IDS, *JOB_IDS]


def list_findings() -> str:
    """All ids by class with the first sentence of each."""
    lines = [say("explain.list")]
    for cls in _CLASSES:
        own = [rule for rule in RULES if rule.cls == cls]
        lines += ["", say(f"finding.class.{cls}")]
        lines += [say("explain.row", id=rule.id, first=_first_sentence(say(f"explain.{rule.id}"))) for rule in own]
    lines += ["", say("explain.compare")]
    lines += [say("explain.row", id=each, first=_first_sentence(say(f"explain.{each}"))) for each in IDS]
    lines += ["", say("explain.job")]
    lines += [say("explain.row", id=each, first=_first_sentence(say(f"explain.{each}"))) for each in JOB_IDS]
    return "\n".join(lines) + "\n"


def judged_id_of(wanted: str) -> str | None:
    """The finding of a comparison or of a job with the id ``wanted``, in any case; None if there is none."""
    known = wanted.strip().upper()
    return known if known in IDS or known in JOB_IDS else None


def explain_judged(key: str) -> str:
    """Everything about the finding ``key`` of a comparison or of a job."""
    kind = "compare" if key in IDS else "job"
    lines = [
        f"{key} · {say(f'explain.{kind}')}",
        "",
        *wrapped(say(f"explain.{key}"), _WIDTH),
        "",
        *wrapped(say(f"explain.{kind}.needs"), _WIDTH),
        "",
        say("explain.advice"),
        *wrapped(say("explain.item", text=say(f"explain.{key}.do")).strip(), _WIDTH, "  ", "    "),
    ]
    return "\n".join(lines) + "\n"


_SENTENCE = re.compile(r".*?(?:\.(?= )|。)")


def _first_sentence(text: str) -> str:
    first = _SENTENCE.match(text)
    return first[0] if first else text


_ITEMS = re.compile(r"(?P<title>.+?) (?P<items>\d+-\d+(?:, \d+-\d+)*)")


def document_title(source: str) -> str:
    """The title of the document behind ``source``, with the items of it that count where it has numbers."""
    found = _ITEMS.fullmatch(source)
    return source if found is None else say("explain.document", title=found["title"], items=found["items"])


def explain(rule: Rule, thresholds: Thresholds | None = None) -> str:
    """Everything about ``rule``, with the values of ``thresholds``."""
    values = thresholds or Thresholds()
    needs = ", ".join(say(f"explain.input.{needed}") for needed in rule.inputs)
    lines = [
        say("explain.head", id=rule.id, cls=say(f"finding.kind.{rule.cls}")),
        "",
        *wrapped(say(f"explain.{rule.id}"), _WIDTH),
        "",
        say("explain.inputs", inputs=needs),
    ]
    if rule.thresholds:
        width = max(map(len, rule.thresholds))
        lines += ["", say("explain.thresholds")]
        lines += [
            say(
                "explain.threshold",
                name=padded(name, width),
                value=padded(f"{getattr(values, name):g}", 6),
                text=say(f"threshold.{name}"),
            )
            for name in rule.thresholds
        ]
    lines += ["", say("explain.advice")]
    for word in ADVICE[rule.id]:
        item = say("explain.item", text=say(f"finding.advice.{word}"))
        lines += wrapped(item.strip(), _WIDTH, "  ", "    ")
    change = change_of(rule)
    if change:
        lines += ["", say("explain.change"), *(f"  {line}" for line in change)]
    lines += ["", say("explain.pages")]
    lines += [say("explain.page", title=title, address=address) for title, address in pages_of(rule)]
    lines += ["", say("explain.documents"), *(f"  {document_title(source)}" for source in rule.sources)]
    return "\n".join(lines) + "\n"
