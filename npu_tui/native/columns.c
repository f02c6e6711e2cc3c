/* The columns of a CSV file: numbers, moments and texts from some of its rows. */

#include "layout.h"
#include "number.h"
#include "table.h"

#define NO_VALUE INT64_MIN
#define ODD (INT64_MIN + 1) /* a cell that is none of its kind */

/* The comma, line end, quote or zero byte at or after `at`. */
static inline int64_t cell_end(Region text, int64_t at)
{
    for (;; at += BLOCK) {
        Bytes bytes = bytes_at(text, at);
        uint32_t special = bits_of((bytes == ',') | (bytes == '\n') | (bytes == '"') | (bytes == 0));
        if (special)
            return at + trailing_zeros(special);
    }
}

/* The place behind the closing quote of the cell that opens at `at`, where two quotes are one; negative without one. */
static inline int64_t quoted_end(Region text, int64_t at)
{
    for (at++;; at += BLOCK) {
        Bytes bytes = bytes_at(text, at);
        uint32_t special = bits_of((bytes == '"') | (bytes == 0));
        if (!special)
            continue;
        at += trailing_zeros(special);
        if (read8(text, at) == 0)
            return refused(at);
        if (read8(text, ++at) != '"')
            return at;
        at += 1 - BLOCK;
    }
}

