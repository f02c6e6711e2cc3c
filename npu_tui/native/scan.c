/* Bytes of a trace to columns, as far as its events are of the common kinds. */

#include "event.h"
#include "table.h"

#define LONGEST_DURATION 0x1p61
#define FOLLOWING 3 /* the phase of a target of the slice that begins next */

/* The entity of a piece of the buffer, that of the empty text where there is none. */
static inline int64_t text_entity(State *state, Piece piece)
{
    return entity(state, TEXT, state->buffer, piece.at < 0 ? 0 : piece.at, piece.length);
}

/* The two words that tell a process or thread. */
static inline void compose(State *state, Place place, int64_t *words)
{
    bool is_named = place.name.at >= 0;
    words[0] = is_named ? text_entity(state, place.name) : place.value;
    words[1] = is_named ? NAMED : PLAIN;
}

static inline Region bytes_of(int64_t *words, int64_t count)
{
    return (Region){(uint8_t *)words, 8 * count};
}

/* The thread of an event: neighbours are mostly of one, which is looked up once. */
typedef struct {
    int64_t words[4], code;
} Thread;

static inline int64_t thread_code(State *state, const Event *event, Thread *last)
{
    int64_t words[4];
    compose(state, event->process, words);
    compose(state, event->thread, words + 2);
    bool is_same = last->code >= 0;
    for (int k = 0; k < 4; k++)
        is_same &= words[k] == last->words[k];
    if (is_same)
        return last->code;
    for (int k = 0; k < 4; k++)
        last->words[k] = words[k];
    return last->code = code_of(state, THREADS, entity(state, THREAD_WORDS, bytes_of(words, 4), 0, 32));
}

/* Leave the text of a number to the caller, if there is one. */
static inline void note_inexact(State *state, int64_t kind, int64_t row, Number number)
{
    if (number.text.length == 0)
        return;
    int64_t at = 4 * state->inexact_count++;
    set64(state->inexact, at, kind);
    set64(state->inexact, at + 1, row);
    set64(state->inexact, at + 2, number.text.at);
    set64(state->inexact, at + 3, number.text.length);
}

/* A row for a slice; false if it is none of the common ones. */
static inline bool add_slice(State *state, const Event *event, int64_t ordinal, Thread *last)
{
    if (event->time.text.at < 0)
        return false;
    int64_t row = state->x, duration = 0;
    if (!event->has_duration) {
        state->without_duration++;
    } else if (event->duration.text.length) {
        note_inexact(state, DURATION, row, event->duration);
    } else {
        double scaled = __builtin_rint(float_of_bits(event->duration.value) * 1000.0);
        if (scaled > LONGEST_DURATION || scaled < -LONGEST_DURATION)
            return false;
        duration = (int64_t)scaled;
    }
    note_inexact(state, SLICE_TIME, row, event->time);
    int64_t task_type = -1, stack = -1;
    if (event->task_type.length > 0)
        task_type = code_of(state, TASK_TYPES, text_entity(state, event->task_type));
    if (event->stack.length > 0)
        stack = code_of(state, STACKS, text_entity(state, event->stack));
    set64(state->x_time, row, event->time.value);
    set64(state->x_duration, row, duration);
    set32(state->x_thread, row, thread_code(state, event, last));
    set32(state->x_name, row, code_of(state, NAMES, text_entity(state, event->name)));
    set32(state->x_category, row, code_of(state, CATEGORIES, text_entity(state, event->category)));
    set32(state->x_task_type, row, task_type);
    set32(state->x_stack, row, stack);
    set32(state->x_event, row, ordinal);
    set64(state->x_stream, row, event->stream < 0 ? event->physic_stream : event->stream);
    set64(state->x_connection, row, event->connection);
    set64(state->x_correlation, row, event->correlation);
    state->x = row + 1;
    state->phase_X++;
    return true;
}

/* Whether a key of counter args tells samples apart and is no curve of its own. */
static inline bool tells_instances(Region buffer, Piece key)
{
    int64_t at = key.at, length = key.length;
    return length >= 3 && length <= 6
           && (is_word(buffer, at, length, 0x64695F636361, 0)     /* acc_id */
               || is_word(buffer, at, length, 0x656964, 0)        /* die */
               || is_word(buffer, at, length, 0x64695F656964, 0)  /* die_id */
               || is_word(buffer, at, length, 0x646920636361, 0)  /* acc id */
               || is_word(buffer, at, length, 0x646920656964, 0)); /* die id */
}

