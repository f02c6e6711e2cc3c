/* Lists of spans `[start, end)`, and where times lie among ascending ones; all columns are int64. */

#include "region.h"

/* The last of `known` ascending times at or before `time`, -1 without one; quick where it is near `near`. */
static inline int64_t last_before(Region times, int64_t known, int64_t time, int64_t near)
{
    int64_t low, high, step = 1;
    if (near >= 0 && get64(times, near) > time) {
        high = near;
        low = near - 1;
        for (; low >= 0 && get64(times, low) > time; step *= 2) {
            high = low;
            low -= step;
        }
        if (low < -1)
            low = -1;
    } else {
        low = near;
        high = near + 1;
        for (; high < known && get64(times, high) <= time; step *= 2) {
            low = high;
            high += step;
        }
        if (high > known)
            high = known;
    }
    while (high - low > 1) {
        int64_t middle = (low + high) >> 1;
        if (get64(times, middle) <= time)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* How many of `known` ascending times lie at or before each of `count` times, to `counts`. */
EXPORT int64_t count_until(int64_t known_address, int64_t known, int64_t time_address, int64_t count, int64_t counts_address)
{
    Region times = region(known_address, 8 * known), asked = region(time_address, 8 * count);
    Region found = region(counts_address, 8 * count);
    int64_t at = -1;
    for (int64_t k = 0; k < count; k++) {
        at = last_before(times, known, get64(asked, k), at);
        set64(found, k, at + 1);
    }
    return count;
}

/* The union of `count` spans by ascending start to `low` and `high`: how many they become, -1 if a start descends.

   Spans that touch become one, empty ones none. Where as many are left as there were, nothing is written. */
EXPORT int64_t united(int64_t start_address, int64_t end_address, int64_t count, int64_t low_address,
                      int64_t high_address)
{
    Region starts = region(start_address, 8 * count), ends = region(end_address, 8 * count);
    Region lows = region(low_address, 8 * count), highs = region(high_address, 8 * count);
    int64_t apart = 0, before = INT64_MIN, reach = INT64_MIN;
    for (; apart < count && get64(starts, apart) > reach && get64(ends, apart) > get64(starts, apart); apart++) {
        before = get64(starts, apart);
        reach = get64(ends, apart);
    }
    if (apart == count)
        return count;
    for (int64_t k = 0; k < apart; k++) {
        set64(lows, k, get64(starts, k));
        set64(highs, k, get64(ends, k));
    }
    int64_t made = apart;
    for (int64_t k = apart; k < count; k++) {
        int64_t start = get64(starts, k), end = get64(ends, k);
        if (end <= start)
            continue;
        if (start < before)
            return -1;
        before = start;
        if (made && start <= reach) {
            if (end > reach)
                set64(highs, made - 1, reach = end);
            continue;
        }
        set64(lows, made, start);
        set64(highs, made++, reach = end);
    }
    return made;
}

/* What two lists of spans, each disjoint and ascending, share, to `low` and `high`: one span for each pair that
   overlaps, fewer than both lists have spans; how many. */
EXPORT int64_t shared(int64_t start_address, int64_t end_address, int64_t count, int64_t other_start_address,
                      int64_t other_end_address, int64_t others, int64_t low_address, int64_t high_address)
{
    Region starts = region(start_address, 8 * count), ends = region(end_address, 8 * count);
    Region other_starts = region(other_start_address, 8 * others), other_ends = region(other_end_address, 8 * others);
    Region lows = region(low_address, 8 * (count + others)), highs = region(high_address, 8 * (count + others));
    int64_t made = 0, k = 0, other = 0;
    while (k < count && other < others) {
        int64_t start = get64(starts, k), end = get64(ends, k);
        int64_t other_start = get64(other_starts, other), other_end = get64(other_ends, other);
        int64_t low = start > other_start ? start : other_start, high = end < other_end ? end : other_end;
        if (low < high) {
            set64(lows, made, low);
            set64(highs, made++, high);
        }
        if (end <= other_end)
            k++;
        else
            other++;
    }
    return made;
}

/* How much the spans cover before `time`, of which span `at` is the last begun; `sums` are their lengths before each. */
static inline int64_t covered_before(Region starts, Region ends, Region sums, int64_t at, int64_t time)
{
    if (at < 0)
        return 0;
    int64_t end = get64(ends, at);
    return get64(sums, at) + (time < end ? time : end) - get64(starts, at);
}

/* How much of `count` stretches `[low, high)` lies in `spans` disjoint ascending spans; all columns are int64.

   Stretches of which something does go to `place` by their number, with how much of each: how many they are. */
EXPORT int64_t covered(int64_t start_address, int64_t end_address, int64_t sum_address, int64_t spans,
                       int64_t low_address, int64_t high_address, int64_t count, int64_t place_address,
                       int64_t length_address)
{
    Region starts = region(start_address, 8 * spans), ends = region(end_address, 8 * spans);
    Region sums = region(sum_address, 8 * spans);
    Region lows = region(low_address, 8 * count), highs = region(high_address, 8 * count);
    Region places = region(place_address, 8 * count), lengths = region(length_address, 8 * count);
    int64_t at = -1, known = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t low = get64(lows, k), high = get64(highs, k);
        at = last_before(starts, spans, low, at);
        int64_t last = last_before(starts, spans, high, at);
        int64_t length = covered_before(starts, ends, sums, last, high) - covered_before(starts, ends, sums, at, low);
        if (length != 0) {
            set64(places, known, k);
            set64(lengths, known, length);
            known++;
        }
    }
    return known;
}
