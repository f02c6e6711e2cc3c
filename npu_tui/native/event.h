/* One event of a trace: its fields, as far as columns are made of them. */

#ifndef EVENT_H
#define EVENT_H

#include "layout.h"
#include "number.h"
#include "text.h"

#define MOST_ID_DIGITS 19 /* numbers of so many digits are whole ones for every reader */

typedef enum { OTHER, SLICE, SAMPLE, SOURCE, STEP, TARGET } Kind;

/* A number that is exact has no text left to read: its length is 0. */
typedef struct {
    int64_t value;
    Piece text;
} Number;

/* A process or thread: its number, or its name. */
typedef struct {
    int64_t value;
    Piece name;
} Place;

/* A value of a counter event: its key, and the bits of a float. */
typedef struct {
    Piece key;
    Number value;
} Value;

typedef struct {
    Kind kind;
    bool has_duration, binds_around;
    Piece name, category, id, task_type, stack;
    Number time, duration;
    Place process, thread;
    int64_t stream, physic_stream, connection, correlation;
    int64_t count;
    Value values[MOST_VALUES];
} Event;

static const Piece NONE = {-1, 0};

/* Whether the text at `at` is the one of two words of 8 bytes, padded with zeros; it has at most 16. */
static inline bool is_word(Region buffer, int64_t at, int64_t length, int64_t first, int64_t second)
{
    if (length > 16)
        return false;
    if (length < 8)
        return (read64(buffer, at) & ((1ll << 8 * length) - 1)) == first && second == 0;
    if (read64(buffer, at) != first)
        return false;
    int64_t rest = read64(buffer, at + 8);
    return (length == 16 ? rest : rest & ((1ll << 8 * (length - 8)) - 1)) == second;
}

/* The place after the time at `at`: any text, or a number. */
static inline int64_t time_end(Event *event, Region buffer, Region powers, int64_t at)
{
    if (read8(buffer, at) == '"') {
        Time time = nanoseconds(buffer, at + 1);
        int64_t end = time.end;
        bool exact = time.exact && read8(buffer, end) == '"';
        if (!exact) {
            end = plain_end(buffer, at + 1);
            if (end < 0)
                return end;
            if (end == at + 1)
                return refused(at);
        }
        event->time = (Number){time.value, {at + 1, exact ? 0 : end - at - 1}};
        return end + 1;
    }
    int64_t end = decimal(buffer, at, powers).end;
    if (end < 0)
        return end;
    Time time = nanoseconds(buffer, at);
    event->time = (Number){time.value, {at, time.exact && time.end == end ? 0 : end - at}};
    return end;
}

/* The place after the duration at `at`: a number, or the text of one. */
static inline int64_t duration_end(Event *event, Region buffer, Region powers, int64_t at)
{
    bool quoted = read8(buffer, at) == '"';
    Decimal read = decimal(buffer, at + quoted, powers);
    if (read.end < 0)
        return read.end;
    if (quoted && read8(buffer, read.end) != '"')
        return refused(read.end);
    event->has_duration = true;
    event->duration = (Number){bits_of_float(read.value), {at + quoted, read.exact ? 0 : read.end - at - quoted}};
    return read.end + quoted;
}

/* The place after the process or thread at `at`. */
static inline int64_t place_end(Place *place, Region buffer, int64_t at)
{
    if (read8(buffer, at) == '"')
        return plain_piece_end(buffer, at, &place->name);
    Whole read = whole(buffer, at);
    place->value = read.value;
    return read.end;
}

/* The place after the id at `at`: a text, a number of digits, or nothing. */
static inline int64_t id_end(Event *event, Region buffer, int64_t at)
{
    int64_t byte = read8(buffer, at);
    if (byte == '"')
        return plain_piece_end(buffer, at, &event->id);
    if (read32(buffer, at) == 0x6C6C756E) /* null */
        return at + 4;
    int64_t end = digits_end(buffer, at);
    if (end == at || end - at > MOST_ID_DIGITS || (byte == '0' && end - at > 1))
        return refused(end);
    event->id = (Piece){at, end - at};
    return end;
}

static inline void begin_slice_args(Event *event)
{
    event->task_type = event->stack = NONE;
    event->stream = event->physic_stream = event->connection = event->correlation = -1;
}

