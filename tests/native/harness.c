/* Runs a function of a freestanding library on a block of memory: harness LIBRARY FUNCTION BLOCK REGIONS WORDS.
   The first WORDS int64 of the block are the state; REGIONS pairs of words before all numbers are offsets in the block
   and lengths, which become addresses for the call and offsets again behind it. The block is written back; the
   exit code is what the function returned. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <elf.h>

static char *whole(const char *path, int64_t *size, int flags) {
    struct stat found;
    int file = open(path, O_RDWR);
    if (file < 0 || fstat(file, &found)) exit(101);
    *size = found.st_size;
    return mmap(0, found.st_size, PROT_READ | PROT_WRITE, flags, file, 0);
}

int main(int count, char **words) {
    int64_t size, block_size;
    char *data = whole(words[1], &size, MAP_PRIVATE);
    Elf64_Ehdr *head = (Elf64_Ehdr *)data;
    Elf64_Phdr *parts = (Elf64_Phdr *)(data + head->e_phoff);
    char *image = mmap(0, 1 << 22, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Elf64_Dyn *dynamic = 0;
    for (int k = 0; k < head->e_phnum; k++) {
        if (parts[k].p_type == PT_LOAD) memcpy(image + parts[k].p_vaddr, data + parts[k].p_offset, parts[k].p_filesz);
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
    __builtin___clear_cache(image, image + (1 << 22));
    int64_t (*function)(int64_t, int64_t) = 0;
    for (uint32_t k = 0; k < hash[1]; k++)
        if (!strcmp(names + symbols[k].st_name, words[2])) function = (void *)(image + symbols[k].st_value);
    if (!function) return 103;
    int64_t *state = (int64_t *)whole(words[3], &block_size, MAP_SHARED);
    int regions = atoi(words[4]);
    for (int k = 0; k < regions; k++) state[2 * k] += (int64_t)state;
    int64_t result = function((int64_t)state, atoll(words[5]));
    for (int k = 0; k < regions; k++) state[2 * k] -= (int64_t)state;
    return (int)result;
}