/* A row for every value of a counter event; false if it is none of the common ones. */
static inline bool add_samples(State *state, const Event *event)
{
    if (event->time.text.at < 0)
        return false;
    /* A series is process, name, id, key, and per key that tells instances apart its entity and value. */
    int64_t words[5 + 2 * MOST_VALUES], size = 5, keys[MOST_VALUES], telling = 0;
    for (int64_t k = 0; k < event->count; k++) {
        const Value *value = &event->values[k];
        keys[k] = text_entity(state, value->key);
        for (int64_t before = 0; before < k; before++)
            if (keys[before] == keys[k])
                return false;
        if (event->count > 1 && tells_instances(state->buffer, value->key)) {
            if (value->value.text.length)
                return false;
            telling |= 1ll << k;
            words[size++] = keys[k];
            words[size++] = value->value.value;
        }
    }
    compose(state, event->process, words);
    words[2] = text_entity(state, event->name);
    words[3] = event->id.at < 0 ? -1 : text_entity(state, event->id);
    for (int64_t k = 0; k < event->count; k++) {
        if (telling & 1ll << k)
            continue;
        words[4] = keys[k];
        int64_t series = code_of(state, SERIES, entity(state, SERIES_WORDS, bytes_of(words, size), 0, 8 * size));
        int64_t row = state->c++;
        set64(state->c_time, row, event->time.value);
        set32(state->c_series, row, series);
        set64(state->c_value, row, event->values[k].value.value);
        note_inexact(state, VALUE, row, event->values[k].value);
        note_inexact(state, SAMPLE_TIME, row, event->time);
    }
    state->phase_C++;
    return true;
}

static inline bool is_launch(State *state, const Event *event)
{
    Piece category = event->category; /* HostToDevice */
    return category.at >= 0
           && is_word(state->buffer, category.at, category.length, 0x65446F5474736F48, 0x65636976);
}

/* The two words of an id of digits, which has 124 bits at most; false for other texts. */
static inline bool id_words(Region buffer, Piece id, int64_t *low, int64_t *high)
{
    if (id.length == 0 || id.length > 36 || (id.length > 1 && read8(buffer, id.at) == '0'))
        return false;
    uint64_t parts[4] = {0, 0, 0, 0}; /* of 31 bits each, the lowest first */
    for (int64_t k = 0; k < id.length; k++) {
        int64_t byte = read8(buffer, id.at + k);
        if (!is_digit(byte))
            return false;
        uint64_t carry = (uint64_t)(byte - '0');
        for (int part = 0; part < 4; part++) {
            parts[part] = parts[part] * 10 + carry;
            carry = parts[part] >> 31;
            if (part < 3)
                parts[part] &= (1ull << 31) - 1;
        }
    }
    *low = (int64_t)(parts[0] | parts[1] << 31);
    *high = (int64_t)(parts[2] | parts[3] << 31);
    return true;
}

/* A row for the source, step or target of a link; false if it is none of the common ones. */
static inline bool add_link_end(State *state, const Event *event, int64_t ordinal, Thread *last)
{
    if (event->time.text.at < 0)
        return false;
    int64_t phase = event->kind - SOURCE;
    if (event->id.at < 0) {
        if (is_launch(state, event))
            state->launch_without_id++;
        else
            state->link_without_id++;
        state->phase_ends[phase]++;
        return true;
    }
    int64_t row = state->l, low = 0, high = 0;
    if (!id_words(state->buffer, event->id, &low, &high)) {
        low = 0;
        high = -1 - code_of(state, LINK_TEXTS, text_entity(state, event->id));
    }
    set64(state->l_time, row, event->time.value);
    set32(state->l_category, row, code_of(state, LINK_CATEGORIES, text_entity(state, event->category)));
    set32(state->l_thread, row, thread_code(state, event, last));
    set32(state->l_event, row, ordinal);
    set64(state->l_id, row, low);
    set64(state->l_high, row, high);
    write8(state->l_phase, row, event->kind == TARGET && !event->binds_around ? FOLLOWING : phase);
    note_inexact(state, LINK_TIME, row, event->time);
    state->l = row + 1;
    state->phase_ends[phase]++;
    return true;
}

