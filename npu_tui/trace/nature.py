"""What a trace was made of, as far as those who draw and measure it must know."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field


class Nature(Struct, frozen=True):
    """What holds for every trace of one ``subject``; all else about it is declared in ``npu_tui.subjects``.

    ``launches``: a host launches work to devices, which may wait for it. ``has_steps``: steps are its units, so the
    explorer opens on the first one. ``is_dated``: its times are moments of a clock. ``by_category``: the colours of
    its slices are named by their categories. ``lane_names`` says under which key of the texts a lane has its name.

    ``rules`` is the module of ``npu_tui.rules`` that judges all of it, empty where the rules about devices do.
    ``folds`` gives the turn in which a layer folds (its number, and how many of its kind stand above it), lowest first;
    None where the kinds of layers decide. ``has_holders``: its charts are of memory, and who holds it is drawn.
    ``no_free`` says why times in which a device is free are not known, ``uncovered`` that nothing beside it ran
    meanwhile. ``replays_ids``: a cause that is left out is named by the id of its finding.
    """

    subject: str = "profile"
    launches: bool = True
    has_steps: bool = True
    is_dated: bool = True
    by_category: bool = False
    lane_names: Mapping[str, str] = field(default_factory=dict)
    rules: str = ""
    folds: Callable[[int, int], tuple[int, int]] | None = None
    has_holders: bool = False
    no_free: str = ""
    uncovered: str = ""
    replays_ids: bool = False

    @property
    def kind(self) -> str:
        """The kind of a profile that it gives its trace; empty where the files tell it."""
        return self.subject if self.subject != PROFILE.subject else ""


PROFILE = Nature()
"""A profile of one rank."""

CALLS = Nature(launches=False, no_free="range.calls_only")
"""A rank of which only passes and calls are known: not when it computes, nor when it is free."""
