/* The loop of the replay: when the rows of a model are passed. Edges and rows are int32, times int64. */

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

/* Back from row `from` to the first one passed at `until` or before: the rows, and the edge that let each pass last. How
   many there are. Rows that stand before that of their node take no time and are left out: their edge is the last one. */
EXPORT int64_t walking(int64_t source_address, int64_t edge_address, int64_t other_source_address,
                       int64_t other_edge_address, int64_t count, int64_t lag_address, int64_t lags,
                       int64_t time_address, int64_t from, int64_t until, int64_t rows_address, int64_t edges_address)
{
    Region source = region(source_address, 4 * count), edge = region(edge_address, 4 * count);
    Region other_source = region(other_source_address, 4 * count), other_edge = region(other_edge_address, 4 * count);
    Region lag = region(lag_address, 8 * lags), time = region(time_address, 8 * count);
    Region rows = region(rows_address, 4 * count), edges = region(edges_address, 4 * count);
    int64_t walked = 0;
    for (int64_t row = from; row > 0 && get64(time, row) > until;) {
        int64_t first = get32(edge, row), second = get32(other_edge, row);
        int64_t one = get64(time, get32(source, row)) + get64(lag, first);
        int64_t two = get64(time, get32(other_source, row)) + get64(lag, second);
        int64_t passed_by = one >= two ? first : second;
        if (passed_by != lags - 1) {
            set32(rows, walked, row);
            set32(edges, walked++, passed_by);
        }
        row = one >= two ? get32(source, row) : get32(other_source, row);
    }
    return walked;
}
