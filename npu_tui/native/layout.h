/* Written by build.py from layout.py. */

#ifndef LAYOUT_H
#define LAYOUT_H

#include "region.h"

typedef struct {
    Region buffer;
    Region slots;
    Region hash;
    Region offset;
    Region length;
    Region heap;
    Region powers;
    Region code;
    Region list;
    Region x_time;
    Region x_duration;
    Region x_thread;
    Region x_name;
    Region x_category;
    Region x_task_type;
    Region x_stack;
    Region x_event;
    Region x_stream;
    Region x_connection;
    Region x_correlation;
    Region c_time;
    Region c_series;
    Region c_value;
    Region l_time;
    Region l_category;
    Region l_thread;
    Region l_event;
    Region l_id;
    Region l_high;
    Region l_phase;
    Region rare;
    Region inexact;
    Region chunk_offset;
    Region chunk_length;
    Region chunk_first;
    int64_t filled;
    int64_t position;
    int64_t base;
    int64_t cut;
    int64_t chunk_size;
    int64_t x_room;
    int64_t c_room;
    int64_t l_room;
    int64_t rare_room;
    int64_t inexact_room;
    int64_t chunk_room;
    int64_t entity_room;
    int64_t heap_room;
    int64_t events;
    int64_t x;
    int64_t c;
    int64_t l;
    int64_t rare_count;
    int64_t inexact_count;
    int64_t chunks;
    int64_t phase_X;
    int64_t phase_C;
    int64_t phase_ends[3];
    int64_t without_duration;
    int64_t launch_without_id;
    int64_t link_without_id;
    int64_t entities;
    int64_t heap_used;
    int64_t known[8];
} State;

typedef struct {
    Region text;
    Region pieces;
    Region bounds;
    Region positions;
    Region keys;
    Region letters;
    Region values;
    Region kinds;
    Region slots;
    Region entries;
    Region heap;
    int64_t asked;
    int64_t count;
    int64_t rows;
    int64_t known;
    int64_t used;
} Chosen;

typedef struct {
    Region offset;
    Region item;
    Region start;
    Region end;
    Region busy;
    Region which;
    Region edges;
    Region keys;
    Region levels;
    Region marks;
    Region count;
    Region covered;
    Region shown;
    Region position;
    Region first;
    Region other;
    Region leads;
    Region from_left;
    Region to_right;
    Region touches;
    Region start8;
    Region end8;
    int64_t lines;
    int64_t columns;
    int64_t depth;
    int64_t bits;
    int64_t drop;
} CellPlan;

typedef struct {
    Region text;
    Region kinds;
    Region values;
    Region missing;
    Region powers;
    Region slots;
    Region entries;
    Region lists;
    int64_t size;
    int64_t columns;
    int64_t rows;
    int64_t texts;
    int64_t listed;
} CsvPlan;

enum { THREADS, NAMES, CATEGORIES, TASK_TYPES, STACKS, SERIES, LINK_CATEGORIES, LINK_TEXTS };

#define MORE 0
#define WRONG 1
#define GROW 2
#define DONE 3
#define TEXT 0
#define THREAD_WORDS 1
#define SERIES_WORDS 2
#define PLAIN 0
#define NAMED 1
#define SLICE_TIME 0
#define DURATION 1
#define VALUE 2
#define SAMPLE_TIME 3
#define LINK_TIME 4
#define MOST_VALUES 16
#define ENTITIES_PER_EVENT 72
#define CHOSEN_ABSENT 0
#define CHOSEN_NUMBER 1
#define CHOSEN_TEXT 2
#define CHOSEN_UNREAD 3
#define CSV_LEFT_OUT 0
#define CSV_WHOLE 1
#define CSV_REAL 2
#define CSV_MILLISECONDS 3
#define CSV_MICROSECONDS 4
#define CSV_DATE 5
#define CSV_TEXT 6
#define CSV_REQUESTS 7

#endif
