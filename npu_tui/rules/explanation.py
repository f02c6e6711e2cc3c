"""What can be said of a finding without a trace, and the glossary, in the language of the user.

The glossary has the words that the program uses, what people call them in every language, and what leads on from each.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from npu_tui.analysis.limits import Thresholds
from npu_tui.rules import pages
from npu_tui.rules.ladder import SUMMING_UP
from npu_tui.rules.model import Kind
from npu_tui.rules.pages import Page
from npu_tui.rules.rule import Rule
from npu_tui.strings import LANGUAGES, asked_phrases, say, texts_of


class Explanation(Struct, frozen=True):
    """A finding in words; ``thresholds`` are name, value and meaning, ``change`` the lines of a diff.

    ``subject`` is the class of the finding, or that it is about a comparison or a job. ``documents`` are what the rule
    is taken from, ``gpu`` is the advice for a GPU where it differs, ``whatif`` is what ``npu-tui whatif`` is asked for
    its gain, empty where no run is replayed for it.
    """

    id: str
    subject: str
    meaning: str
    needs: str
    advice: tuple[str, ...]
    pages: tuple[Page, ...]
    change: tuple[str, ...]
    thresholds: tuple[tuple[str, float, str], ...] = ()
    documents: tuple[str, ...] = ()
    whatif: str = ""
    gpu: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The first sentence of what the finding means."""
        return first_sentence(self.meaning)


def first_sentence(text: str) -> str:
    """``text`` up to the end of its first sentence."""
    first = _SENTENCE.match(text)
    return first[0] if first else text


_SENTENCE = re.compile(r".*?(?:\.(?= )|。)")


def explanation(kind: Kind, limits: Thresholds | None = None) -> Explanation:
    """Everything about ``kind``; its thresholds have the values of ``limits``, also those that its text names."""
    advice = tuple(say(f"finding.advice.{word}") for word in kind.advice or (kind.id,))
    limits_told = _limits(kind, limits)
    meaning = say(f"explain.{kind.id}", **{name: value for name, value, _ in limits_told})
    change = tuple(kind.change.splitlines())
    if not isinstance(kind, Rule):
        subject, needs = say(f"explain.{kind.scope}"), say(f"explain.{kind.scope}.needs")
        return Explanation(kind.id, subject, meaning, needs, advice, kind.pages, change, limits_told)
    return Explanation(
        kind.id,
        say(f"finding.kind.{kind.cls}"),
        meaning,
        say("explain.inputs", inputs=", ".join(say(f"explain.input.{needed}") for needed in kind.inputs)),
        advice,
        kind.pages,
        change,
        limits_told,
        kind.documents,
        "" if kind.of_profiler or kind.id in SUMMING_UP else f"fix {kind.id}",
        ()
        if kind.gpu is None or {*kind.gpu} == {*kind.advice}
        else tuple(say(f"finding.advice.{word}") for word in kind.gpu),
    )


def _limits(kind: Kind, limits: Thresholds | None) -> tuple[tuple[str, float, str], ...]:
    values = limits or Thresholds()
    return tuple((limit.name, values[limit], say(f"threshold.{limit.name}")) for limit in kind.thresholds)


class Word(Struct, frozen=True):
    """A word: ``word.<id>`` names it, ``word.<id>.means`` says what it is, ``word.<id>.also`` what else it is called.

    ``commands`` show it on screen, ``topics`` of the manual and ``pages`` say more. Findings about it name it.
    """

    id: str
    commands: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    pages: tuple[Page, ...] = ()

    @property
    def title(self) -> str:
        """The word itself in the language of the user."""
        return say(f"word.{self.id}")

    @property
    def meaning(self) -> str:
        """What the word means, a sentence."""
        return say(f"word.{self.id}.means")


