/* Numbers of JSON: whole ones, floats to the nearest bit, times to the nanosecond. */

#ifndef NUMBER_H
#define NUMBER_H

#include "text.h"

#define MOST_DIGITS 18 /* as many fit into 64 bits with room to spare */

typedef struct {
    int64_t value, end;
} Whole;

typedef struct {
    double value;
    int64_t end;
    bool exact;
} Decimal;

typedef struct {
    int64_t value, end;
    bool exact;
} Time;

/* Whether all eight bytes are digits: their high halves are 3, with 6 added as well. */
static inline bool are_digits(uint64_t word)
{
    const uint64_t high = 0xF0F0F0F0F0F0F0F0, sixes = 0x0606060606060606;
    return ((word & high) | ((word + sixes) & high) >> 4) == 0x3333333333333333;
}

/* The number of eight digits, the first of which is the lowest byte: pairs, then fours, then all of them. */
static inline uint64_t eight_digits(uint64_t word)
{
    word = (word & 0x0F0F0F0F0F0F0F0F) * 2561 >> 8;
    word = (word & 0x00FF00FF00FF00FF) * 6553601 >> 16;
    return (word & 0x0000FFFF0000FFFF) * 42949672960001 >> 32;
}

/* `value` continued by the digits at `at`, and where they end; it overflows after 18 digits. */
static inline Whole digits(Region text, int64_t at, uint64_t value)
{
    uint64_t word = (uint64_t)read64(text, at);
    while (are_digits(word)) {
        value = value * 100000000 + eight_digits(word);
        at += 8;
        word = (uint64_t)read64(text, at);
    }
    for (; is_digit(word & 0xFF); word >>= 8, at++)
        value = value * 10 + (word & 0xFF) - '0';
    return (Whole){(int64_t)value, at};
}

/* A whole number of at most 18 digits and where it ends, or a negative end where there is none. */
static inline Whole whole(Region text, int64_t at)
{
    bool negative = read8(text, at) == '-';
    int64_t begin = at + negative;
    Whole result = digits(text, begin, 0);
    int64_t length = result.end - begin;
    if (length == 0 || length > MOST_DIGITS || (read8(text, begin) == '0' && (length > 1 || negative)))
        return (Whole){0, refused(result.end)};
    if (negative)
        result.value = -result.value;
    return result;
}

/* `mantissa / 10**decimals` to the nearest float, for mantissas of at most 18 digits and up to 18 decimals: the method of
   Eisel and Lemire with a product of 128 bits, which is exact in this range. `powers` (State.powers of Python) has three
   words for every number of decimals: its power of a fifth in 128 bits, and that of ten as a float. */
static inline double quotient(uint64_t mantissa, int64_t decimals, Region powers)
{
    if (mantissa < 1ull << 53 || decimals == 0)
        return (double)(int64_t)mantissa / float_of_bits(get64(powers, 3 * decimals + 2));
    int64_t zeros = leading_zeros(mantissa);
    uint64_t scaled = mantissa << zeros;
    uint64_t high_power = (uint64_t)get64(powers, 3 * decimals), low_power = (uint64_t)get64(powers, 3 * decimals + 1);
    unsigned __int128 product = (unsigned __int128)scaled * high_power;
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    if ((high & 0x1FF) == 0x1FF) {
        uint64_t more = (uint64_t)((unsigned __int128)scaled * low_power >> 64);
        low += more;
        high += low < more;
    }
    int64_t upper = (int64_t)(high >> 63), shift = upper + 9;
    uint64_t bits = high >> shift;
    int64_t exponent = ((-(152170 + 65536) * decimals) >> 16) + 63 + upper - zeros + 1023;
    if (low <= 1 && decimals <= 4 && (bits & 3) == 1 && bits << shift == high) /* half-way: to the even one */
        bits &= ~1ull;
    bits += bits & 1;
    bits >>= 1;
    if (bits >= 1ull << 53) {
        bits = 1ull << 52;
        exponent++;
    }
    return float_of_bits((int64_t)((bits & ((1ull << 52) - 1)) | (uint64_t)exponent << 52));
}

/* A number of JSON to the nearest float, where it ends (negative: there is none), and whether it is exact. What has more
   than 18 digits or an exponent is left to others. */
static inline Decimal decimal(Region text, int64_t at, Region powers)
{
    bool negative = read8(text, at) == '-';
    int64_t begin = at + negative;
    Whole read = digits(text, begin, 0);
    int64_t whole_digits = read.end - begin, decimals = 0;
    if (whole_digits == 0 || (read8(text, begin) == '0' && whole_digits > 1))
        return (Decimal){0, refused(read.end), false};
    if (read8(text, read.end) == '.') {
        int64_t first = read.end + 1;
        read = digits(text, first, (uint64_t)read.value);
        decimals = read.end - first;
        if (decimals == 0)
            return (Decimal){0, refused(read.end), false};
    }
    bool exact = whole_digits + decimals <= MOST_DIGITS;
    int64_t end = read.end, byte = read8(text, end);
    if (byte == 'e' || byte == 'E') {
        exact = false;
        byte = read8(text, ++end);
        if (byte == '+' || byte == '-')
            end++;
        int64_t first = end;
        end = digits_end(text, first);
        if (end == first || end - first > 2)
            return (Decimal){0, refused(end), false};
    }
    if (end - at > 200)
        return (Decimal){0, refused(end), false};
    if (!exact)
        return (Decimal){0, end, false};
    if (negative && read.value == 0)
        return (Decimal){0, refused(end), false};
    double value = quotient((uint64_t)read.value, decimals, powers);
    return (Decimal){negative ? -value : value, end, true};
}

/* Microseconds with up to three decimals in ns, where they end, and whether that is all of the number. A character that
   belongs to no number must follow. */
static inline Time nanoseconds(Region text, int64_t at)
{
    Whole read = digits(text, at, 0);
    if (read.end == at || read.end - at > 16)
        return (Time){0, read.end, false};
    uint64_t value = (uint64_t)read.value * 1000;
    bool exact = read.value < 1ll << 52;
    if (read8(text, read.end) != '.')
        return (Time){(int64_t)value, read.end, exact};
    int64_t first = read.end + 1;
    read = digits(text, first, 0);
    uint64_t thousands = (uint64_t)read.value;
    switch (read.end - first) {
    case 1: thousands *= 100; break;
    case 2: thousands *= 10; break;
    case 3: break;
    default: return (Time){0, read.end, false};
    }
    return (Time){(int64_t)(value + thousands), read.end, exact};
}

#endif
