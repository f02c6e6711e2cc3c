"""The words that the program uses and what people call them, in every language, with what leads on from each."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from npu_tui.rules import pages
from npu_tui.rules.pages import Page
from npu_tui.strings import LANGUAGES, say, texts_of


class Word(Struct, frozen=True):
    """A word: ``word.<id>`` names it, ``word.<id>.means`` says what it is, ``word.<id>.also`` what else it is called.

    ``findings`` are about it, ``commands`` show it on screen, ``topics`` of the manual and ``pages`` tell more.
    """

    id: str
    findings: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    pages: tuple[Page, ...] = ()

    @property
    def title(self) -> str:
        """What it is called in the language of the user."""
        return say(f"word.{self.id}")

    @property
    def meaning(self) -> str:
        """What it is."""
        return say(f"word.{self.id}.means")


WORDS = (
    # Launching
    Word("starved", ("DISPATCH.VERTICAL",), ("starved_next", "tab_lines"), ("screen",)),
    Word("near_vertical", ("DISPATCH.VERTICAL",), ("link_mode", "tab_links"), ("screen",), (pages.PIPELINE,)),
    Word("queued", ("DISPATCH.VERTICAL",), ("tab_links",), ("screen",)),
    Word("lost", ("DISPATCH.VERTICAL",), ("tab_lines", "starved_next"), ("report",)),
    Word(
        "idle", ("DISPATCH.FREE", "DISPATCH.VERTICAL"), ("bubble_next", "bubbles", "tab_details"), (), (pages.PIPELINE,)
    ),
    Word("host_late", ("DISPATCH.FREE", "DISPATCH.STAGE"), ("bubbles", "tab_lines")),
    Word("device_side", ("PROFILER.OVERHEAD", "DEVICE.EVENT"), ("bubbles",)),
    Word("drain", ("DISPATCH.INTERRUPT",), ("tab_findings",)),
    Word("pipeline", ("DISPATCH.STAGE", "ENV/STARTUP"), (), (), (pages.TASK_QUEUE, pages.PIPELINE)),
    Word("binding", ("ENV/STARTUP", "DISPATCH.STAGE"), (), (), (pages.BINDING,)),
    Word("sync", ("SYNC.HOST",), ("syncs",), (), (pages.SYNC,)),
    Word("link", (), ("link_mode", "link_forward", "link_back", "chain", "tab_links"), ("screen",)),
    Word("event_wait", ("DEVICE.EVENT",), ("tab_details", "link_back"), (), (pages.EVENTS,)),
    Word("clock_floor", ("RANK.CLOCK",), ("tab_job_clock",), ("ranks",)),
    # The time of a step
    Word("device_time", ("UTIL", "VERDICT"), ("tab_range",), ("report",)),
    Word("preparing", ("STEP.START",), ("home",)),
    Word("exposed", ("COMM.EXPOSED",), ("tab_communication",)),
    Word("overlap", ("COMM.EXPOSED",), ("tab_range",), ("report",)),
    Word("utilization", ("UTIL", "MFU"), ("tab_range",), (), (pages.NPU_SMI,)),
    Word("step", ("STEP.START",), ("step_next", "home"), ("report",)),
    Word("saves", (), ("tab_findings", "whatif"), ("report",)),
    Word("slow", ("VERDICT", "RANK.SLOW"), ("tab_findings", "finding_next", "tab_operators"), ("screen",)),
    Word("percentiles", (), ("tab_summary",), ("report", "ci")),
    # Ranks
    Word("wait", ("COMM.STRAGGLER",), ("tab_communication", "syncs"), ("ranks",)),
    Word("late_rank", ("COMM.STRAGGLER", "RANK.SLOW"), ("ranks", "tab_job_ranks"), ("ranks",), (pages.SLOW_RANK,)),
    Word("job_waits", ("RANK.SLOW",), ("metric", "tab_job_ranks"), ("ranks",)),
    Word("own_excess", ("RANK.SLOW", "RANK.STAGE"), ("metric", "tab_job_ranks"), ("ranks",)),
    Word("slow_link", ("LINK.SLOW", "LINK.PORT", "COMM.BANDWIDTH"), ("tab_job_links",), ("ranks",)),
    Word("group", ("GROUP.SIZES",), ("job_group", "tab_job_groups"), ("ranks",)),
    Word("hccl", ("COMM.LINK", "COMM.PACKETS"), ("tab_communication",), (), (pages.HCCL_TIMEOUT,)),
    # Kernels and code
    Word("affinity", ("OP.AFFINITY_API", "OP.AFFINITY_KERNEL", "OPT.FUSED"), (), (), (*pages.AFFINITY, pages.FUSED)),
    Word("contiguous", ("OP.FORMAT", "OP.SHARE"), ("tab_operators",), (), (pages.AFFINITY_CASE,)),
    Word("aipp", ("DATA.LOADER", "DATA.PREPROCESS"), (), (), (pages.AIPP,)),
    Word("batching", ("DISPATCH.VERTICAL",), ("bubbles",), (), (pages.MINDIE, pages.ATB)),
    Word("atb", ("DISPATCH.STAGE",), (), ("formats",), (pages.MINDIE, pages.ATB, pages.ATB_SOURCE)),
    Word("stack", (), ("chain", "open_code", "tab_lines"), ("screen",)),
    Word("memory", ("MEM.ALLOC", "MEM.PRESSURE", "MEM.GROWTH", "MEM.LEAK"), ("tab_memory",), (), (pages.ALLOCATOR,)),
    # The screen
    Word("timeline", (), ("home", "zoom_in", "fold", "pin"), ("screen", "keys"), (pages.INSIGHT_TIMELINE,)),
    Word("overview", (), ("tab_summary", "tab_findings", "ranks"), ("screen",), (pages.INSIGHT, pages.INSIGHT_INSTALL)),
    Word("statistics", (), ("tab_operators", "calls", "host_ops"), ("screen", "query")),
    Word("duration", (), ("tab_details", "tab_operators", "range_selection"), ("search",)),
    Word("select", (), ("range_mark", "range_selection", "range_gap", "tab_range"), ("screen",)),
    Word("search", (), ("search", "hit_next", "hits_only", "tab_search"), ("search",)),
    Word("compare", (), ("compare_ranks", "sides"), ("compare",)),
    Word("export", (), ("copy_csv", "copy_text", "yank", "yank_view"), ("report", "query", "crop")),
    Word("legend", (), ("help", "tab_links"), ("screen",)),
    Word("theme", (), ("dark", "light", "colour_blind"), ("terminals", "settings")),
    Word("language", (), ("en", "zh"), ("settings",)),
    Word("leave", (), ("quit", "escape", "undo"), ("keys",)),
    Word("recording", ("PROFILER.OVERHEAD",), ("tab_summary",), ("formats",), (pages.PROFILER, *pages.REPOSITORIES)),
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


_SHORTEST = 2
"""Characters that may begin a name, or the middle of one, without being all of it."""


def words_called(typed: str) -> list[Word]:
    """The words that ``typed`` names: those that are called so, else those whose names begin so, else contain it."""
    wanted = plain(typed)
    if not wanted:
        return []
    exact = [word for name, word in _names() if name == wanted]
    if not exact and (len(wanted) > _SHORTEST or not wanted.isascii()):
        exact = [word for name, word in _names() if name.startswith(wanted)]
        exact = exact or [
            word for name, word in _names() if f" {wanted}" in name or (not wanted.isascii() and wanted in name)
        ]
    return list(dict.fromkeys(exact))
