"""What a refused input says, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from npu_tui.load.errors import InputError
from npu_tui.strings import words
from npu_tui.trace.model import Trace


def said(error: BaseException) -> str:
    """What the user reads of ``error``."""
    assert isinstance(error, InputError)
    return words(error.message)


@contextmanager
def refused(match: str, kind: type[InputError] = InputError) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """The block raises an ``InputError`` whose words fit the pattern ``match``."""
    with pytest.raises(kind) as caught:
        yield caught
    assert re.search(match, said(caught.value)), said(caught.value)


def skipped(trace: Trace) -> dict[str, int]:
    """How many events of ``trace`` were skipped, by the reason in words."""
    return {words(reason): count for reason, count in trace.health.skipped.items()}
