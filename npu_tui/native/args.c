/* Where the events of a piece of a trace begin and end, and some args of them. */

#include "layout.h"
#include "number.h"
#include "table.h"

/* `quotes` without those after a backslash that is not escaped itself; bit 32 of it tells of the next block. */
static inline uint64_t unescaped(uint64_t quotes, uint64_t backslashes)
{
    while (backslashes) {
        uint64_t lowest = backslashes & -backslashes, following = lowest << 1;
        if (following >> BLOCK)
            quotes |= 1ull << BLOCK;
        else
            quotes &= ~following;
        backslashes &= ~(lowest | following);
    }
    return quotes;
}

/* A bit for every byte from an opening quote to the one before the closing quote. */
static inline uint32_t quoted(uint32_t quotes)
{
    quotes ^= quotes << 1;
    quotes ^= quotes << 2;
    quotes ^= quotes << 4;
    quotes ^= quotes << 8;
    quotes ^= quotes << 16;
    return quotes;
}

/* The objects and lists in `length` bytes that are in no other: how many, or -1 where brackets do not match.

   Begin and end of each go to `bounds` as int64, of at most `room` of them. After the text lie 32 bytes or more, whatever
   they are. Only quotes and brackets are looked at. */
static int64_t split(Region text, int64_t length, Region bounds, int64_t room)
{
    int64_t count = 0, depth = 0, begin = 0;
    uint32_t inside = 0; /* all bits where the block begins within a text */
    bool escaped = false;
    for (int64_t at = 0; at < length; at += BLOCK) {
        Bytes bytes = bytes_at(text, at);
        uint32_t quotes = bits_of(bytes == '"'), backslashes = bits_of(bytes == '\\');
        uint32_t within = length - at < BLOCK ? (1u << (length - at)) - 1 : ~0u;
        quotes &= within;
        backslashes &= within;
        if (escaped) {
            quotes &= ~1u;
            backslashes &= ~1u;
            escaped = false;
        }
        if (backslashes) {
            uint64_t rest = unescaped(quotes, backslashes);
            escaped = rest >> BLOCK;
            quotes = (uint32_t)rest;
        }
        uint32_t texts = quoted(quotes) ^ inside;
        inside = texts >> (BLOCK - 1) ? ~0u : 0;
        /* Square brackets are braces without the bit of 0x20. */
        Bytes braces = bytes | 0x20;
        uint32_t opening = bits_of(braces == '{') & ~texts;
        uint32_t brackets = (opening | (bits_of(braces == '}') & ~texts)) & within;
        for (; brackets; brackets &= brackets - 1) {
            int64_t place = trailing_zeros(brackets);
            if (opening >> place & 1) {
                if (depth++ == 0)
                    begin = at + place;
                continue;
            }
            if (--depth < 0 || count == room)
                return -1;
            if (depth == 0) {
                set64(bounds, 2 * count, begin);
                set64(bounds, 2 * count + 1, at + place + 1);
                count++;
            }
        }
    }
    return depth || inside ? -1 : count;
}

/* The code of the `length` bytes at `at`, a new one if they are not known, -1 if there is no room for it. */
static inline int64_t text_code(Chosen *plan, Region text, int64_t at, int64_t length)
{
    Region entries = plan->entries;
    int64_t mask = (plan->slots.size >> 2) - 1, code = hashed(text, at, length, 0), slot = code & mask, entry;
    while ((entry = get32(plan->slots, slot) - 1) >= 0) {
        if (get64(entries, 3 * entry) == code && get64(entries, 3 * entry + 2) == length
            && is_same(plan->heap, get64(entries, 3 * entry + 1), text, at, length))
            return entry;
        slot = (slot + 1) & mask;
    }
    entry = plan->known;
    if (24 * (entry + 1) > entries.size || plan->used + length + 8 > plan->heap.size)
        return -1;
    set32(plan->slots, slot, entry + 1);
    set64(entries, 3 * entry, code);
    set64(entries, 3 * entry + 1, plan->used);
    set64(entries, 3 * entry + 2, length);
    plan->known = entry + 1;
    plan->used = copied(plan->heap, plan->used, text, at, length);
    return entry;
}

