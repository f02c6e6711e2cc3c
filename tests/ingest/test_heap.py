"""Settings of the C library's memory while a trace is loaded."""

import contextlib
import ctypes
import platform
import resource
import subprocess
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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_arrays_are_used_again_meanwhile_and_afterwards() -> None:
    code = """
import resource
import numpy as np
from npu_tui.ingest.heap import reused_memory

def faults():
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.empty(500_000).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin

with reused_memory():
    faults()
    print(faults())
faults()
print(faults())
"""
    pages = 50 * 4_000_000 // resource.getpagesize()
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert all(int(line) < pages / 10 for line in answer.splitlines()), answer


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_what_is_kept_stays_until_the_end() -> None:
    code = """
import resource
import numpy as np
from npu_tui.ingest.heap import keep_memory, reused_memory

def fill():
    [np.ones(400_000) for _ in range(40)]

keep_memory()
with reused_memory():
    fill()
begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin)
"""
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert int(answer) < 40 * 400_000 * 8 / resource.getpagesize() / 10
