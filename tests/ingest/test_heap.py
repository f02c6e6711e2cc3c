"""Settings of the C library's memory while a trace is loaded."""

import contextlib
import ctypes
import sys

import pytest

from npu_tui.ingest.heap import reused_memory

GET_NO_HUGE_PAGES = 42


def no_huge_pages() -> int:
    return int(ctypes.CDLL(None).prctl(GET_NO_HUGE_PAGES, 0, 0, 0, 0))


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_the_settings_end_with_the_last_user() -> None:
    before = no_huge_pages()
    if before < 0:
        pytest.skip("this kernel does not tell whether it uses huge pages")
    with reused_memory():
        during = no_huge_pages()
        with contextlib.suppress(ValueError), reused_memory():
            raise ValueError
        assert no_huge_pages() == during
    assert no_huge_pages() == before
