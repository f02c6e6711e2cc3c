/* Rows of slices: the lowest one that is free, and what is on top where they lie above each other. */

#include "region.h"

#define FEW_ROWS 32 /* are looked through one after the other; more have a tree of their earliest ends */

/* The lowest of `used` rows that is free at `start`, else the next one. */
static inline int64_t first_free(Region ends, int64_t used, int64_t start)
{
    int64_t row = 0;
    while (row < used && get64(ends, row) > start)
        row++;
    return row;
}

static inline void lower(Region tree, int64_t node)
{
    int64_t left = get64(tree, 2 * node), right = get64(tree, 2 * node + 1);
    set64(tree, node, left < right ? left : right);
}

/* A tree over `leaves` rows, of which `used` have ends; these stand after the `before` inner nodes. */
static void plant(Region tree, int64_t used, int64_t before, int64_t leaves)
{
    for (int64_t row = used - 1; row >= 0; row--)
        set64(tree, leaves + row, get64(tree, before + row));
    for (int64_t row = used; row < leaves; row++)
        set64(tree, leaves + row, INT64_MIN);
    for (int64_t node = leaves - 1; node > 0; node--)
        lower(tree, node);
}

/* Occupy the lowest row of the tree that is free at `start`; one must be. */
static inline int64_t take(Region tree, int64_t leaves, int64_t start, int64_t until)
{
    int64_t node = 1;
    while (node < leaves) {
        node *= 2;
        node += get64(tree, node) > start;
    }
    int64_t row = node - leaves;
    set64(tree, node, until);
    for (node >>= 1; node > 0; node >>= 1)
        lower(tree, node);
    return row;
}

/* Rows of `count` slices in the order (lane, start, -end); 0, or 1 if the tree has no room.

   Lanes and depths are int32, starts and ends int64. A slice without duration takes up one nanosecond. */
EXPORT int64_t first_fit(int64_t lane_address, int64_t start_address, int64_t end_address, int64_t depth_address,
                         int64_t count, int64_t tree_address, int64_t tree_bytes)
{
    Region lanes = region(lane_address, 4 * count), depths = region(depth_address, 4 * count);
    Region starts = region(start_address, 8 * count), ends = region(end_address, 8 * count);
    Region tree = region(tree_address, tree_bytes);
    int64_t lane = -1, reach = 0, used = 0, leaves = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t start = get64(starts, k), until = get64(ends, k), row;
        if (until <= start)
            until = start + 1;
        if (get32(lanes, k) != lane || start >= reach) {
            lane = get32(lanes, k);
            reach = until;
            used = leaves = 0;
        }
        if (until > reach)
            reach = until;
        if (leaves == 0) {
            row = first_free(tree, used, start);
            if (row < FEW_ROWS) {
                set64(tree, row, until);
                used += row == used;
                set32(depths, k, row);
                continue;
            }
            leaves = 2 * FEW_ROWS;
            if (16 * leaves > tree_bytes)
                return 1;
            plant(tree, used, 0, leaves);
        }
        if (get64(tree, 1) > start) {
            if (32 * leaves > tree_bytes)
                return 1;
            plant(tree, leaves, leaves, 2 * leaves);
            leaves *= 2;
        }
        set32(depths, k, take(tree, leaves, start, until));
    }
    return 0;
}

/* The highest marked level up to `level`, -1 without one. */
static inline int64_t highest_marked(Region marks, int64_t level)
{
    if (level < 0)
        return -1;
    int64_t word = level >> 6;
    uint64_t bits = (uint64_t)get64(marks, word) & ~0ull >> (63 - (level & 63));
    while (bits == 0 && word > 0)
        bits = (uint64_t)get64(marks, --word);
    return bits == 0 ? -1 : (word << 6) + 63 - leading_zeros(bits);
}