/* An event of no common kind is left to the caller. */
static inline bool add_rare(State *state, int64_t ordinal, int64_t begin, int64_t length)
{
    int64_t at = 3 * state->rare_count++;
    set64(state->rare, at, ordinal);
    set64(state->rare, at + 1, begin);
    set64(state->rare, at + 2, length);
    return true;
}

/* Whether an event of `length` bytes fits in everywhere. */
static inline bool has_room(const State *state, int64_t length)
{
    return state->x < state->x_room && state->c + MOST_VALUES <= state->c_room && state->l < state->l_room
           && state->rare_count < state->rare_room && state->inexact_count + 2 * MOST_VALUES <= state->inexact_room
           && state->chunks + 1 < state->chunk_room && state->entities + ENTITIES_PER_EVENT <= state->entity_room
           && state->heap_used + length + 16 * ENTITIES_PER_EVENT * MOST_VALUES <= state->heap_room;
}

/* Note the chunk of the events from `first` on, `[begin, end)` of the buffer. */
static inline void close_chunk(State *state, int64_t begin, int64_t first, int64_t end)
{
    int64_t row = state->chunks++;
    set64(state->chunk_offset, row, state->base + begin);
    set64(state->chunk_length, row, end - begin);
    set64(state->chunk_first, row, first);
}

/* Where the event after the one that ends at `end` begins; negative where no comma and bracket follow. */
static inline int64_t next_event(Region buffer, int64_t end)
{
    int64_t at = blank_end(buffer, end);
    if (read8(buffer, at) != ',')
        return refused(at);
    at = blank_end(buffer, at + 1);
    return read8(buffer, at) == '{' ? at : refused(at);
}

static State *state_at(int64_t address, int64_t words)
{
#ifdef NPU_TUI_CHECKED
    if (8 * words != (int64_t)sizeof(State))
        __builtin_trap();
#else
    (void)words;
#endif
    return (State *)(uintptr_t)address;
}

/* Take in events from the position of the state on; returns why it ends. The position is then the next event's.

   An event counts once the comma after it and the bracket of the next one are seen. */
EXPORT int64_t scan(int64_t address, int64_t words)
{
    State *state = state_at(address, words);
    Region buffer = state->buffer, powers = state->powers;
    int64_t begin = state->position, ordinal = state->events, why = MORE;
    int64_t chunk = begin, chunk_first = ordinal, last_end = begin;
    Event event;
    Thread last = {.code = -1};
    for (;;) {
        int64_t end = event_end(&event, buffer, powers, begin), following = end < 0 ? end : next_event(buffer, end);
        if (following < 0) {
            why = -1 - following + 8 >= state->filled ? MORE : WRONG;
            break;
        }
        if (!has_room(state, end - begin)) {
            why = GROW;
            break;
        }
        if (!(event.kind == SLICE    ? add_slice(state, &event, ordinal, &last)
              : event.kind == SAMPLE ? add_samples(state, &event)
              : event.kind == OTHER  ? add_rare(state, ordinal, begin, end - begin)
                                     : add_link_end(state, &event, ordinal, &last))) {
            why = WRONG;
            break;
        }
        ordinal++;
        last_end = end;
        begin = following;
        if (end - chunk >= state->chunk_size) {
            close_chunk(state, chunk, chunk_first, end);
            chunk = following;
            chunk_first = ordinal;
        }
        if (state->base + end > state->cut) {
            why = DONE;
            break;
        }
    }
    if (ordinal > chunk_first)
        close_chunk(state, chunk, chunk_first, last_end);
    state->events = ordinal;
    state->position = begin;
    return why;
}

/* Find the slots of all entities again, after the table of slots was emptied. */
EXPORT int64_t rehash(int64_t address, int64_t words)
{
    State *state = state_at(address, words);
    int64_t mask = (state->slots.size >> 2) - 1;
    for (int64_t thing = 0; thing < state->entities; thing++) {
        int64_t slot = get64(state->hash, thing) & mask;
        while (get32(state->slots, slot) != 0)
            slot = (slot + 1) & mask;
        set32(state->slots, slot, thing + 1);
    }
    return 0;
}
