/* What every cell of the screen sums up of rows of slices: `rasterise` of Python without a temporary array. */

#include "layout.h"
#include "region.h"

#define BEFORE (-(1ll << 61)) /* ends before anything begins */
#define SHIFT 4               /* a key of one level is the most of 16 of the level below */
#define DIRECT 32             /* so many slices are looked at one after the other */
#define FEW_BLOCKS 64
#define AHEAD 12 /* columns whose memory is asked for before it is read */

/* Ask for the byte at `at`, which is soon read; nothing is read, and nothing happens where none is. */
static inline void fetch(Region memory, int64_t at)
{
    __builtin_prefetch((const void *)((uintptr_t)memory.start + (uintptr_t)at), 0, 3);
}

/* How many of the ascending `starts` lie before `edge`, of which `low` are known to and `high` may. */
static inline int64_t lie_before(Region starts, int64_t low, int64_t high, int64_t edge)
{
    int64_t step = 1;
    for (; low + step <= high && get64(starts, low + step - 1) < edge; step *= 2)
        low += step;
    int64_t stop = low + step - 1;
    if (stop > high)
        stop = high;
    while (low < stop) {
        int64_t middle = (low + stop) >> 1;
        if (get64(starts, middle) < edge)
            low = middle + 1;
        else
            stop = middle;
    }
    return low;
}

/* The same; `marks`, every 64th start, lie closer together in memory. */
static inline int64_t started_before(Region starts, Region marks, int64_t low, int64_t high, int64_t edge)
{
    int64_t first = (low + 63) >> 6, behind = (high + 63) >> 6;
    int64_t mark = first < behind ? lie_before(marks, first, behind, edge) : first;
    if (mark > first)
        low = 64 * (mark - 1) + 1;
    return lie_before(starts, low, mark < behind ? 64 * mark : high, edge);
}

/* The same for `count` ascending `edges` from the second on, written to `counts` from `at` on. Each halving is done for
   all of them before the next one, so that none of their reads waits for another. */
static void all_before(Region starts, Region marks, int64_t low, int64_t high, Region edges, int64_t count,
                       Region counts, int64_t at)
{
    int64_t last = started_before(starts, marks, low, high, get64(edges, count));
    int64_t first = (low + 63) >> 6, behind = (last + 63) >> 6;
    for (int64_t k = 0; k < count; k++)
        set64(counts, at + k, first);
    for (int64_t left = behind - first; left > 0; left >>= 1) {
        int64_t half = (left + 1) >> 1;
        for (int64_t k = 0; k < count; k++) {
            int64_t mark = get64(counts, at + k);
            set64(counts, at + k, mark + half * (get64(marks, mark + half - 1) < get64(edges, k + 1)));
        }
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t mark = get64(counts, at + k);
        set64(counts, at + k, mark > first ? 64 * (mark - 1) : low);
    }
    for (int64_t left = last - low < 64 ? last - low : 64; left > 0; left >>= 1) {
        int64_t half = (left + 1) >> 1;
        for (int64_t k = 0; k < count; k++) {
            int64_t row = get64(counts, at + k), probe = row + half - 1;
            bool is_before = get64(starts, probe < last ? probe : last - 1) < get64(edges, k + 1);
            set64(counts, at + k, row + (probe < last && is_before ? half : 0));
        }
    }
}

static inline int64_t mask_of(const CellPlan *plan)
{
    return (1ll << plan->bits) - 1;
}

/* The most of `best` and of the keys `[first, last)` of a level, which begins at `level_at` (-1: slices). */
static inline int64_t highest(const CellPlan *plan, int64_t level_at, int64_t first, int64_t last, int64_t best)
{
    for (int64_t k = first; k < last; k++) {
        int64_t key = level_at >= 0 ? get64(plan->keys, level_at + k)
                                    : (((get64(plan->end, k) - get64(plan->start, k)) >> plan->drop) << plan->bits
                                       | (mask_of(plan) - k));
        if (key > best)
            best = key;
    }
    return best;
}

typedef struct {
    int64_t level, inner, outer;
} Blocks;

/* The level on which whole blocks around `[low, high)` are few, and the first and the end of these. */
static inline Blocks around(const CellPlan *plan, int64_t low, int64_t high)
{
    Blocks blocks = {0, low >> SHIFT, ((high - 1) >> SHIFT) + 1};
    while (blocks.outer - blocks.inner > FEW_BLOCKS && blocks.level + 1 < plan->depth) {
        blocks.inner >>= SHIFT;
        blocks.outer = ((blocks.outer - 1) >> SHIFT) + 1;
        blocks.level++;
    }
    return blocks;
}

/* Ask for what a cell with the slices `[low, high)` is made of. */
static inline void ask(const CellPlan *plan, int64_t low, int64_t high)
{
    fetch(plan->busy, 8 * high);
    fetch(plan->start, 8 * high);
    fetch(plan->start, 8 * high - 8);
    fetch(plan->end, 8 * high);
    fetch(plan->end, 8 * high - 8);
    if (high - low > DIRECT) {
        Blocks blocks = around(plan, low, high);
        int64_t at = get64(plan->levels, blocks.level);
        for (int64_t k = blocks.inner; k < blocks.outer + 7; k += 8)
            fetch(plan->keys, 8 * (at + k));
    } else {
        for (int64_t k = low; k < high; k += 8) {
            fetch(plan->start, 8 * k);
            fetch(plan->end, 8 * k);
        }
    }
}

