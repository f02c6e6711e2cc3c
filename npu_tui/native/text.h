/* Texts and whole values of JSON: where they end.

   An end is an offset; a negative one, `-1 - offset`, says where that what lies there is none. The rules are stricter
   than those of any reader after this one: what is refused here is only read more slowly. After the text of a region
   there are zero bytes, at which every loop ends. */

#ifndef TEXT_H
#define TEXT_H

#include "region.h"

#define DEEPEST 60

/* What is none, and where. */
static inline int64_t refused(int64_t at)
{
    return -1 - at;
}

static inline bool is_digit(int64_t byte)
{
    return '0' <= byte && byte <= '9';
}

/* The first byte from `at` that is no white space; what follows mostly is above the blank. */
static inline int64_t blank_end(Region text, int64_t at)
{
    int64_t byte = read8(text, at);
    while (byte <= ' ' && (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'))
        byte = read8(text, ++at);
    return at;
}

static inline bool is_hex(int64_t byte)
{
    return is_digit(byte) || ('A' <= byte && byte <= 'F') || ('a' <= byte && byte <= 'f');
}

/* The place after the escape at `at`. Halves of characters, such as \ud83d, are refused. */
static int64_t escape_end(Region text, int64_t at)
{
    switch (read8(text, at + 1)) {
    case 'u': {
        int64_t first = read8(text, at + 2);
        if ((first == 'd' || first == 'D') && read8(text, at + 3) > '7')
            return refused(at);
        for (int64_t k = 2; k < 6; k++)
            if (!is_hex(read8(text, at + k)))
                return refused(at + k);
        return at + 6;
    }
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return at + 2;
    }
    return refused(at + 1);
}

static inline bool continues(int64_t byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The place after the character of several bytes at `at`, which must be well-formed UTF-8. */
static int64_t character_end(Region text, int64_t at)
{
    int64_t first = read8(text, at), second = read8(text, at + 1);
    if (!continues(second))
        return refused(at + 1);
    if (0xC2 <= first && first <= 0xDF)
        return at + 2;
    if (!continues(read8(text, at + 2)))
        return refused(at + 2);
    if (0xE0 <= first && first <= 0xEF) {
        /* Too long a form of a character, or half of one. */
        if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F))
            return refused(at);
        return at + 3;
    }
    if (!continues(read8(text, at + 3)))
        return refused(at + 3);
    if (first < 0xF0 || first > 0xF4 || (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
        return refused(at);
    return at + 4;
}

/* The first byte from `at` that is a quote, a backslash, a control character or no ASCII. As signed bytes both control
   characters and what is no ASCII lie below the blank. */
static inline int64_t special_end(Region text, int64_t at)
{
    for (;; at += BLOCK) {
        Bytes bytes = bytes_at(text, at);
        uint32_t special = bits_of((bytes == '"') | (bytes == '\\') | (bytes < ' '));
        if (special)
            return at + trailing_zeros(special);
    }
}

/* The closing quote of the text whose first character is at `at`. */
static inline int64_t text_end(Region text, int64_t at)
{
    for (;;) {
        at = special_end(text, at);
        int64_t byte = read8(text, at);
        if (byte == '"')
            return at;
        if (byte == '\\')
            at = escape_end(text, at);
        else if (byte >= 0x80)
            at = character_end(text, at);
        else
            return refused(at);
        if (at < 0)
            return at;
    }
}

/* The same for a text of ASCII without escapes. */
static inline int64_t plain_end(Region text, int64_t at)
{
    at = special_end(text, at);
    return read8(text, at) == '"' ? at : refused(at);
}

static inline int64_t digits_end(Region text, int64_t at)
{
    while (is_digit(read8(text, at)))
        at++;
    return at;
}

/* The place after the number at `at`. */
static int64_t number_end(Region text, int64_t at)
{
    if (read8(text, at) == '-')
        at++;
    int64_t begin = at;
    at = digits_end(text, at);
    if (at == begin || (at - begin > 1 && read8(text, begin) == '0'))
        return refused(at);
    if (read8(text, at) == '.') {
        begin = ++at;
        at = digits_end(text, at);
        if (at == begin)
            return refused(at);
    }
    int64_t byte = read8(text, at);
    if (byte == 'e' || byte == 'E') {
        byte = read8(text, ++at);
        if (byte == '+' || byte == '-')
            at++;
        begin = at;
        at = digits_end(text, at);
        if (at == begin || at - begin > 2)
            return refused(at);
    }
    return at;
}

/* The place after the text, number or literal at `at`. */
static inline int64_t scalar_end(Region text, int64_t at)
{
    int64_t byte = read8(text, at);
    if (byte == '"') {
        int64_t end = text_end(text, at + 1);
        return end < 0 ? end : end + 1;
    }
    if (byte == '-' || is_digit(byte))
        return number_end(text, at);
    int64_t word = read64(text, at), four = word & 0xFFFFFFFF;
    if (four == 0x65757274 || four == 0x6C6C756E) /* true, null */
        return at + 4;
    if ((word & 0xFFFFFFFFFF) == 0x65736C6166) /* false */
        return at + 5;
    return refused(at);
}

/* Where the value of the key at `at` begins. */
static inline int64_t key_end(Region text, int64_t at)
{
    if (read8(text, at) != '"')
        return refused(at);
    at = text_end(text, at + 1);
    if (at < 0)
        return at;
    at = blank_end(text, at + 1);
    if (read8(text, at) != ':')
        return refused(at);
    return blank_end(text, at + 1);
}

/* A piece of a text; at -1 there is none. */
typedef struct {
    int64_t at, length;
} Piece;

/* The place after the text at `at`, which goes to `piece` without its quotes. */
static inline int64_t piece_end(Region text, int64_t at, Piece *piece)
{
    if (read8(text, at) != '"')
        return refused(at);
    int64_t end = text_end(text, at + 1);
    if (end < 0)
        return end;
    *piece = (Piece){at + 1, end - at - 1};
    return end + 1;
}

/* The same for a text of ASCII without escapes whose quote is at `at`. */
static inline int64_t plain_piece_end(Region text, int64_t at, Piece *piece)
{
    int64_t end = plain_end(text, at + 1);
    if (end < 0)
        return end;
    *piece = (Piece){at + 1, end - at - 1};
    return end + 1;
}

/* Where the value of the plain key at `at` begins, and the key. */
static inline int64_t plain_key_end(Region text, int64_t at, Piece *key)
{
    if (read8(text, at) != '"')
        return refused(at);
    at = plain_piece_end(text, at, key);
    if (at < 0)
        return at;
    at = blank_end(text, at);
    return read8(text, at) == ':' ? blank_end(text, at + 1) : refused(at);
}

/* Objects are walked from key to key: `while (is_more)` there is one at what these two return, and afterwards the place
   after the object, or a refusal. */
static inline int64_t object_begin(Region text, int64_t at, bool *is_more)
{
    *is_more = false;
    if (read8(text, at) != '{')
        return refused(at);
    at = blank_end(text, at + 1);
    if (read8(text, at) == '}')
        return at + 1;
    *is_more = true;
    return at;
}

static inline int64_t member_end(Region text, int64_t at, bool *is_more)
{
    at = blank_end(text, at);
    int64_t byte = read8(text, at);
    *is_more = byte == ',';
    if (*is_more)
        return blank_end(text, at + 1);
    return byte == '}' ? at + 1 : refused(at);
}

/* The place after the object or list at `at`, which is not nested deeper than DEEPEST. */
static int64_t nested_end(Region text, int64_t at)
{
    int64_t depth = 0;
    uint64_t objects = 0; /* a bit for every level that is an object, the innermost lowest */
    for (;;) {
        /* A value begins here. */
        int64_t byte = read8(text, at);
        if (byte == '{' || byte == '[') {
            if (++depth > DEEPEST)
                return refused(at);
            objects = objects << 1 | (byte == '{');
            at = blank_end(text, at + 1);
            if (read8(text, at) != (objects & 1 ? '}' : ']')) {
                if (objects & 1 && (at = key_end(text, at)) < 0)
                    return at;
                continue;
            }
            at++;
            depth--;
            objects >>= 1;
        } else {
            at = scalar_end(text, at);
            if (at < 0)
                return at;
        }
        /* A value has ended, and with it as many objects and lists as have their brackets here. */
        for (;;) {
            if (depth == 0)
                return at;
            at = blank_end(text, at);
            byte = read8(text, at);
            if (byte == ',') {
                at = blank_end(text, at + 1);
                if (objects & 1 && (at = key_end(text, at)) < 0)
                    return at;
                break;
            }
            if (byte != (objects & 1 ? '}' : ']'))
                return refused(at);
            at++;
            depth--;
            objects >>= 1;
        }
    }
}

/* The place after the value at `at`, whatever it is. */
static inline int64_t value_end(Region text, int64_t at)
{
    int64_t byte = read8(text, at);
    return byte == '{' || byte == '[' ? nested_end(text, at) : scalar_end(text, at);
}

#endif
