"""``o`` on a line of code whose file may not be looked at, is no file or has a name too long: it is copied."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.tui.exports import open_line


@pytest.mark.parametrize("file", ["a" * 300 + ".py", "/" + "b/" * 3000, "a\0b.py", "/dev/zero", "\udcff.py", "."])
def test_a_line_that_cannot_be_opened_is_copied(file: str) -> None:
    copied: list[str] = []
    app = cast(Any, SimpleNamespace(copy_to_clipboard=copied.append))
    assert "opied" in open_line(app, CodeLine(file, 3, "f"))
    assert len(copied) == 1


def test_a_line_below_a_folder_that_may_not_be_searched_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: object, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    copied: list[str] = []
    monkeypatch.setattr(os, "stat", refused)
    assert open_line(cast(Any, SimpleNamespace(copy_to_clipboard=copied.append)), CodeLine("/root/train.py", 3, "f"))
    assert copied == ["/root/train.py:3"]