static inline bool is_blank(int64_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

/* A number as a whole one of `places` more digits; one with more is odd, or `rounded`, halves to the even one. */
static inline Whole fixed(Region text, int64_t at, int64_t places, bool rounded)
{
    bool negative = read8(text, at) == '-';
    int64_t begin = at + negative;
    Whole read = digits(text, begin, 0);
    int64_t value = read.value;
    at = read.end;
    if (at == begin || at - begin > 15 || (places == 6 && value >= 9000000000000))
        return (Whole){0, refused(at)};
    if (read8(text, at) == '.') {
        for (at++; places > 0 && is_digit(read8(text, at)); at++, places--)
            value = value * 10 + read8(text, at) - '0';
        if (rounded && places == 0 && is_digit(read8(text, at))) {
            int64_t half = read8(text, at++) - '0', rest = 0;
            for (; is_digit(read8(text, at)); at++)
                rest |= read8(text, at) - '0';
            value += half > 5 || (half == 5 && (rest > 0 || (value & 1)));
        }
    }
    for (; places > 0; places--)
        value *= 10;
    return (Whole){negative ? -value : value, at};
}

/* A whole number; the decimals of `12.0` say nothing. */
static inline Whole whole_number(Region text, int64_t at)
{
    bool negative = read8(text, at) == '-';
    int64_t begin = at + negative;
    Whole read = digits(text, begin, 0);
    if (read.end == begin || read.end - begin > MOST_DIGITS)
        return (Whole){0, refused(read.end)};
    if (read8(text, read.end) == '.')
        for (read.end++; read8(text, read.end) == '0'; read.end++)
            ;
    return (Whole){negative ? -read.value : read.value, read.end};
}

static inline int64_t two_digits(Region text, int64_t at)
{
    int64_t high = read8(text, at) - '0', low = read8(text, at + 1) - '0';
    return 0 <= high && high <= 9 && 0 <= low && low <= 9 ? 10 * high + low : 99;
}

/* A date such as `2025-11-20 08:53:20:002687` as ns since 1970, as if it were of UTC. */
static inline Whole date(Region text, int64_t at)
{
    static const int16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    const uint64_t marks = 0x0000FF0000FF0000, of_day = 0x00002D00002D0000, of_time = 0x00003A00003A0000;
    int64_t year = 100 * two_digits(text, at) + two_digits(text, at + 2), month = two_digits(text, at + 5);
    int64_t day = two_digits(text, at + 8), hour = two_digits(text, at + 11), minute = two_digits(text, at + 14);
    int64_t second = two_digits(text, at + 17);
    bool leap = (year & 3) == 0 && (year % 100 != 0 || year % 400 == 0);
    bool apart = ((uint64_t)read64(text, at + 2) & marks) == of_day && read8(text, at + 10) == ' '
                 && ((uint64_t)read64(text, at + 11) & marks) == of_time && read8(text, at + 19) == ':';
    if (!apart || year < 1971 || year > 2095 || month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59)
        return (Whole){0, refused(at)};
    if (day < 1 || day > before[month] - before[month - 1] + (month == 2 && leap))
        return (Whole){0, refused(at)};
    Whole micro = digits(text, at + 20, 0);
    if (micro.end != at + 26)
        return (Whole){0, refused(at)};
    int64_t past = year - 1; /* years from the year 1 on */
    int64_t days = 365 * past + past / 4 - past / 100 + past / 400 - 719162;
    days += before[month - 1] + (month > 2 && leap) + day - 1;
    int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    return (Whole){seconds * 1000000000 + micro.value * 1000, micro.end};
}

/* Whether the cell stands for no value: `missing` has words of up to eight bytes. */
static inline bool is_missing(Region missing, Region text, int64_t at, int64_t end)
{
    while (end > at && is_blank(read8(text, end - 1)))
        end--;
    if (end - at >= 8)
        return false;
    int64_t word = last_word(text, at, end - at);
    for (int64_t k = 0; k < missing.size >> 3; k++)
        if (get64(missing, k) == word)
            return true;
    return false;
}

/* The number of a text among those of the plan, from 1 on; `near` is that of the cell above, 0 without one. */
static inline int64_t text_number(CsvPlan *plan, int64_t at, int64_t length, int64_t near)
{
    Region slots = plan->slots, text = plan->text, entries = plan->entries;
    if (near > 0 && get64(entries, 2 * near - 1) == length
        && is_same(text, get64(entries, 2 * near - 2), text, at, length))
        return near;
    int64_t mask = (slots.size >> 2) - 1, slot = hashed(text, at, length, 0) & mask, number;
    while ((number = get32(slots, slot)) > 0) {
        if (get64(entries, 2 * number - 1) == length
            && is_same(text, get64(entries, 2 * number - 2), text, at, length))
            return number;
        slot = (slot + 1) & mask;
    }
    set64(entries, 2 * plan->texts, at);
    set64(entries, 2 * plan->texts + 1, length);
    set32(slots, slot, ++plan->texts);
    return plan->texts;
}

/* The place behind `word` if it stands at `at`, else a negative one. */
static inline int64_t behind(Region text, int64_t at, const char *word)
{
    for (; *word; word++, at++)
        if (read8(text, at) != *word)
            return refused(at);
    return at;
}

/* A number behind `word`; without the word nothing is read if it `may_lack`. */
static inline Whole said(Region text, int64_t at, const char *word, bool may_lack)
{
    int64_t first = behind(text, at, word);
    if (first < 0)
        return (Whole){NO_VALUE, may_lack ? at : first};
    Whole read = digits(text, first, 0);
    return read.end == first || read.end - first > 15 ? (Whole){0, refused(first)} : read;
}

/* The requests of a batch, such as `"[{'rid': 'a', 'iter': 0, 'type': 1, 'num_scheduled_tokens': 1}, ..."`: how many
   there are, four words each, and where the list ends; ODD where it reads otherwise. */
static inline int64_t requests(CsvPlan *plan, int64_t at, int64_t end)
{
    Region text = plan->text;
    int64_t first = plan->listed;
    if ((at = behind(text, at, "\"[")) < 0)
        return ODD;
    for (;;) {
        if ((at = behind(text, at, "{'rid': '")) < 0)
            return ODD;
        int64_t rid = at, byte;
        while ((byte = read8(text, at)) != '\'' && byte != '{' && byte != '}' && byte != ',' && byte != '"')
            at++;
        int64_t length = at - rid;
        if (length == 0 || (at = behind(text, at, "'")) < 0)
            return ODD;
        Whole iter = said(text, at, ", 'iter': ", false);
        if (iter.end < 0)
            return ODD;
        Whole type = said(text, iter.end, ", 'type': ", false);
        if (type.end < 0)
            return ODD;
        Whole tokens = said(text, type.end, ", 'num_scheduled_tokens': ", true);
        if (tokens.end < 0 || (at = behind(text, tokens.end, "}")) < 0)
            return ODD;
        int64_t entry = 4 * plan->listed++;
        set64(plan->lists, entry, text_number(plan, rid, length, 0));
        set64(plan->lists, entry + 1, iter.value);
        set64(plan->lists, entry + 2, type.value);
        set64(plan->lists, entry + 3, tokens.value);
        if (behind(text, at, "]\"") == end)
            return plan->listed - first;
        if ((at = behind(text, at, ", ")) < 0)
            return ODD;
    }
}

/* What the unquoted cell at `at`, which is no text, says and where it ends; ODD where it is none of its `kind`. */
static inline Whole number_of(const CsvPlan *plan, int64_t kind, int64_t at)
{
    Region text = plan->text;
    int64_t begin = at;
    while (is_blank(read8(text, at)))
        at++;
    Whole read = {0, -1};
    if (kind == CSV_REQUESTS) {
        read.end = behind(text, at, "[]");
    } else if (kind == CSV_WHOLE) {
        read = whole_number(text, at);
    } else if (kind == CSV_MILLISECONDS) {
        read = fixed(text, at, 6, true);
    } else if (kind == CSV_MICROSECONDS) {
        read = fixed(text, at, 3, false);
    } else if (kind == CSV_DATE) {
        if (read8(text, at) == '2')
            read = date(text, at);
    } else {
        Decimal real = decimal(text, at, plan->powers);
        if (real.exact)
            read = (Whole){bits_of_float(real.value), real.end};
    }
    int64_t end = read.end >= 0 ? read.end : cell_end(text, begin);
    while (is_blank(read8(text, end)))
        end++;
    int64_t byte = read8(text, end);
    if (read.end >= 0 && (byte == ',' || byte == '\n'))
        return (Whole){read.value, end};
    end = cell_end(text, begin);
    return (Whole){is_missing(plan->missing, text, at, end) ? NO_VALUE : ODD, end};
}

/* The rows of a plan to columns; how many they are, or a negative number where quotes, the count of cells
   or that of rows are odd. Of a column with an odd cell the kind becomes CSV_LEFT_OUT. */
static int64_t rows_of(CsvPlan *plan)
{
    Region text = plan->text;
    int64_t at = 0, row = 0;
    while (at < plan->size) {
        int64_t blank = read8(text, at) == '\r';
        if (read8(text, at + blank) == '\n') {
            at += blank + 1;
            continue;
        }
        if (row == plan->rows)
            return -1;
        bool more = true; /* cells in this row */
        for (int64_t column = 0; column < plan->columns; column++) {
            int64_t kind = read8(plan->kinds, column), place = column * plan->rows + row;
            Whole cell = {NO_VALUE, at};
            if (more) {
                if (read8(text, at) == '"') {
                    cell = (Whole){ODD, quoted_end(text, at)};
                    if (cell.end < 0)
                        return -1;
                    if (kind == CSV_REQUESTS)
                        cell.value = requests(plan, at, cell.end);
                } else if (kind == CSV_LEFT_OUT || kind == CSV_TEXT) {
                    cell.end = cell_end(text, at);
                } else {
                    cell = number_of(plan, kind, at);
                }
                if (kind == CSV_TEXT)
                    cell.value = text_number(plan, at, cell.end - at, row > 0 ? get64(plan->values, place - 1) : 0);
                at = cell.end + (read8(text, cell.end) == '\r');
                int64_t byte = read8(text, at++);
                if (byte != ',' && byte != '\n')
                    return -1;
                more = byte == ',';
            }
            if (kind == CSV_LEFT_OUT)
                continue;
            if (cell.value == ODD)
                write8(plan->kinds, column, CSV_LEFT_OUT);
            else
                set64(plan->values, place, cell.value);
        }
        if (more)
            return -1;
        row++;
    }
    return row;
}

/* rows_of the plan at `address`; layout.py says what it has. */
EXPORT int64_t csv_columns(int64_t address)
{
    /* A copy, so that nothing written to the columns could be meant to change the plan. */
    CsvPlan copy;
    Region words = region(address, sizeof copy);
    for (int64_t at = 0; at < (int64_t)sizeof copy; at += 8)
        *(Loose64 *)((uint8_t *)&copy + at) = read64(words, at);
    int64_t rows = rows_of(&copy);
    for (int64_t at = 0; at < (int64_t)sizeof copy; at += 8)
        write64(words, at, *(const Loose64 *)((const uint8_t *)&copy + at));
    return rows;
}