/* Which arg of slices stands at `at`: a bit for each, 0 for others. */
enum { TASK_TYPE = 1, STREAM = 2, PHYSIC_STREAM = 4, CONNECTION = 8, CORRELATION = 16, STACK = 32 };

static inline int slice_arg(Region buffer, int64_t at, int64_t length)
{
    switch (read8(buffer, at)) {
    case 'T':
        return is_word(buffer, at, length, 0x707954206B736154, 0x65) ? TASK_TYPE : 0; /* Task Type */
    case 'S':
        return is_word(buffer, at, length, 0x49206D6165727453, 0x64) ? STREAM : 0; /* Stream Id */
    case 'P':
        return is_word(buffer, at, length, 0x5320636973796850, 0x6449206D61657274) ? PHYSIC_STREAM : 0;
    case 'c':
        return is_word(buffer, at, length, 0x697463656E6E6F63, 0x64695F6E6F)     ? CONNECTION /* connection_id */
             : is_word(buffer, at, length, 0x74616C6572726F63, 0x64695F6E6F69) ? CORRELATION : 0;
    case 'C':
        return is_word(buffer, at, length, 0x617473206C6C6143, 0x6B63) ? STACK : 0; /* Call stack */
    }
    return 0;
}

/* The place after the args at `at` of a slice. */
static int64_t slice_args_end(Event *event, Region buffer, int64_t at)
{
    bool is_more;
    int seen = 0;
    begin_slice_args(event);
    at = object_begin(buffer, at, &is_more);
    while (is_more) {
        Piece key;
        at = plain_key_end(buffer, at, &key);
        if (at < 0)
            return at;
        int field = slice_arg(buffer, key.at, key.length);
        if (seen & field)
            return refused(key.at);
        seen |= field;
        if (field == 0) {
            at = value_end(buffer, at);
        } else if (field == TASK_TYPE) {
            at = piece_end(buffer, at, &event->task_type);
        } else if (field == STACK) {
            at = piece_end(buffer, at, &event->stack);
        } else {
            Whole read = whole(buffer, at);
            at = read.end;
            *(field == STREAM          ? &event->stream
              : field == PHYSIC_STREAM ? &event->physic_stream
              : field == CONNECTION    ? &event->connection
                                       : &event->correlation) = read.value;
        }
        if (at < 0)
            return at;
        at = member_end(buffer, at, &is_more);
    }
    return at;
}

/* The place after the args at `at` of a counter event, whose values are all numbers. */
static int64_t sample_args_end(Event *event, Region buffer, Region powers, int64_t at)
{
    bool is_more;
    event->count = 0;
    at = object_begin(buffer, at, &is_more);
    while (is_more) {
        if (event->count == MOST_VALUES)
            return refused(at);
        Value *value = &event->values[event->count];
        at = plain_key_end(buffer, at, &value->key);
        if (at < 0)
            return at;
        Decimal read = decimal(buffer, at, powers);
        if (read.end < 0)
            return read.end;
        value->value = (Number){bits_of_float(read.value), {at, read.exact ? 0 : read.end - at}};
        event->count++;
        at = member_end(buffer, read.end, &is_more);
    }
    return at;
}

/* The kind that the phase of a text of one letter is of. */
static inline Kind kind_of(int64_t letter)
{
    switch (letter) {
    case 'X': return SLICE;
    case 'C': return SAMPLE;
    case 's': return SOURCE;
    case 't': return STEP;
    case 'f': return TARGET;
    }
    return OTHER;
}

/* The place after the phase at `at`. */
static inline int64_t phase_end(Event *event, Region buffer, int64_t at)
{
    if (read8(buffer, at) != '"')
        return value_end(buffer, at);
    Piece phase;
    int64_t end = plain_piece_end(buffer, at, &phase);
    if (end >= 0 && phase.length == 1)
        event->kind = kind_of(read8(buffer, phase.at));
    return end;
}

/* The args as those of an event of `kind`; of other events they may be anything. */
static inline int64_t args_end(Event *event, Kind kind, Region buffer, Region powers, int64_t at)
{
    return kind == SLICE    ? slice_args_end(event, buffer, at)
           : kind == SAMPLE ? sample_args_end(event, buffer, powers, at)
                            : value_end(buffer, at);
}

