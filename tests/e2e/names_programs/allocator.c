/* An allocator that opens files as it begins, as jemalloc does, and that cannot begin twice. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char *room, *end;

static void *get(size_t size, size_t alignment)
{
    static int begins;
    if (room == NULL) {
        if (begins++)
            _exit(98);
        struct stat found;
        char text[64];
        int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            read(file, text, sizeof text);
            close(file);
        }
        file = openat(AT_FDCWD, "/proc/self/maps", O_RDONLY);
        close(file);
        readlink("/etc/malloc.conf", text, sizeof text);
        access("/etc/malloc.conf", R_OK);
        lstat("/etc/malloc.conf", &found);
        size_t all = (size_t)8 << 30;
        char *start = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED)
            _exit(97);
        end = start + all;
        room = start;
    }
    /* The size lies before the memory. */
    size_t align = alignment < 16 ? 16 : alignment;
    char *mine, *next, *old = __atomic_load_n(&room, __ATOMIC_SEQ_CST);
    do {
        mine = (char *)(((size_t)old + 16 + align - 1) / align * align);
        next = mine + size;
        if (next > end)
            return NULL;
    } while (!__atomic_compare_exchange_n(&room, &old, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    ((size_t *)mine)[-1] = size;
    return mine;
}

void *malloc(size_t size) { return get(size, 16); }
void free(void *memory) { }
void *calloc(size_t count, size_t size) { return get(count * size, 16); }
void *memalign(size_t alignment, size_t size) { return get(size, alignment); }
void *aligned_alloc(size_t alignment, size_t size) { return get(size, alignment); }

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    *memory = get(size, alignment);
    return *memory == NULL ? 12 : 0;
}

void *realloc(void *memory, size_t size)
{
    void *other = get(size, 16);
    if (memory != NULL && other != NULL) {
        size_t old = ((size_t *)memory)[-1];
        memcpy(other, memory, old < size ? old : size);
    }
    return other;
}
