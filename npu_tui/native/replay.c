/* The loops of the replay: when the rows of a model are passed, and what is covered. Edges and rows are int32, times
   int64. */

#include "region.h"

/* The times of `count` rows, of which the first is the origin. A row is passed when both its edges allow it: `lag` (of
   `lags` edges) after the row each comes from, an earlier one. */
EXPORT int64_t passing(int64_t source_address, int64_t edge_address, int64_t other_source_address,
                       int64_t other_edge_address, int64_t count, int64_t lag_address, int64_t lags,
                       int64_t time_address)
{
    Region source = region(source_address, 4 * count), edge = region(edge_address, 4 * count);
    Region other_source = region(other_source_address, 4 * count), other_edge = region(other_edge_address, 4 * count);
    Region lag = region(lag_address, 8 * lags), time = region(time_address, 8 * count);
    set64(time, 0, 0);
    for (int64_t row = 1; row < count; row++) {
        int64_t one = get64(time, get32(source, row)) + get64(lag, get32(edge, row));
        int64_t two = get64(time, get32(other_source, row)) + get64(lag, get32(other_edge, row));
        set64(time, row, one > two ? one : two);
    }
    return 0;
}

/* The last of `spans` ascending starts at or before `time`, -1 without one; quick where it is near `near`. */
static inline int64_t last_begun(Region starts, int64_t spans, int64_t time, int64_t near)
{
    int64_t low, high, step = 1;
    if (near >= 0 && get64(starts, near) > time) {
        high = near;
        low = near - 1;
        for (; low >= 0 && get64(starts, low) > time; step *= 2) {
            high = low;
            low -= step;
        }
        if (low < -1)
            low = -1;
    } else {
        low = near;
        high = near + 1;
        for (; high < spans && get64(starts, high) <= time; step *= 2) {
            low = high;
            high += step;
        }
        if (high > spans)
            high = spans;
    }
    while (high - low > 1) {
        int64_t middle = (low + high) >> 1;
        if (get64(starts, middle) <= time)
            low = middle;
        else
            high = middle;
    }
    return low;
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

   Of the stretches of `thread` (-1: any) those of which something does go to `place` by their number, with how much of
   each: how many they are. */
EXPORT int64_t covered(int64_t start_address, int64_t end_address, int64_t sum_address, int64_t spans,
                       int64_t low_address, int64_t high_address, int64_t thread_address, int64_t thread,
                       int64_t count, int64_t place_address, int64_t length_address)
{
    Region starts = region(start_address, 8 * spans), ends = region(end_address, 8 * spans);
    Region sums = region(sum_address, 8 * spans), threads = region(thread_address, 8 * count);
    Region lows = region(low_address, 8 * count), highs = region(high_address, 8 * count);
    Region places = region(place_address, 8 * count), lengths = region(length_address, 8 * count);
    int64_t at = -1, known = 0;
    for (int64_t k = 0; k < count; k++) {
        if (thread >= 0 && get64(threads, k) != thread)
            continue;
        int64_t low = get64(lows, k), high = get64(highs, k);
        at = last_begun(starts, spans, low, at);
        int64_t last = last_begun(starts, spans, high, at);
        int64_t length = covered_before(starts, ends, sums, last, high) - covered_before(starts, ends, sums, at, low);
        if (length != 0) {
            set64(places, known, k);
            set64(lengths, known, length);
            known++;
        }
    }
    return known;
}
