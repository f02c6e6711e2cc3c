from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from npu_tui import strings
from npu_tui.analysis.cpu_time import PARTS as PARTS_OF_WAITS
from npu_tui.analysis.cpu_time import By
from npu_tui.analysis.drains import Cause
from npu_tui.analysis.path import KINDS as PATH_KINDS
from npu_tui.analysis.rhythm import Unit
from npu_tui.analysis.service_timeline import TPOT, TTFT
from npu_tui.compare.steps import PARTS
from npu_tui.gate.measures import BASELINE_MEASURES, PLACES
from npu_tui.jobs.heat import AXES, METRICS
from npu_tui.jobs.links import Verdict
from npu_tui.load.companion_schema import State
from npu_tui.output.explain import KINDS
from npu_tui.output.report_schema import SourceKind
from npu_tui.profile.companions import FILES
from npu_tui.profile.table import declared_tables
from npu_tui.rules.config import COSTLY
from npu_tui.rules.explanation import WORDS
from npu_tui.rules.find import RULES, THRESHOLDS
from npu_tui.rules.model import SEVERITIES, Confidence, FindingClass
from npu_tui.strings import LANGUAGES, say, texts_of, words
from npu_tui.subjects import SUBJECTS
from npu_tui.trace.classes import OpClass
from npu_tui.trace.message import Message
from npu_tui.trace.model import ASYNC_NPU, FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE
from npu_tui.tui.commands import COMMANDS, COMPARED_KEYS, GROUPS, JOB_KEYS, TAB_KEYS
from npu_tui.tui.footer import FOOTERS, hints_of
from npu_tui.view.explorer import _MODES
from npu_tui.view.scene import Alignment, Face, LinkShape

pytestmark = pytest.mark.of_files("npu_tui")

ENGLISH = texts_of("en")
PACKAGE = Path(__file__).resolve().parents[1] / "npu_tui"

