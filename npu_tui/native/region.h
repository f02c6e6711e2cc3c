/* Memory as regions, and the few things about bits and bytes that C has no words for.

   The functions of the library know int64_t and regions, allocate nothing and call nothing outside of it. A region is an
   address and a length in bytes, two words of a plan. Where NPU_TUI_CHECKED is defined, the first access outside of the
   region that is meant ends the process with an illegal instruction. */

#ifndef REGION_H
#define REGION_H

#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct {
    uint8_t *start;
    int64_t size;
} Region;

/* Words lie at any byte, and whatever the memory is otherwise used as. */
typedef int32_t __attribute__((aligned(1), may_alias)) Loose32;
typedef int64_t __attribute__((aligned(1), may_alias)) Loose64;

static inline Region region(int64_t address, int64_t size)
{
    return (Region){(uint8_t *)(uintptr_t)address, size};
}

static inline uint8_t *place(Region memory, int64_t at, int64_t size)
{
#ifdef NPU_TUI_CHECKED
    if (at < 0 || at > memory.size - size)
        __builtin_trap();
#else
    (void)size;
#endif
    return memory.start + at;
}

static inline int64_t read8(Region memory, int64_t at)
{
    return *place(memory, at, 1);
}

static inline int64_t read32(Region memory, int64_t at)
{
    return *(const Loose32 *)place(memory, at, 4);
}

static inline int64_t read64(Region memory, int64_t at)
{
    return *(const Loose64 *)place(memory, at, 8);
}

static inline void write8(Region memory, int64_t at, int64_t value)
{
    *place(memory, at, 1) = (uint8_t)value;
}

static inline void write32(Region memory, int64_t at, int64_t value)
{
    *(Loose32 *)place(memory, at, 4) = (int32_t)value;
}

static inline void write64(Region memory, int64_t at, int64_t value)
{
    *(Loose64 *)place(memory, at, 8) = value;
}

/* Item `row` of a column of int32 or int64. */
static inline int64_t get32(Region column, int64_t row)
{
    return read32(column, 4 * row);
}

static inline int64_t get64(Region column, int64_t row)
{
    return read64(column, 8 * row);
}

static inline void set32(Region column, int64_t row, int64_t value)
{
    write32(column, 4 * row, value);
}

static inline void set64(Region column, int64_t row, int64_t value)
{
    write64(column, 8 * row, value);
}

/* How many low or high bits are zero; not all of them may be. */
static inline int64_t trailing_zeros(uint64_t value)
{
    return __builtin_ctzll(value);
}

static inline int64_t leading_zeros(uint64_t value)
{
    return __builtin_clzll(value);
}

static inline double float_of_bits(int64_t bits)
{
    union { int64_t bits; double value; } both = {.bits = bits};
    return both.value;
}

static inline int64_t bits_of_float(double value)
{
    union { double value; int64_t bits; } both = {.value = value};
    return both.bits;
}

/* 32 bytes at once: a bit of the result for each, the first one lowest. */
#define BLOCK 32

typedef int8_t __attribute__((vector_size(BLOCK))) Bytes;
typedef int8_t __attribute__((vector_size(BLOCK), aligned(1), may_alias)) LooseBytes;

static inline Bytes bytes_at(Region memory, int64_t at)
{
    return *(const LooseBytes *)place(memory, at, BLOCK);
}

static inline uint32_t bits_of(Bytes truths)
{
#ifdef __clang__
    typedef bool __attribute__((ext_vector_type(BLOCK))) Bits;
    union { Bits truths; uint32_t bits; } both = {.truths = __builtin_convertvector(truths, Bits)};
    return both.bits;
#else /* gcc builds the library for its address sanitizer only */
    uint32_t bits = 0;
    for (int k = 0; k < BLOCK; k++)
        bits |= (uint32_t)(truths[k] & 1) << k;
    return bits;
#endif
}

#endif
