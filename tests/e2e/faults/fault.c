/* Makes one system call of a program fail, as a full disk or a failing one would: LD_PRELOAD this.
 *
 * Calls are caught by a seccomp filter, so those that go past the C library are caught, too. Its signal handler makes every call
 * itself from one page of code that the filter lets through; only the chosen call is answered with an error instead. Programs
 * that this one starts inherit the filter and load this library as well. All count in one file.
 *
 * KNARR_FAULT_BELOW   calls count that are about paths with this text
 * KNARR_FAULT_AT      number of the call that fails, from 1; 0 for none
 * KNARR_FAULT_ERRNO   how
 * KNARR_FAULT_KERNEL  release that uname(2) names instead of the real one; may be absent
 * KNARR_FAULT_COUNT   file of COUNT_BYTES bytes: the number of calls, then name and path of the one that failed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <ucontext.h>
#include <unistd.h>

#define COUNT_BYTES 4096
/* The same in every process: the filter of the first one holds for all. */
#define GATE ((char *)0x100000000000)
#define PAGE 4096

typedef long call_t(long number, long a, long b, long c, long d, long e, long f);

#if defined(__x86_64__)
__asm__(".text\ncode_begin:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nmov %r8, %r10\nmov %r9, %r8\nmov 8(%rsp), %r9\n"
        "syscall\nret\ncode_end:\n");
#elif defined(__aarch64__)
__asm__(".text\ncode_begin:\n"
        "mov x8, x0\nmov x0, x1\nmov x1, x2\nmov x2, x3\nmov x3, x4\nmov x4, x5\nmov x5, x6\nsvc #0\nret\ncode_end:\n");
#else
#error "this machine's calls are not known"
#endif
extern char code_begin[], code_end[];

enum about { DESCRIPTOR, TWO_PATHS, TWO_AT, SECOND_DESCRIPTOR };

static const struct {
    int number;
    enum about about;
    const char *name;
} CALLS[] = {
    {SYS_write, DESCRIPTOR, "write"},
    {SYS_pwrite64, DESCRIPTOR, "pwrite"},
    {SYS_writev, DESCRIPTOR, "writev"},
    {SYS_pwritev, DESCRIPTOR, "pwritev"},
    {SYS_fsync, DESCRIPTOR, "fsync"},
    {SYS_fdatasync, DESCRIPTOR, "fdatasync"},
    {SYS_syncfs, DESCRIPTOR, "syncfs"},
    {SYS_sync_file_range, DESCRIPTOR, "sync_file_range"},
    {SYS_fallocate, DESCRIPTOR, "fallocate"},
    {SYS_ftruncate, DESCRIPTOR, "ftruncate"},
    {SYS_sendfile, DESCRIPTOR, "sendfile"},
    {SYS_copy_file_range, SECOND_DESCRIPTOR, "copy_file_range"},
#ifdef SYS_rename
    {SYS_rename, TWO_PATHS, "rename"},
#endif
    {SYS_renameat, TWO_AT, "renameat"},
    {SYS_renameat2, TWO_AT, "renameat2"},
};
#define CALL_COUNT (sizeof CALLS / sizeof *CALLS)

static struct {
    uint64_t calls;
    char failed[COUNT_BYTES - sizeof(uint64_t)];
} *shared;
static const char *below;
static uint64_t at;
static int error;
static const char *kernel;

static long call(long number, long a, long b, long c, long d, long e, long f) {
    return ((call_t *)(uintptr_t)GATE)(number, a, b, c, d, e, f);
}

/* The path that a call is about, if it counts. */
static const char *path_of(enum about about, const long *arguments, char *room, size_t size) {
    if (about == TWO_PATHS || about == TWO_AT) {
        const char *from = (const char *)arguments[about == TWO_AT ? 1 : 0];
        const char *to = (const char *)arguments[about == TWO_AT ? 3 : 1];
        return strstr(to, below) ? to : strstr(from, below) ? from : NULL;
    }
    char link[32] = "/proc/self/fd/", digits[16];
    long descriptor = arguments[about == SECOND_DESCRIPTOR ? 2 : 0];
    size_t length = strlen(link), n = 0;
    if (descriptor < 0)
        return NULL;
    do
        digits[n++] = (char)('0' + descriptor % 10);
    while ((descriptor /= 10) > 0);
    while (n > 0)
        link[length++] = digits[--n];
    long found = call(SYS_readlinkat, AT_FDCWD, (long)link, (long)room, (long)size - 1, 0, 0);
    if (found < 0)
        return NULL;
    room[found] = 0;
    return strstr(room, below) ? room : NULL;
}

