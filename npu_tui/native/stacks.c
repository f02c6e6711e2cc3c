/* What a thread was in during stretches of its time: the innermost slice, and its place in the tree of calls. */

#include "region.h"

#define NO_TIME INT64_MAX
#define FULL (-1)
#define OWN (-2) /* the stack of a slice that tells its calls by itself */

/* The node of `name` below `parent`, a new one if it is not known; FULL if there is no room for one.

   A slot of the table holds a node + 1. There are at least twice as many slots as nodes, a power of two. */
static int64_t node_below(Region slots, Region tree, Region used, int64_t parent, int64_t name)
{
    int64_t mask = (slots.size >> 2) - 1, node;
    uint64_t hash = ((uint64_t)parent << 32 ^ (uint64_t)name) * 0x9E3779B97F4A7C15;
    int64_t slot = (int64_t)(hash >> 32) & mask;
    while ((node = get32(slots, slot) - 1) >= 0) {
        if (get32(tree, 2 * node) == parent && get32(tree, 2 * node + 1) == name)
            return node;
        slot = (slot + 1) & mask;
    }
    node = get64(used, 0);
    if (node >= tree.size >> 3)
        return FULL;
    set64(used, 0, node + 1);
    set32(slots, slot, node + 1);
    set32(tree, 2 * node, parent);
    set32(tree, 2 * node + 1, name);
    return node;
}

/* Cut `pieces` of a thread's time, ascending and disjoint, where its innermost slice changes; how many parts there are.

   Each of the `lanes` of the thread has the next of its slices and where they end. A part has its bounds, its slice
   (-1: none), its node, its piece and the call stack it has (-1: none): that of the innermost slice with one, but of
   none around a slice whose stack is OWN. A slice whose name is `clear` is no node: its calls are those of the one
   around it. Where stacks are `chained` the first slice with one begins below the node of it (`base`). FULL where
   there is no room. */
EXPORT int64_t innermost(int64_t lanes_address, int64_t lanes, int64_t start_address, int64_t end_address,
                         int64_t name_address, int64_t stack_address, int64_t slices, int64_t clear_address,
                         int64_t names, int64_t base_address, int64_t stacks, int64_t pieces_address, int64_t pieces,
                         int64_t tree_address, int64_t nodes, int64_t slots_address, int64_t slots_count,
                         int64_t used_address, int64_t open_address, int64_t deepest, int64_t parts_address,
                         int64_t room, int64_t chained)
{
    Region lane_of = region(lanes_address, 16 * lanes), clear = region(clear_address, names);
    Region starts = region(start_address, 8 * slices), ends = region(end_address, 8 * slices);
    Region name = region(name_address, 4 * slices), stack = region(stack_address, 4 * slices);
    Region base = region(base_address, 4 * stacks), bounds = region(pieces_address, 16 * pieces);
    Region tree = region(tree_address, 8 * nodes), slots = region(slots_address, 4 * slots_count);
    Region used = region(used_address, 8), part = region(parts_address, 48 * room);
    Region open = region(open_address, 24 * deepest); /* slice, node, call stack */
    int64_t depth = 0, parts = 0;
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t now = get64(bounds, 2 * piece), until = get64(bounds, 2 * piece + 1);
        while (now < until) {
            int64_t next = NO_TIME, longest = 0, from = -1;
            for (int64_t lane = 0; lane < lanes; lane++) {
                int64_t first = get64(lane_of, 2 * lane);
                if (first >= get64(lane_of, 2 * lane + 1))
                    continue;
                /* Of slices that begin together the longer one is around the other. */
                int64_t begin = get64(starts, first), end = get64(ends, first);
                if (begin < next || (begin == next && end > longest)) {
                    next = begin;
                    longest = end;
                    from = lane;
                }
            }
            int64_t since = next <= now ? next : now;
            while (depth > 0 && get64(ends, get64(open, 3 * depth - 3)) <= since)
                depth--;
            int64_t node = depth > 0 ? get64(open, 3 * depth - 2) : 0;
            int64_t known = depth > 0 ? get64(open, 3 * depth - 1) : -1;
            if (next <= now) {
                int64_t item = get64(lane_of, 2 * from);
                set64(lane_of, 2 * from, item + 1);
                if (longest <= now)
                    continue;
                if (depth >= deepest)
                    return FULL;
                int64_t text = get32(stack, item);
                if (chained && known < 0 && text >= 0 && get32(base, text) >= 0)
                    node = get32(base, text);
                known = text >= 0 ? text : text == OWN ? -1 : known;
                int64_t code = get32(name, item);
                code = code < 0 ? names - 1 : code;
                if (!read8(clear, code))
                    node = node_below(slots, tree, used, node, code);
                if (node == FULL)
                    return FULL;
                set64(open, 3 * depth, item);
                set64(open, 3 * depth + 1, node);
                set64(open, 3 * depth++ + 2, known);
                continue;
            }
            int64_t inner = depth > 0 ? get64(open, 3 * depth - 3) : -1, stop = next < until ? next : until;
            if (inner >= 0 && get64(ends, inner) < stop)
                stop = get64(ends, inner);
            if (parts >= room)
                return FULL;
            set64(part, 6 * parts, now);
            set64(part, 6 * parts + 1, stop);
            set64(part, 6 * parts + 2, inner);
            set64(part, 6 * parts + 3, node);
            set64(part, 6 * parts + 4, piece);
            set64(part, 6 * parts++ + 5, known);
            now = stop;
        }
    }
    return parts;
}