WORDS = (
    # Launching
    Word("starved", ("starved_next", "tab_lines"), ("screen",)),
    Word("near_vertical", ("link_mode", "tab_links"), ("screen",), (pages.PIPELINE,)),
    Word("queued", ("tab_links",), ("screen",)),
    Word("lost", ("tab_lines", "starved_next"), ("report",)),
    Word("idle", ("bubble_next", "bubbles", "tab_details"), (), (pages.PIPELINE,)),
    Word("host_late", ("bubbles", "tab_lines")),
    Word("device_side", ("bubbles",)),
    Word("drain", ("tab_findings",)),
    Word("pipeline", (), (), (pages.TASK_QUEUE, pages.PIPELINE)),
    Word("binding", (), (), (pages.BINDING,)),
    Word("sync", ("syncs",), (), (pages.SYNC,)),
    Word("link", ("link_mode", "link_forward", "link_back", "chain", "tab_links"), ("screen",)),
    Word("event_wait", ("tab_details", "link_back"), (), (pages.EVENTS,)),
    Word("clock_floor", ("tab_job_clock",), ("ranks",)),
    # The time of a step
    Word("device_time", ("tab_range",), ("report",)),
    Word("preparing", ("home",)),
    Word("exposed", ("tab_communication",)),
    Word("overlap", ("tab_range",), ("report",)),
    Word("utilization", ("tab_range",), (), (pages.NPU_SMI,)),
    Word("step", ("step_next", "home"), ("report",)),
    Word("path", ("whatif",), ("slow-step", "path", "saving")),
    Word("saves", ("tab_findings", "whatif"), ("report", "saving")),
    Word("slow", ("tab_findings", "finding_next", "tab_operators"), ("screen",)),
    Word("percentiles", ("tab_summary",), ("report", "ci")),
    # Ranks
    Word("wait", ("tab_communication", "syncs"), ("ranks",)),
    Word("late_rank", ("ranks", "tab_job_ranks"), ("ranks",), (pages.SLOW_RANK,)),
    Word("job_waits", ("link_mode", "tab_job_ranks"), ("ranks",)),
    Word("own_excess", ("link_mode", "tab_job_ranks"), ("ranks",)),
    Word("slow_link", ("tab_job_links",), ("ranks",)),
    Word("group", ("hits_only", "tab_job_groups"), ("ranks",)),
    Word("hccl", ("tab_communication",), (), (pages.HCCL_TIMEOUT,)),
    # Kernels and code
    Word("affinity", (), (), (*pages.AFFINITY, pages.FUSED)),
    Word("contiguous", ("tab_operators",), (), (pages.AFFINITY_CASE,)),
    Word("aipp", (), (), (pages.AIPP,)),
    Word("atc", (), (), (pages.ATC,)),
    Word("batching", ("bubbles", "batches"), (), (pages.MINDIE, pages.ATB)),
    Word("atb", (), ("formats",), (pages.MINDIE, pages.ATB, pages.ATB_SOURCE)),
    Word("stack", ("chain", "open_code", "tab_lines", "call_tree"), ("screen",)),
    Word("memory", ("tab_memory",), (), (pages.ALLOCATOR,)),
    # The screen
    Word("timeline", ("home", "zoom_in", "fold", "pin"), ("screen", "keys"), (pages.INSIGHT_TIMELINE,)),
    Word("overview", ("tab_summary", "tab_findings", "ranks"), ("screen",), (pages.INSIGHT, pages.INSIGHT_INSTALL)),
    Word("statistics", ("tab_operators", "calls", "host_ops"), ("screen", "query")),
    Word("duration", ("tab_details", "tab_operators", "range_selection"), ("search",)),
    Word("select", ("range_mark", "range_selection", "range_gap", "tab_range"), ("screen",)),
    Word("search", ("search", "hit_next", "hits_only", "tab_search"), ("search",)),
    Word("compare", ("align_sides", "sides", "compare"), ("compare",)),
    Word("export", ("copy_csv", "copy_text", "yank", "yank_view"), ("report", "query", "crop")),
    Word("legend", ("help", "tab_links"), ("screen",)),
    Word("theme", ("dark", "light", "colour_blind"), ("terminals", "settings")),
    Word("language", ("en", "zh"), ("settings",)),
    Word("leave", ("quit", "escape", "undo"), ("keys",)),
    Word("recording", ("tab_summary",), ("formats",), (pages.PROFILER, *pages.REPOSITORIES)),
)


@cache
def _names() -> tuple[tuple[str, Word], ...]:
    """Every name of every word in every language, as it is compared."""
    rows = []
    for word in WORDS:
        names = [word.id]
        for language in LANGUAGES:
            texts = texts_of(language)
            names += [texts[f"word.{word.id}"], *texts[f"word.{word.id}.also"].split(",")]
        rows += [(plain(name), word) for name in names]
    return tuple(rows)


def plain(text: str) -> str:
    """``text`` as names are compared: without case, and with one blank for signs between words."""
    return " ".join(text.casefold().replace("_", " ").replace("-", " ").split())


_SHORTEST = 2  # characters that may begin a name, or the middle of one, without being all of it


def words_called(typed: str) -> list[Word]:
    """The words that ``typed`` names: those with that name, else those with names that begin so, else contain it.

    What people ask a command for, such as 拷贝, is no part of another word's name.
    """
    wanted = plain(typed)
    if not wanted:
        return []
    exact = [word for name, word in _names() if name == wanted]
    if not exact and not commands_asked(typed) and (len(wanted) > _SHORTEST or not wanted.isascii()):
        exact = [word for name, word in _names() if name.startswith(wanted)]
        exact = exact or [
            word for name, word in _names() if f" {wanted}" in name or (not wanted.isascii() and wanted in name)
        ]
    return list(dict.fromkeys(exact))


def commands_asked(typed: str) -> list[str]:
    """The commands of the explorer that people ask for by ``typed``, a whole phrase, whatever is opened."""
    wanted = plain(typed)
    return [
        command
        for command, phrases in asked_phrases().items()
        if "." not in command and wanted in map(plain, phrases)  # a subject's own tabs have a dot
    ]
