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
