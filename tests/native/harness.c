/* Runs a function of a freestanding library on a block of memory: harness LIBRARY FUNCTION BLOCK REGIONS WORDS.
   The first WORDS int64 of the block are the state; REGIONS pairs of words before all numbers are offsets in the block
   and lengths, which become addresses for the call and offsets again behind it. The block is written back; the
   exit code is what the function returned.

   It asks the kernel of aarch64 itself and links no C library: the compiler would build one first, for minutes. */
#include <elf.h>
#include <stdint.h>

enum { OPENAT = 56, LSEEK = 62, EXIT_GROUP = 94, MMAP = 222 };
enum { AT_FDCWD = -100, O_RDWR = 2, SEEK_END = 2, READ_WRITE = 3, READ_WRITE_RUN = 7 };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_NOBODYS = 0x22 };
#define IMAGE (1 << 22)

static int64_t ask(int64_t what, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f) {
    register int64_t x8 __asm__("x8") = what, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register int64_t x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

static _Noreturn void leave(int64_t code) {
    for (;;) ask(EXIT_GROUP, code, 0, 0, 0, 0, 0);
}

static char *whole(const char *path, int64_t flags) {
    int64_t file = ask(OPENAT, AT_FDCWD, (int64_t)path, O_RDWR, 0, 0, 0);
    int64_t size = ask(LSEEK, file, 0, SEEK_END, 0, 0, 0);
    if (size <= 0) leave(101);
    return (char *)ask(MMAP, 0, size, READ_WRITE, flags, file, 0);
}

static int64_t number(const char *text) {
    int64_t found = 0;
    while (*text) found = 10 * found + *text++ - '0';
    return found;
}

static int same(const char *one, const char *other) {
    while (*one && *one == *other) one++, other++;
    return *one == *other;
}

static int64_t run(char **words) {
    char *data = whole(words[1], MAP_PRIVATE);
    Elf64_Ehdr *head = (Elf64_Ehdr *)data;
    Elf64_Phdr *parts = (Elf64_Phdr *)(data + head->e_phoff);
    char *image = (char *)ask(MMAP, 0, IMAGE, READ_WRITE_RUN, MAP_NOBODYS, -1, 0);
    Elf64_Dyn *dynamic = 0;
    for (int k = 0; k < head->e_phnum; k++) {
        const volatile char *from = data + parts[k].p_offset; /* volatile: no call of memcpy is made of the loop */
        if (parts[k].p_type == PT_LOAD)
            for (uint64_t at = 0; at < parts[k].p_filesz; at++) image[parts[k].p_vaddr + at] = from[at];
        if (parts[k].p_type == PT_DYNAMIC) dynamic = (Elf64_Dyn *)(image + parts[k].p_vaddr);
    }
    Elf64_Sym *symbols = 0;
    char *names = 0;
    uint32_t *hash = 0;
    for (; dynamic && dynamic->d_tag; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)(image + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB) names = image + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_HASH) hash = (uint32_t *)(image + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_RELA || dynamic->d_tag == DT_NEEDED) return 102; /* not freestanding */
    }
    for (char *line = image; line < image + IMAGE; line += 64) /* what was written is what runs */
        __asm__ volatile("dc cvau, %0\n dsb ish\n ic ivau, %0" : : "r"(line) : "memory");
    __asm__ volatile("dsb ish\n isb" : : : "memory");
    int64_t (*function)(int64_t, int64_t) = 0;
    for (uint32_t k = 0; k < hash[1]; k++)
        if (same(names + symbols[k].st_name, words[2])) function = (void *)(image + symbols[k].st_value);
    if (!function) return 103;
    int64_t *state = (int64_t *)whole(words[3], MAP_SHARED);
    int64_t regions = number(words[4]);
    for (int64_t k = 0; k < regions; k++) state[2 * k] += (int64_t)state;
    int64_t result = function((int64_t)state, number(words[5]));
    for (int64_t k = 0; k < regions; k++) state[2 * k] -= (int64_t)state;
    return result;
}

_Noreturn __attribute__((used)) void begin(int64_t *stack) { leave(run((char **)(stack + 1))); }

__asm__(".global _start\n_start: mov x0, sp\n bl begin\n");