/* Which of the keys stands at `at`, -1 for none. */
static inline int64_t key_number(const Chosen *plan, Region text, int64_t at, int64_t length)
{
    for (int64_t k = 0; k < plan->count; k++)
        if (get64(plan->keys, 2 * k + 1) == length
            && is_same(plan->letters, get64(plan->keys, 2 * k), text, at, length))
            return k;
    return -1;
}

/* The place after the value at `at` of the key number `key`, which goes to `row`; negative where it is no whole number
   and no plain text. */
static inline int64_t chosen_value_end(Chosen *plan, Region text, int64_t at, int64_t key, int64_t row)
{
    int64_t cell = key * plan->rows + row;
    Whole value;
    if (read8(text, at) == '"') {
        int64_t end = plain_end(text, at + 1);
        if (end < 0)
            return end;
        value = (Whole){text_code(plan, text, at + 1, end - at - 1), end + 1};
        if (value.value < 0)
            return -1;
        write8(plan->kinds, cell, CHOSEN_TEXT);
    } else {
        value = whole(text, at);
        write8(plan->kinds, cell, CHOSEN_NUMBER);
    }
    set64(plan->values, cell, value.value);
    return value.end;
}

/* The place after the args at `at`, whose chosen values go to `row`; negative where one is of another kind. */
static int64_t chosen_args_end(Chosen *plan, Region text, int64_t at, int64_t row)
{
    bool is_more;
    uint64_t seen = 0;
    at = object_begin(text, at, &is_more);
    while (is_more) {
        Piece name;
        at = plain_key_end(text, at, &name);
        if (at < 0)
            return at;
        int64_t key = key_number(plan, text, name.at, name.length);
        at = key < 0 || read8(text, at) == 'n' ? value_end(text, at) : chosen_value_end(plan, text, at, key, row);
        if (at < 0)
            return at;
        if (key >= 0) {
            if (seen >> key & 1)
                return -1;
            seen |= 1ull << key;
        }
        at = member_end(text, at, &is_more);
    }
    return at;
}

/* The place after the event at `at`; negative where it or one of the chosen args is not of the common kinds. */
static int64_t chosen_end(Chosen *plan, Region text, int64_t at, int64_t row)
{
    bool is_more, seen = false;
    at = object_begin(text, at, &is_more);
    while (is_more) {
        Piece key;
        at = plain_key_end(text, at, &key);
        if (at < 0)
            return at;
        if (key.length == 4 && (read64(text, key.at) & 0xFFFFFFFF) == 0x73677261) { /* args */
            if (seen)
                return -1;
            seen = true;
            at = chosen_args_end(plan, text, at, row);
        } else {
            at = value_end(text, at);
        }
        if (at < 0)
            return at;
        at = member_end(text, at, &is_more);
    }
    return at;
}

static inline void set_kinds(Chosen *plan, int64_t row, int64_t kind)
{
    for (int64_t key = 0; key < plan->count; key++)
        write8(plan->kinds, key * plan->rows + row, kind);
}

/* Write the chosen args of the events asked for into their rows, from `row` on; how many are left unread.

   layout.py says what the plan has. A piece whose events cannot be told apart is left unread. */
EXPORT int64_t chosen(int64_t plan_address, int64_t plan_bytes, int64_t row)
{
#ifdef NPU_TUI_CHECKED
    if (plan_bytes != (int64_t)sizeof(Chosen))
        __builtin_trap();
#else
    (void)plan_bytes;
#endif
    Chosen *plan = (Chosen *)(uintptr_t)plan_address;
    int64_t unread = 0;
    for (int64_t piece = 0; piece < plan->asked; piece++) {
        int64_t offset = get64(plan->pieces, 4 * piece), length = get64(plan->pieces, 4 * piece + 1);
        int64_t events = get64(plan->pieces, 4 * piece + 2), last = get64(plan->pieces, 4 * piece + 3);
        Region text = {plan->text.start + offset, plan->text.size - offset}, bounds = plan->bounds;
        bool is_split = split(text, length, bounds, bounds.size >> 4) == events;
        for (; row < last; row++) {
            int64_t position = get64(plan->positions, row);
            set_kinds(plan, row, CHOSEN_ABSENT);
            if (is_split
                && chosen_end(plan, text, get64(bounds, 2 * position), row) == get64(bounds, 2 * position + 1))
                continue;
            set_kinds(plan, row, CHOSEN_UNREAD);
            unread++;
        }
    }
    return unread;
}
