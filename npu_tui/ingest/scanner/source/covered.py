"""How much of stretches of time is covered by spans."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import Region, compiled, read64, write64


@compiled
def last_begun(starts: Region, spans: int, time: int, near: int) -> int:
    """The last of ``spans`` ascending starts at or before ``time``, -1 without one; quick where it is near ``near``."""
    step = 1
    if near >= 0 and read64(starts, 8 * near) > time:
        high = near
        low = near - 1
        while low >= 0 and read64(starts, 8 * low) > time:
            high = low
            low -= step
            step *= 2
        if low < -1:
            low = -1
    else:
        low = near
        high = near + 1
        while high < spans and read64(starts, 8 * high) <= time:
            low = high
            high += step
            step *= 2
        if high > spans:
            high = spans
    while high - low > 1:
        middle = (low + high) >> 1
        if read64(starts, 8 * middle) <= time:
            low = middle
        else:
            high = middle
    return low


@compiled
def covered(
    start_address: int, end_address: int, sum_address: int, spans: int, low_address: int, high_address: int,
    thread_address: int, thread: int, count: int, place_address: int, found_address: int,
) -> int:  # fmt: skip
    """How much of ``count`` stretches lies in ``spans`` disjoint ascending spans; all columns are int64.

    The sums are the length of all spans before each. Of the stretches of ``thread`` (-1: any) those of which something
    does go to ``place`` by their number, with how much of each: how many they are.
    """
    starts, ends, sums = (start_address, 8 * spans), (end_address, 8 * spans), (sum_address, 8 * spans)
    lows, highs, threads = (low_address, 8 * count), (high_address, 8 * count), (thread_address, 8 * count)
    places, found = (place_address, 8 * count), (found_address, 8 * count)
    at = -1
    known = 0
    for k in range(count):
        if thread >= 0 and read64(threads, 8 * k) != thread:
            continue
        low, high = read64(lows, 8 * k), read64(highs, 8 * k)
        at = last_begun(starts, spans, low, at)
        before = 0
        if at >= 0:
            end = read64(ends, 8 * at)
            before = read64(sums, 8 * at) + (low if low < end else end) - read64(starts, 8 * at)
        last = last_begun(starts, spans, high, at)
        after = 0
        if last >= 0:
            end = read64(ends, 8 * last)
            after = read64(sums, 8 * last) + (high if high < end else end) - read64(starts, 8 * last)
        if after != before:
            write64(places, 8 * known, k)
            write64(found, 8 * known, after - before)
            known += 1
    return known