enum { PH = 1, TS = 2, DUR = 4, PID = 8, TID = 16, NAME = 32, ARGS = 64, CAT = 128, ID = 256, BP = 512, BIND = 1024 };

/* Which field the key at `at` is of, and the place after it. Keys are compared with their closing quotes. */
static inline int64_t field_end(Region buffer, int64_t at, int *field)
{
    int64_t word = read64(buffer, at + 1), three = word & 0xFFFFFF, four = word & 0xFFFFFFFF;
    int64_t five = word & 0xFFFFFFFFFF;
    if (three == 0x226870) /* ph" */
        return *field = PH, at + 4;
    if (three == 0x227374)
        return *field = TS, at + 4;
    if (four == 0x22727564)
        return *field = DUR, at + 5;
    if (four == 0x22646970)
        return *field = PID, at + 5;
    if (four == 0x22646974)
        return *field = TID, at + 5;
    if (five == 0x22656D616E)
        return *field = NAME, at + 6;
    if (five == 0x2273677261)
        return *field = ARGS, at + 6;
    if (four == 0x22746163)
        return *field = CAT, at + 5;
    if (three == 0x226469)
        return *field = ID, at + 4;
    if (three == 0x227062)
        return *field = BP, at + 4;
    if (word == 0x2264695F646E6962) /* bind_id" */
        return *field = BIND, at + 9;
    *field = 0;
    int64_t end = plain_end(buffer, at + 1);
    return end < 0 ? end : end + 1;
}

/* Take the event at `at` apart; its end, or where it is none of the common ones. */
static int64_t event_end(Event *event, Region buffer, Region powers, int64_t at)
{
    event->kind = OTHER;
    event->has_duration = event->binds_around = false;
    event->name = event->category = event->id = event->time.text = NONE;
    event->process = (Place){-1, NONE};
    event->thread = (Place){0, NONE};
    int64_t args_at = -1;
    Kind args_as = OTHER;
    bool is_more;
    int seen = 0, field;
    at = object_begin(buffer, at, &is_more);
    while (is_more) {
        if (read8(buffer, at) != '"')
            return refused(at);
        int64_t begin = at;
        at = field_end(buffer, at, &field);
        if (at < 0)
            return at;
        if (seen & field)
            return refused(begin);
        seen |= field;
        at = blank_end(buffer, at);
        if (read8(buffer, at) != ':')
            return refused(at);
        at = blank_end(buffer, at + 1);
        switch (field) {
        case PH:
            at = phase_end(event, buffer, at);
            break;
        case TS:
            at = time_end(event, buffer, powers, at);
            break;
        case DUR:
            at = duration_end(event, buffer, powers, at);
            break;
        case PID:
            at = place_end(&event->process, buffer, at);
            break;
        case TID:
            at = place_end(&event->thread, buffer, at);
            break;
        case NAME:
            at = piece_end(buffer, at, &event->name);
            break;
        case CAT:
            at = piece_end(buffer, at, &event->category);
            break;
        case ID:
            at = id_end(event, buffer, at);
            break;
        case ARGS: {
            /* Where the phase comes later, a duration tells slices from samples. */
            args_at = at;
            args_as = seen & PH ? event->kind : seen & DUR ? SLICE : SAMPLE;
            int64_t end = args_end(event, args_as, buffer, powers, at);
            if (end < 0 && !(seen & PH)) {
                args_as = OTHER;
                end = value_end(buffer, at);
            }
            at = end;
            break;
        }
        case BP:
            event->binds_around = (read32(buffer, at) & 0xFFFFFF) == 0x226522; /* "e" */
            at = value_end(buffer, at);
            break;
        case BIND:
            return refused(begin);
        default:
            at = value_end(buffer, at);
        }
        if (at < 0)
            return at;
        at = member_end(buffer, at, &is_more);
    }
    if (at < 0)
        return at;
    if ((event->kind == SLICE || event->kind == SAMPLE) && args_as != event->kind) {
        if (args_at < 0) {
            begin_slice_args(event);
            event->count = 0;
        } else {
            int64_t end = args_end(event, event->kind, buffer, powers, args_at);
            if (end < 0)
                return end;
        }
    }
    return at;
}

#endif