static inline void mark(Region marks, int64_t level, bool is_active)
{
    uint64_t bit = 1ull << (level & 63), word = (uint64_t)get64(marks, level >> 6);
    set64(marks, level >> 6, (int64_t)(is_active ? word | bit : word & ~bit));
}

typedef struct {
    Region who, begins, stops;
    int64_t count, room;
} Pieces;

static inline bool add_piece(Pieces *pieces, int64_t slice, int64_t begin, int64_t stop)
{
    if (pieces->count >= pieces->room)
        return false;
    set32(pieces->who, pieces->count, slice);
    set64(pieces->begins, pieces->count, begin);
    set64(pieces->stops, pieces->count, stop);
    pieces->count++;
    return true;
}

/* The pieces of `count` slices by start of which no higher one hides anything; how many there are.

   Starts and ends are int64, and so are the `room` places for begins and stops of pieces; levels, and the places for
   whose a piece is, are int32. Two slices of one level never overlap. What has no duration is a piece by itself, before
   the one that begins there. The loop works with `levels` pairs of int64 and a bit for each level, all zero.
   Negative: the slices do not stand by start, or have other levels. */
EXPORT int64_t leaves(int64_t start_address, int64_t end_address, int64_t level_address, int64_t count,
                      int64_t who_address, int64_t begin_address, int64_t stop_address, int64_t room,
                      int64_t levels_address, int64_t levels, int64_t marks_address)
{
    Region starts = region(start_address, 8 * count), ends = region(end_address, 8 * count);
    Region heights = region(level_address, 4 * count);
    Pieces pieces = {region(who_address, 4 * room), region(begin_address, 8 * room), region(stop_address, 8 * room),
                     0, room};
    /* Per level the end and the number of the slice that is open there. */
    Region active = region(levels_address, 16 * levels), marks = region(marks_address, 8 * ((levels + 63) >> 6));
    int64_t now = 0, top = -1;
    for (int64_t k = 0; k <= count; k++) {
        int64_t until = INT64_MAX, end = INT64_MAX, level = 0;
        if (k < count) {
            until = get64(starts, k);
            end = get64(ends, k);
            level = get32(heights, k);
            if (level < 0 || level >= levels || (k > 0 && until < now))
                return -1;
        }
        while (top >= 0) {
            int64_t last = get64(active, 2 * top), stop = last < until ? last : until;
            if (stop > now) {
                int64_t slice = get64(active, 2 * top + 1), before = pieces.count - 1;
                if (before >= 0 && get32(pieces.who, before) == slice && get64(pieces.stops, before) == now)
                    set64(pieces.stops, before, stop);
                else if (!add_piece(&pieces, slice, now, stop))
                    return -1;
                now = stop;
            }
            if (last > until)
                break;
            mark(marks, top, false);
            top = highest_marked(marks, top - 1);
        }
        now = until;
        if (k == count)
            break;
        if (end <= until) {
            if (!add_piece(&pieces, k, until, until))
                return -1;
        } else {
            mark(marks, level, true);
            set64(active, 2 * level, end);
            set64(active, 2 * level + 1, k);
            if (level > top)
                top = level;
        }
    }
    return pieces.count;
}

/* How many of `count` slices of a lane, by start, end after the last one that is open when they start. Starts and ends
   are int64, and so are the `room` ends of open slices; -1 if these are too few. */
EXPORT int64_t crossing(int64_t start_address, int64_t end_address, int64_t count, int64_t open_address, int64_t room)
{
    Region starts = region(start_address, 8 * count), ends = region(end_address, 8 * count);
    Region opens = region(open_address, 8 * room);
    int64_t crossings = 0, depth = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t start = get64(starts, k), end = get64(ends, k);
        while (depth > 0 && get64(opens, depth - 1) <= start)
            depth--;
        if (depth > 0 && end > get64(opens, depth - 1))
            crossings++;
        if (depth == room)
            return -1;
        set64(opens, depth++, end);
    }
    return crossings;
}
