"""All that is to be said of a finding without a trace, in the language of the user."""

from __future__ import annotations

import re

from msgspec import Struct

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.rules.ladder import SUMMING_UP
from npu_tui.rules.model import Kind
from npu_tui.rules.pages import Page
from npu_tui.rules.rule import Rule
from npu_tui.strings import say


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