COMPUTED = {
    "command.": {command.id for command in COMMANDS},
    "footer.": {hint.word for place in FOOTERS for hint in hints_of(place)},
    "help.task.": set(GROUPS),
    "tab.": {f"{tab}{form}" for tab in (*TAB_KEYS, *COMPARED_KEYS, *JOB_KEYS) for form in ("", ".short")}
    | {f"{tab}.least" for tab in ("findings", "details", "search", "job_findings")},
    "ranks.metric.": set(METRICS),
    "ranks.metric.told.": set(METRICS),
    "ranks.axis.": set(AXES),
    "ranks.axis.told.": set(AXES),
    "ranks.link.": set(get_args(Verdict)),
    "class.": {op_class.name.lower() for op_class in OpClass},
    "shape.": {shape.name.lower() for shape in LinkShape},
    "mode.": set(_MODES),
    "category.": {HOST_TO_DEVICE, TASK_QUEUE, ASYNC_NPU, FORWARD_BACKWARD},
    "report.dispatch.stage.": {"python", "cann"},
    "companion.": {"missing", "empty"},
    "odd.": {"db_tables_more"},
    "path.kind.": set(PATH_KINDS),
    "kind.": {"command", "time", "flag", "lane", "slice"},
    "cpu.state.": set(PARTS_OF_WAITS),
    "cpu.who.": set(get_args(By)),
    "cpu.by.": {*get_args(By), "task"} - {"source"},
    "finding.cpu.what.": {"running", "unknown", "waiting", "idle", "waking", "interrupt", "asleep", "blocked"},
    "finding.cpu.title.": {"waiting", "idle", "interrupt", "asleep", "blocked"},
    "explain.": {kind.id for kind in KINDS},
    "fusion.": {"fused", "not_fused"},
    "word.": {f"{word.id}{form}" for word in WORDS for form in ("", ".means", ".also")},
    "explain.input.": {needed for rule in RULES for needed in rule.inputs},
    "threshold.": {each.name for each in THRESHOLDS},
    "finding.advice.": {word for kind in KINDS for word in kind.advice or (kind.id,)},
    "finding.needs.": {needed for rule in RULES for needed in rule.inputs},
    "finding.class.": set(get_args(FindingClass)),
    "finding.cause.": set(get_args(Cause)),
    "finding.kind.": set(get_args(FindingClass)),
    "severity.": set(SEVERITIES),
    "confidence.": set(get_args(Confidence)),
    "source.kind.": set(get_args(SourceKind)),
    "argparse.": {key.removeprefix("argparse.") for key in texts_of("en") if key.startswith("argparse.")},
    "finding.bound.": {"dispatch", "compute", "communication"},
    "finding.pipes.title.": {"mac", "vec", "none"},
    "finding.unit.": {"step", "run", "range", "request", *get_args(Unit)},
    "summary.tells.": set(FILES),
    "summary.makes.": set(FILES),
    "summary.makes_mindspore.": {"operator_details.csv", "api_statistic.csv"},
    "summary.state.": set(get_args(State)),
    "service.": {"no_blocks", "no_schedule", "no_forward", "before", "unrecorded"},
    "latency.part.": {*TTFT.__members__, *TPOT.__members__},
    "latency.metric.": {"ttft", "tpot"},
    "compare.service.unlike.": {"rate", "prompt", "answer"},
    "compare.service.word.": {"slower", "faster", "same", "unsure"},
    "compare.service.": {"slower", "faster", "same", "unsure", "cause_both", "cause_new", "cause_base"},
    "compare.service.load.": {"requests", "requests_per_s", "prompt_tokens", "output_tokens", "tokens_per_s"},
    "finding.service.": {
        *(
            f"{part}_{of}"
            for part in ("scheduler", "bubble", "sampling", "frontend")
            for of in ("first", "tokens", "detail")
        ),
        "queue_room",
        "queue_places",
        "queue_load",
        "mix_few",
        "mix_all",
        "rank_count",
        "rank_lengths",
        "kv_first",
        "kv_tokens",
        "transfer_length",
        "transfer_fixed",
    },
    "service.figure.": {f"{name}_p{share}" for name in ("ttft", "tpot") for share in (50, 90, 99)}
    | {"tokens_per_s", "ttft_max", "tpot_max"},
    "finding.stage.": {"python", "cann", "host"},
    "finding.stage.title.": {"python", "cann"},
    "finding.stage.detail.": {"python", "cann"},
    "finding.vertical.stage.": {"python", "cann"},
    "finding.util.": {"fine", "room", "poor"},
    "finding.share.": {"cube", "softmax"},
    "finding.advice.share.": {"cube", "softmax"},
    "finding.affinity.": {"api", "kernel"},
    "finding.sync.waited.": {"compute", "communication", "copy"},
    "finding.environment.": set(COSTLY),
    "chart.": {"lead.words", "depth.words"},
    "bars.": {"prep", "compute", "exposed", "copies", "free"},
    "gate.against.": {"slower", "faster", "same", "unsure", "incomparable"},
    "diff.memory.": {"allocated", "reserved"},
    "compared.alignment.": set(get_args(Alignment)),
    "compared.aligned.": set(get_args(Alignment)),
    "compared.face.": {"base", "new"},
    "compared.shown.": set(get_args(Face)),
    "compared.computing.": {"slower", "faster", "same", "unsure"},
    "compare.change.": {"new", "gone", "slower", "faster", "more", "fewer", "changed", "replaced", "same"},
    "compare.computing.": {"slower", "faster", "same", "unsure"},
    "compare.profile_finding.": {"new", "solved", "only_base", "only_new"},
    "gate.passed.": {"unmeasured"},
    "gate.failed.": {"unmeasured"},
    "input.": {"several_more", "tables_more", "jobs_more", "loose_more", "recordings_more", "left_out_more"},
    "query.": {"no_column.near", "no_table.near"},
    "compared.part.": {f"{part}{form}" for part in PARTS for form in ("", ".short")} | {"others"},
    "gate.measure.": {*BASELINE_MEASURES, "host_late", *SUBJECTS["job"]},
    "gate.definition.": {*BASELINE_MEASURES, "tolerances"},
    "gate.differs.": {*PLACES, "selection"},
    "gate.status.": {"pass", "fail", "not_measured"},
    "table.": {
        "total",
        "timeline",
        "again",
        "overlap",
        "findings",
        "lines",
        "steps",
        "operators",
        "shapes",
        "memory",
        "cross_check",
        "files",
        "link_matrix",
        "communication",
        "ranks",
        "job_collectives",
        "clock",
        "parts",
        "groups",
        "collectives",
        "config",
        "profile_findings",
    },
    "column.": {
        "part",
        "time",
        "share",
        "number",
        "severity",
        "class",
        "gain",
        "finding",
        "saves",
        "what",
        "detail",
        *(
            field.name
            for room in ("npu_tui.profile", "npu_tui.jobs")
            for each in declared_tables(room)
            for field in (*each.page, *each.panel)
        ),
    },
    "report.overlap.": {"computing", "exposed", "free"},
    "report.free.": {"late", "side", "unlinked"},
    "settings.head.": {"place", "keys", "glyphs", "theme", "thresholds"},
    "stage.": {"op", "enqueue", "queue", "dequeue", "launch", "wait", "run"},
}
"""Families whose keys are put together while the program runs, with all of their members."""