/* The key of the longest slice of `[low, high)`, the earlier on ties. */
static int64_t longest(const CellPlan *plan, int64_t low, int64_t high)
{
    if (high - low > DIRECT) {
        /* Whole blocks around the range are a few keys; it is rare that their winner lies outside of the range. */
        Blocks blocks = around(plan, low, high);
        int64_t best = highest(plan, get64(plan->levels, blocks.level), blocks.inner, blocks.outer, -1);
        int64_t winner = mask_of(plan) - (best & mask_of(plan));
        if (low <= winner && winner < high)
            return best;
    }
    int64_t best = -1, at = -1;
    for (int64_t level = 0; high - low > DIRECT && level < plan->depth; level++) {
        int64_t inner = (low + 15) >> SHIFT, outer = high >> SHIFT;
        best = highest(plan, at, low, inner << SHIFT, best);
        best = highest(plan, at, outer << SHIFT, high, best);
        low = inner;
        high = outer;
        at = get64(plan->levels, level);
    }
    return highest(plan, at, low, high, best);
}

/* `time` ns into a cell of `width` ns as eighths, rounded to the nearest. */
static inline int64_t eighths(int64_t time, int64_t width)
{
    int64_t inside = time < 0 ? 0 : time > width ? width : time;
    return (16 * inside + width) / (2 * width);
}

/* The cells of the rows wanted between the edges of columns; 0, or 1 where a row ends after the slices. layout.py says
   what the plan has. */
EXPORT int64_t cells(int64_t plan_address, int64_t plan_bytes)
{
#ifdef NPU_TUI_CHECKED
    if (plan_bytes != (int64_t)sizeof(CellPlan))
        __builtin_trap();
#else
    (void)plan_bytes;
#endif
    /* A copy, word by word, so that nothing written to the columns could be meant to change the plan. */
    CellPlan copy;
    for (int64_t at = 0; at < (int64_t)sizeof(CellPlan); at += 8)
        *(Loose64 *)((uint8_t *)&copy + at) = read64(region(plan_address, sizeof(CellPlan)), at);
    const CellPlan *plan = &copy;
    Region starts = plan->start, ends = plan->end;
    int64_t columns = plan->columns, size = plan->item.size >> 2, mask = mask_of(plan);
    for (int64_t line = 0; line < plan->lines; line++) {
        int64_t row = get64(plan->which, line);
        int64_t origin = get64(plan->offset, row), stop = get64(plan->offset, row + 1);
        if (origin < 0 || stop < origin || stop > size || size == 0)
            return 1;
        int64_t left = get64(plan->edges, 0);
        int64_t started = started_before(starts, plan->marks, origin, stop, left);
        int64_t ended = started > origin ? get64(ends, started - 1) : BEFORE;
        int64_t over = ended > left ? ended - left : 0;
        int64_t total = get64(plan->busy, started) - over;
        all_before(starts, plan->marks, started, stop, plan->edges, columns, plan->first, line * columns);
        int64_t asked = started;
        for (int64_t column = 0; column < AHEAD && column < columns; column++) {
            int64_t behind = get64(plan->first, line * columns + column);
            ask(plan, asked, behind);
            asked = behind;
        }
        for (int64_t column = 0; column < columns; column++) {
            int64_t cell = line * columns + column;
            if (column + AHEAD < columns) {
                int64_t behind = get64(plan->first, cell + AHEAD);
                ask(plan, asked, behind);
                asked = behind;
            }
            int64_t right = get64(plan->edges, column + 1), width = right - left;
            int64_t next_started = get64(plan->first, cell), last = next_started > 0 ? next_started - 1 : 0;
            int64_t next_ended = next_started > origin ? get64(ends, last) : BEFORE;
            int64_t next_over = next_ended > right ? next_ended - right : 0;
            int64_t next_total = get64(plan->busy, next_started) - next_over;
            bool hangs = over > 0, goes_on = next_over > 0;
            int64_t first = started - hangs, count = next_started - first;
            int64_t entered = started < size ? started : size - 1;
            int64_t first_start = hangs ? left : get64(starts, entered);
            int64_t first_end = hangs ? ended : get64(ends, entered);
            int64_t last_start = get64(starts, last), position = first;
            if (count >= 2) {
                int64_t lead = first_end - first_start;
                if (count >= 3) {
                    int64_t key = longest(plan, first + 1, last);
                    int64_t middle = mask - (key & mask), inner = key >> plan->bits;
                    if (plan->drop > 0)
                        inner = get64(ends, middle) - get64(starts, middle);
                    if (inner > lead) {
                        position = middle;
                        lead = inner;
                    }
                }
                if ((next_ended < right ? next_ended : right) - last_start > lead)
                    position = last;
            }
            int64_t other = -1;
            if (count == 2 && hangs && goes_on)
                other = get32(plan->item, position == first ? last : first);
            bool touches = false;
            if (count == 1 && (hangs || goes_on)) {
                int64_t previous = position > 0 ? position - 1 : 0;
                int64_t behind = position + 1 < size ? position + 1 : size - 1;
                int64_t gap_before = get64(starts, position) - get64(ends, previous);
                int64_t gap_behind = get64(starts, behind) - get64(ends, position);
                touches = (0 <= gap_before && gap_before <= width / 4) || (0 <= gap_behind && gap_behind <= width / 4);
            }
            set64(plan->count, cell, count);
            set64(plan->covered, cell, next_total - total);
            set32(plan->shown, cell, count > 0 ? get32(plan->item, position) : -1);
            set64(plan->position, cell, count > 0 ? position : -1);
            set64(plan->first, cell, first);
            set32(plan->other, cell, other);
            write8(plan->leads, cell, position == first);
            write8(plan->from_left, cell, hangs);
            write8(plan->to_right, cell, goes_on);
            write8(plan->touches, cell, touches);
            write8(plan->start8, cell, eighths(last_start - left, width));
            write8(plan->end8, cell, eighths(first_end - left, width));
            started = next_started;
            ended = next_ended;
            over = next_over;
            total = next_total;
            left = right;
        }
    }
    return 0;
}