static void answer(int signal, siginfo_t *info, void *context) {
    (void)signal;
    ucontext_t *state = context;
#if defined(__x86_64__)
    greg_t *g = state->uc_mcontext.gregs;
    long a[] = {g[REG_RDI], g[REG_RSI], g[REG_RDX], g[REG_R10], g[REG_R8], g[REG_R9]};
#else
    unsigned long long *g = state->uc_mcontext.regs;
    long a[] = {(long)g[0], (long)g[1], (long)g[2], (long)g[3], (long)g[4], (long)g[5]};
#endif
    long result;
    char room[2048];
    const char *path = NULL, *name = "";
    for (size_t i = 0; i < CALL_COUNT && path == NULL; i++)
        if (CALLS[i].number == info->si_syscall) {
            name = CALLS[i].name;
            path = path_of(CALLS[i].about, a, room, sizeof room);
        }
    if (path != NULL && __atomic_add_fetch(&shared->calls, 1, __ATOMIC_SEQ_CST) == at) {
        size_t length = strlen(name), rest = strnlen(path, sizeof shared->failed - 32);
        memcpy(shared->failed, name, length);
        shared->failed[length] = ' ';
        memcpy(shared->failed + length + 1, path, rest);
        result = -error;
    } else {
        result = call(info->si_syscall, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    if (info->si_syscall == SYS_uname && result == 0) {
        struct utsname *answered = (struct utsname *)a[0];
        memcpy(answered->release, kernel, strnlen(kernel, sizeof answered->release - 1) + 1);
    }
#if defined(__x86_64__)
    g[REG_RAX] = result;
#else
    g[0] = (unsigned long long)result;
#endif
}

static const char *setting(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) {
        fprintf(stderr, "fault: %s is not set\n", name);
        _exit(99);
    }
    return value;
}

static void check(int done, const char *what) {
    if (!done) {
        perror(what);
        _exit(99);
    }
}

__attribute__((constructor)) static void begin(void) {
    below = strdup(setting("KNARR_FAULT_BELOW"));
    at = strtoull(setting("KNARR_FAULT_AT"), NULL, 10);
    error = atoi(setting("KNARR_FAULT_ERRNO"));
    kernel = getenv("KNARR_FAULT_KERNEL") ? strdup(getenv("KNARR_FAULT_KERNEL")) : NULL;
    int file = open(setting("KNARR_FAULT_COUNT"), O_RDWR | O_CLOEXEC);
    check(file >= 0, "fault: count");
    shared = mmap(NULL, COUNT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(shared != MAP_FAILED, "fault: mmap");
    close(file);

    char *gate = mmap(GATE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    check(gate == GATE, "fault: gate");
    memcpy(gate, code_begin, (size_t)(code_end - code_begin));
    check(mprotect(gate, PAGE, PROT_READ | PROT_EXEC) == 0, "fault: mprotect");
    __builtin___clear_cache(gate, gate + PAGE);

    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    check(sigaction(SIGSYS, &action, NULL) == 0, "fault: sigaction");

    /* Calls from the gate and calls that are not in the list go through. */
    struct sock_filter filter[10 + 2 * CALL_COUNT], *end = filter;
    const uint32_t high = (uint32_t)((uint64_t)GATE >> 32), low = (uint32_t)(uint64_t)GATE;
    const size_t pointer = offsetof(struct seccomp_data, instruction_pointer);
    *end++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, pointer + 4);
    *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 4);
    *end++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, pointer);
    *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, low, 0, 2);
    *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, low + PAGE, 1, 0);
    *end++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    *end++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALL_COUNT; i++) {
        *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)CALLS[i].number, 0, 1);
        *end++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    }
    if (kernel != NULL) {
        *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 0, 1);
        *end++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    }
    *end++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = (unsigned short)(end - filter), .filter = filter};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "fault: no_new_privs");
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "fault: seccomp");
}
