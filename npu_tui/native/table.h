/* Entities (texts, threads, series), numbered by first appearance, and dictionaries of them. */

#ifndef TABLE_H
#define TABLE_H

#include "layout.h"
#include "region.h"

/* The `count` bytes at `at`, fewer than 8, as a word. */
static inline int64_t last_word(Region memory, int64_t at, int64_t count)
{
    return read64(memory, at) & ((1ll << 8 * count) - 1);
}

/* A hash of `length` bytes at `at`, which are of `kind`. Two chains of products run side by side. */
static inline int64_t hashed(Region memory, int64_t at, int64_t length, int64_t kind)
{
    const uint64_t factor = 0x9E3779B97F4A7C15, other = 0xB4B82F3A29575A43;
    uint64_t first = (uint64_t)(length * 8 + kind), second = other;
    for (; length >= 16; at += 16, length -= 16) {
        first = (first ^ (uint64_t)read64(memory, at)) * factor;
        second = (second ^ (uint64_t)read64(memory, at + 8)) * other;
        first ^= first >> 29;
        second ^= second >> 31;
    }
    if (length >= 8) {
        first = (first ^ (uint64_t)read64(memory, at)) * factor;
        first ^= first >> 29;
        at += 8;
        length -= 8;
    }
    if (length > 0) {
        second = (second ^ (uint64_t)last_word(memory, at, length)) * other;
        second ^= second >> 31;
    }
    first = (first ^ second) * factor;
    return (int64_t)(first ^ first >> 32);
}

/* Whether the bytes at `known` of the heap are those at `at`. */
static inline bool is_same(Region heap, int64_t known, Region memory, int64_t at, int64_t length)
{
    for (; length >= 8; known += 8, at += 8, length -= 8)
        if (read64(heap, known) != read64(memory, at))
            return false;
    return length == 0 || last_word(heap, known, length) == last_word(memory, at, length);
}

/* Copy `length` bytes to `used` of the heap, which has 8 bytes more; the next place there, a multiple of 8. */
static inline int64_t copied(Region heap, int64_t used, Region memory, int64_t at, int64_t length)
{
    int64_t done = 0;
    for (; done + 8 <= length; done += 8)
        write64(heap, used + done, read64(memory, at + done));
    if (done < length)
        write64(heap, used + done, last_word(memory, at + done, length - done));
    return used + ((length + 7) & ~7ll);
}

/* The number of the `length` bytes at `at` of `memory`, a new one if they are not known; has_room has made sure of it. */
static int64_t entity(State *state, int64_t kind, Region memory, int64_t at, int64_t length)
{
    Region slots = state->slots;
    int64_t mask = (slots.size >> 2) - 1, code = hashed(memory, at, length, kind), slot = code & mask;
    int64_t tag = length * 8 + kind, thing;
    while ((thing = get32(slots, slot) - 1) >= 0) {
        if (get64(state->hash, thing) == code && get64(state->length, thing) == tag
            && is_same(state->heap, get64(state->offset, thing), memory, at, length))
            return thing;
        slot = (slot + 1) & mask;
    }
    thing = state->entities++;
    set32(slots, slot, thing + 1);
    set64(state->hash, thing, code);
    set64(state->length, thing, tag);
    set64(state->offset, thing, state->heap_used);
    state->heap_used = copied(state->heap, state->heap_used, memory, at, length);
    return thing;
}

/* The code of an entity in a dictionary, a new one if it has none. */
static inline int64_t code_of(State *state, int64_t dictionary, int64_t thing)
{
    int64_t row = dictionary * state->entity_room, code = get32(state->code, row + thing);
    if (code < 0) {
        code = state->known[dictionary]++;
        set32(state->code, row + thing, code);
        set32(state->list, row + code, thing);
    }
    return code;
}

#endif