LOOSE = (
    "header.", "range.", "search.", "filter.", "links.", "command.", "report.", "not_checked.", "bars.", "chart.",
    "communication.", "lines.", "operators.", "settings.head.", "findings.", "flag.", "changes.", "asked.",
)  # fmt: skip
"""Families of which some keys are put together from a tuple beside the call, or from the kind of a prompt."""


def test_advice_of_every_finding_exists() -> None:
    for kind in KINDS:
        for word in kind.advice or (kind.id,):
            assert not placeholders(ENGLISH[f"finding.advice.{word}"]), word


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """(file, node) of every call, constant and f-string of the package."""
    kinds = (ast.Call, ast.Constant, ast.JoinedStr)
    return [
        (file, node)
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
    ]


def calls() -> list[tuple[str, ast.Call]]:
    """(module, call) of every ``say(...)`` and ``message(...)`` of the package."""
    return [
        (file.name, node)
        for file, node in nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "message")
    ]


def literals(node: ast.AST) -> list[str]:
    """The whole texts in an expression, those of a conditional included."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return literals(node.body) + literals(node.orelse)
    return []


def placeholders(text: str) -> set[str]:
    """The values that ``text`` needs of its caller; the keys that it names are filled in everywhere."""
    return {name for name, _ in fields_of(text)}


def fields_of(text: str) -> set[tuple[str, str]]:
    """Name and kind of every placeholder of ``text``, those of keys left out; a width is no kind."""
    found = {(name, spec) for _, name, spec, _ in Formatter().parse(text) if name and not name.startswith("press[")}
    return {(name, _kind(spec or "")) for name, spec in found}


def _kind(spec: str) -> str:
    """A width is no kind, and what is counted is counted in every language."""
    return "" if re.fullmatch(r"[<>]\d+", spec) else "count" if "|" in spec else spec


def words_in_source() -> set[str]:
    """Every string constant of the package."""
    return {node.value for _, node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def patterns_in_source() -> list[re.Pattern[str]]:
    """What the f-strings of the package that begin with the name of a family may become."""
    found = []
    for _, node in nodes():
        if isinstance(node, ast.JoinedStr) and node.values:
            parts = [re.escape(each.value) if isinstance(each, ast.Constant) else ".+" for each in node.values]
            if re.match(r"[a-z_]+\\\.", parts[0]):
                found.append(re.compile("".join(parts)))
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_subject_is_in_every_language(language: str) -> None:
    folder = PACKAGE / "strings" / language
    names = {file.name for file in folder.glob("*.toml")}
    assert names == {file.name for file in (PACKAGE / "strings" / LANGUAGES[0]).glob("*.toml")}
    subjects = [tomllib.loads((folder / name).read_text(encoding="utf-8")) for name in names]
    assert {key: text for texts in subjects for key, text in texts.items()} == texts_of(language)
    assert sum(map(len, subjects)) == len(texts_of(language))  # no key is in two of them


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_texts_of_a_rule_are_one_block(language: str) -> None:
    source = (PACKAGE / "strings" / language / "rules.toml").read_text(encoding="utf-8")
    shared, *blocks = re.split(r"^# (?=[A-Z][A-Z0-9._/]+$)", source, flags=re.M)
    assert [block.partition("\n")[0] for block in blocks] == [rule.id for rule in RULES]
    texts = [re.findall(r'^"([^"]+)" = ', block, re.M) for block in blocks]
    for rule, keys in zip(RULES, texts, strict=True):
        assert f"explain.{rule.id}" in keys
        others = {each.name for other in RULES if other is not rule for each in other.thresholds}
        alone = {f"threshold.{each.name}" for each in rule.thresholds} - {f"threshold.{name}" for name in others}
        assert alone <= set(keys)
        assert not any(f'"threshold.{name}"' in shared for name in alone)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_language_says_the_same(language: str) -> None:
    texts = texts_of(language)
    missing = {key: text for key, text in ENGLISH.items() if key not in texts}
    assert not missing, f"npu_tui/strings/{language} lacks texts that npu_tui/strings/en has: {missing}"
    assert texts.keys() == ENGLISH.keys()
    for key, text in ENGLISH.items():
        assert fields_of(texts[key]) == fields_of(text), key
        assert keys_in(texts[key]) == keys_in(text), key


def keys_in(text: str) -> list[str]:
    """The commands whose keys ``text`` names."""
    return sorted(re.findall(r"\{press\[(\w+)\]\}", text))


def test_kinds_are_known() -> None:
    for key, text in ENGLISH.items():
        for name, spec in fields_of(text):
            assert spec in strings.KINDS or not spec or re.fullmatch(r"[+,]?(\.\d)?[fgd%]?", spec), (
                f"{key}: {name}:{spec}"
            )


def test_values_are_written_by_their_kind() -> None:
    loader = Message("finding.timed", {"name": "dataloader", "time": 23_265_000})
    assert words(loader) == "dataloader 23.27 ms"
    assert words(Message("finding.start.parts", {"parts": ["a", "b", loader]})) == (
        "It is made up of a, b and dataloader 23.27 ms."
    )
    assert say("finding.dominant.title", name="Add", share=None) == "Add takes unknown of the compute time"
    assert [say("finding.leak.title", count=n, size=1048576.0) for n in (1, 2)] == [
        "Memory grows by 1.0 MiB per step over 1 step",
        "Memory grows by 1.0 MiB per step over 2 steps",
    ]
    assert words("aten::add") == "aten::add"


def test_texts_name_keys_of_commands():
    ids = {command.id for command in COMMANDS}
    named = {match for text in ENGLISH.values() for match in keys_in(text)}
    assert len(named) > 10
    assert named <= ids
    assert all("{press" not in re.sub(r"\{press\[\w+\]\}", "", text) for text in ENGLISH.values())


def test_every_key_in_use_exists():
    used = {key for _, call in calls() for key in literals(call.args[0])}
    assert len(used) > 50
    assert used <= set(ENGLISH)


def test_every_computed_key_exists():
    for family, members in COMPUTED.items():
        for member in members:
            assert family + member in ENGLISH


def test_every_key_is_used():
    used = {key for _, call in calls() for key in literals(call.args[0])}
    used |= {family + member for family, members in COMPUTED.items() for member in members}
    words, patterns = words_in_source(), patterns_in_source()
    for key in set(ENGLISH) - used - words:
        if any(pattern.fullmatch(key) for pattern in patterns):
            continue
        family = next((family for family in LOOSE if key.startswith(family)), None)
        assert family is not None, f"{key} is not used"
        rest = key.removeprefix(family)
        asked_by_kind = any(key == f"{kind}.prompt" for kind in ("search", "command", "flag", "filter"))
        assert asked_by_kind or rest in words or rest.rpartition(".")[0] in words, f"{key} is not used"


def test_placeholders_are_filled_by_name():
    for module, call in calls():
        given = {keyword.arg for keyword in call.keywords}
        for key in literals(call.args[0]):
            if None not in given:  # values spread from a row of the report
                wanted = placeholders(ENGLISH[key])
                # What a message tells beyond its text is for programs that read it.
                assert wanted <= given if call.func.id == "message" else wanted == given, f"{module}: {key}"


def test_titles_and_details_are_filled_by_name() -> None:
    """Those of ``about(subject, ...)``."""
    for file, node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "about":
            given = {keyword.arg for keyword in node.keywords}
            for subject in literals(node.args[0]):
                wanted = placeholders(ENGLISH[f"finding.{subject}.title"] + ENGLISH[f"finding.{subject}.detail"])
                assert None in given or wanted <= given, f"{file.name}: {subject}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_are_clean(language: str) -> None:
    for key, text in texts_of(language).items():
        if not key.startswith(("report.", "explain.", "list.", "argparse.")):  # columns, and what joins texts
            assert text == text.strip() or key.endswith(".prompt"), key
            assert "  " not in text.replace("   ", ""), key
        assert not re.search(r"\.{3}|--(?![a-z])", text), key


def test_chinese_is_chinese() -> None:
    """What has no Han character in it is a name, a number or a format in English as well."""
    for key, text in texts_of("zh").items():
        if not re.search(r"[\u3000-\u9fff\uff00-\uffef]", text):
            assert len(re.sub(r"\{[^}]*\}", "", ENGLISH[key]).split()) <= 4, key


def test_a_missing_value_is_an_error():
    with pytest.raises(KeyError):
        say("hit.of", n=1)
    with pytest.raises(KeyError):
        say("no such text")


def test_one_is_told_as_one():
    """A number and what is counted belong together in the texts: ``{count:row|rows}``; what is never one is listed."""
    counted = (
        "launches|slices|links|kernels|collectives|events|rows|lanes|gaps|bubbles|checks|copies|hits|calls|files|steps"
    )
    several = {
        "finding.bound.dynamic_title", "finding.bound.dynamic",
        "finding.profiler.detail", "finding.steps.some",
        "finding.steps.first", "job.slow.always", "job.slow.once", "job.sizes.title",
        "diff.line", "diff.line_earlier", "range.copy",
    }  # fmt: skip
    plain = re.compile(rf"\{{(?!who)\w+(?::count|:,|:>\d+)?\}}(?: [a-z-]+)? (?:{counted})\b(?!/)")
    assert {key for key, text in ENGLISH.items() if plain.search(text)} <= several
    assert say("report.dispatch.lost", lost="1 ms", starved=1, links=1) == "1 ms lost in 1 starved launch of 1"
    assert say("whatif.count.step", count=1) == "1 step"
    assert say("whatif.count.step", count="1,204") == "1,204 steps"


def test_chinese_names_each_thing_as_engineers_do():
    """Words that a reader took for something else: a web browser, a card's number, hunger."""
    wrong = ("打开浏览器", "饥饿下发", "迟到卡", "奇数 shape", "级别 1", "等待 5 卡")
    said = {key: text for key, text in texts_of("zh").items() if not key.startswith("word.")}
    assert not [(key, word) for key, text in said.items() for word in wrong if word in text]
