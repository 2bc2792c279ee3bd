/* Runs a command in which one system call fails, as on a full disk or in a process that is killed: the calls of all processes of the
 * command are answered by this one, which lets all go on but the chosen one.
 *
 *     fault LOG [KEY=VALUE]... -- COMMAND [ARGUMENT]...
 *
 * COMMAND keeps this process: its number, its parent and its exit code are those of this program. The calls come by a seccomp
 * filter that notifies. So calls are seen that go past the C library, and those of the loader and of static programs, too.
 *
 * calls=NAME,NAME  calls that count; without it, those that make outputs durable; "all" for every one in the table
 * exe=TEXT         only calls of processes whose executable has the text in its name
 * arg=WORD         only of those whose first argument it is
 * env=NAME=VALUE   only of those that began with this in their environment
 * below=TEXT       only calls about places with the text; several mean any of them
 * not=TEXT         no calls about places with the text; may come several times
 * marked=1         in processes with a mark, only calls behind mark(1) and before mark(0) there: see MARK
 * number=N         the call that fails, from 1; without it, none does
 * last=N           all up to this one fail; 0 for all that follow
 * do=ERRNO         how it fails; 0 to have it done in part (writes and reads), -1 to kill its process before it is made, -2 to have
 *                  it done in part and the next one that counts fail with ENOSPC
 * kernel=RELEASE   what uname(2) says instead of the real one
 *
 * LOG gets a line for each call that counts, its name and its place, before the call is made; a "!" precedes those that fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* getpriority(MARK, 1) begins what counts in a process, getpriority(MARK, 0) ends it. The kernel refuses both. */
#define MARK 0x6b6e61
/* SECCOMP_IOCTL_NOTIF_SET_FLAGS of newer headers, whose only flag is SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP. */
#define SET_FLAGS _IOW('!', 4, uint64_t)
#define MOST_TEXTS 16
#define MOST_PROCESSES 4096

enum about { PATH, AT, TWO_PATHS, TWO_AT, LINK, LINK_AT, DESCRIPTOR, SECOND, MAPPED, ADDRESS, SENT, MESSAGE, SPAWN, NONE };

static const struct {
    int number;
    const char *name;
    enum about about;
    int is_durable;
} CALLS[] = {
    {SYS_write, "write", DESCRIPTOR, 1},
    {SYS_pwrite64, "pwrite", DESCRIPTOR, 1},
    {SYS_writev, "writev", DESCRIPTOR, 1},
    {SYS_pwritev, "pwritev", DESCRIPTOR, 1},
    {SYS_fsync, "fsync", DESCRIPTOR, 1},
    {SYS_fdatasync, "fdatasync", DESCRIPTOR, 1},
    {SYS_syncfs, "syncfs", DESCRIPTOR, 1},
    {SYS_sync_file_range, "sync_file_range", DESCRIPTOR, 1},
    {SYS_fallocate, "fallocate", DESCRIPTOR, 1},
    {SYS_ftruncate, "ftruncate", DESCRIPTOR, 1},
    {SYS_sendfile, "sendfile", DESCRIPTOR, 1},
    {SYS_copy_file_range, "copy_file_range", SECOND, 1},
#ifdef SYS_rename
    {SYS_rename, "rename", TWO_PATHS, 1},
    {SYS_link, "link", TWO_PATHS, 0},
    {SYS_symlink, "symlink", LINK, 0},
    {SYS_unlink, "unlink", PATH, 0},
    {SYS_rmdir, "rmdir", PATH, 0},
    {SYS_mkdir, "mkdir", PATH, 0},
    {SYS_open, "open", PATH, 0},
    {SYS_creat, "creat", PATH, 0},
    {SYS_stat, "stat", PATH, 0},
    {SYS_lstat, "lstat", PATH, 0},
    {SYS_access, "access", PATH, 0},
    {SYS_readlink, "readlink", PATH, 0},
    {SYS_chmod, "chmod", PATH, 0},
    {SYS_fork, "fork", SPAWN, 0},
    {SYS_vfork, "vfork", SPAWN, 0},
    {SYS_pipe, "pipe", NONE, 0},
#endif
    {SYS_renameat, "renameat", TWO_AT, 1},
    {SYS_renameat2, "renameat2", TWO_AT, 1},
    {SYS_linkat, "linkat", TWO_AT, 0},
    {SYS_symlinkat, "symlinkat", LINK_AT, 0},
    {SYS_unlinkat, "unlinkat", AT, 0},
    {SYS_mkdirat, "mkdirat", AT, 0},
    {SYS_openat, "openat", AT, 0},
    {SYS_statx, "statx", AT, 0},
    {SYS_newfstatat, "newfstatat", AT, 0},
    {SYS_faccessat, "faccessat", AT, 0},
    {SYS_faccessat2, "faccessat2", AT, 0},
    {SYS_readlinkat, "readlinkat", AT, 0},
    {SYS_fchmodat, "fchmodat", AT, 0},
    {SYS_fchownat, "fchownat", AT, 0},
    {SYS_utimensat, "utimensat", AT, 0},
    {SYS_truncate, "truncate", PATH, 0},
    {SYS_statfs, "statfs", PATH, 0},
    {SYS_fchmod, "fchmod", DESCRIPTOR, 0},
    {SYS_fchown, "fchown", DESCRIPTOR, 0},
    {SYS_fstatfs, "fstatfs", DESCRIPTOR, 0},
    {SYS_getdents64, "getdents64", DESCRIPTOR, 0},
    {SYS_flock, "flock", DESCRIPTOR, 0},
    {SYS_read, "read", DESCRIPTOR, 0},
    {SYS_pread64, "pread", DESCRIPTOR, 0},
    {SYS_readv, "readv", DESCRIPTOR, 0},
    {SYS_preadv, "preadv", DESCRIPTOR, 0},
    {SYS_mmap, "mmap", MAPPED, 0},
    {SYS_socket, "socket", NONE, 0},
    {SYS_socketpair, "socketpair", NONE, 0},
    {SYS_bind, "bind", ADDRESS, 0},
    {SYS_connect, "connect", ADDRESS, 0},
    {SYS_listen, "listen", DESCRIPTOR, 0},
    {SYS_accept, "accept", DESCRIPTOR, 0},
    {SYS_accept4, "accept4", DESCRIPTOR, 0},
    {SYS_sendto, "sendto", SENT, 0},
    {SYS_sendmsg, "sendmsg", MESSAGE, 0},
    {SYS_recvfrom, "recvfrom", DESCRIPTOR, 0},
    {SYS_recvmsg, "recvmsg", DESCRIPTOR, 0},
    {SYS_pipe2, "pipe2", NONE, 0},
    {SYS_memfd_create, "memfd_create", NONE, 0},
    {SYS_dup, "dup", DESCRIPTOR, 0},
    {SYS_clone, "clone", SPAWN, 0},
    {SYS_clone3, "clone3", SPAWN, 0},
    {SYS_execve, "execve", PATH, 0},
    {SYS_futex, "futex", NONE, 0},
};
#define CALL_COUNT (sizeof CALLS / sizeof *CALLS)

static struct {
    char counts[CALL_COUNT];
    const char *exe, *arg, *env, *kernel, *below[MOST_TEXTS], *not[MOST_TEXTS];
    int is_marked, action;
    uint64_t number, last;
} rule = {.last = 1, .action = EIO};

struct process {
    pid_t id;
    int is_victim, is_marked, has_mark;
};
static struct process processes[MOST_PROCESSES];
static size_t process_count;
static int logged;

static void fail(const char *what) {
    fprintf(stderr, "fault: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static void check(int done, const char *what) {
    if (!done)
        fail(what);
}

/* What a file of /proc/PROCESS holds, or where it leads. Returns its length. */
static size_t told(pid_t id, const char *name, char *room, size_t size, int is_link) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", id, name);
    size_t length = 0;
    if (is_link) {
        ssize_t got = readlink(path, room, size - 1);
        length = got > 0 ? (size_t)got : 0;
    } else {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = 0;
        while (file >= 0 && length < size - 1 && (got = read(file, room + length, size - 1 - length)) > 0)
            length += (size_t)got;
        if (file >= 0)
            close(file);
    }
    room[length] = 0;
    return length;
}

static int has_word(const char *words, size_t length, const char *word) {
    for (const char *at = words; at < words + length; at += strlen(at) + 1)
        if (strcmp(at, word) == 0)
            return 1;
    return 0;
}

static int is_victim(pid_t id) {
    static char room[1 << 17];
    if (rule.exe && (told(id, "exe", room, sizeof room, 1), !strstr(room, rule.exe)))
        return 0;
    if (rule.arg) {
        size_t length = told(id, "cmdline", room, sizeof room, 0), first = strlen(room) + 1;
        if (first >= length || strcmp(room + first, rule.arg) != 0)
            return 0;
    }
    return !rule.env || has_word(room, told(id, "environ", room, sizeof room, 0), rule.env);
}

/* The process of a thread; another program that it executes is looked at anew. */
static struct process *process_of(pid_t thread, int executes) {
    static char room[4096];
    static pid_t last_thread, last_process;
    if (thread != last_thread) {
        told(thread, "status", room, sizeof room, 0);
        const char *at = strstr(room, "\nTgid:");
        last_process = at ? atoi(at + 6) : thread;
        last_thread = thread;
    }
    size_t n = 0;
    while (n < process_count && processes[n].id != last_process)
        n++;
    if (n == process_count) {
        if (process_count < MOST_PROCESSES - 1)
            process_count++;
        processes[n] = (struct process){last_process, is_victim(last_process), 0, 0};
    }
    if (executes) {
        /* Thread numbers are given again, too. */
        processes[n].id = last_thread = 0;
    }
    return &processes[n];
}

/* Copies up to `length` bytes of a process. Returns how many. */
static size_t copied(pid_t id, uint64_t from, void *to, size_t length) {
    struct iovec here = {to, length}, there = {(void *)(uintptr_t)from, length};
    ssize_t got = process_vm_readv(id, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

static void text_at(pid_t id, uint64_t from, char *room, size_t size) {
    size_t length = 0;
    /* A page at a time: what lies behind the text may not be there. */
    while (length < size - 1) {
        size_t part = 4096 - (from + length) % 4096;
        part = part < size - 1 - length ? part : size - 1 - length;
        size_t got = copied(id, from + length, room + length, part);
        if (got == 0 || memchr(room + length, 0, got)) {
            length += strnlen(room + length, got);
            break;
        }
        length += got;
    }
    room[length] = 0;
}

static void descriptor_at(pid_t id, int64_t descriptor, char *room, size_t size) {
    char name[32];
    if ((int)descriptor == AT_FDCWD)
        snprintf(name, sizeof name, "cwd");
    else
        snprintf(name, sizeof name, "fd/%d", (int)descriptor);
    told(id, name, room, size, 1);
    if (strncmp(room, "socket:", 7) == 0)
        room[6] = 0;
}

static void path_at(pid_t id, int64_t directory, uint64_t from, char *room, size_t size) {
    static char name[4096];
    text_at(id, from, name, sizeof name);
    if (name[0] == '/') {
        snprintf(room, size, "%s", name);
        return;
    }
    descriptor_at(id, directory, room, size);
    size_t length = strlen(room);
    if (name[0] != 0)
        snprintf(room + length, size - length, "/%s", name);
}

static void address_at(pid_t id, uint64_t from, uint64_t length, char *room, size_t size) {
    struct sockaddr_storage address = {0};
    copied(id, from, &address, length < sizeof address ? length : sizeof address);
    if (address.ss_family == AF_UNIX) {
        const char *path = ((struct sockaddr_un *)&address)->sun_path;
        snprintf(room, size, "socket %s", path[0] ? path : path + 1);
    } else if (address.ss_family == AF_INET || address.ss_family == AF_INET6) {
        snprintf(room, size, "socket port %d", ntohs(((struct sockaddr_in *)&address)->sin_port));
    } else {
        snprintf(room, size, "socket");
    }
}

/* What a call is about, in words. */
static void place_of(enum about about, pid_t id, const __u64 *a, int number, char *room, size_t size) {
    size_t length;
    room[0] = 0;
    switch (about) {
    case PATH:
        path_at(id, AT_FDCWD, a[0], room, size);
        return;
    case AT:
        path_at(id, (int64_t)a[0], a[1], room, size);
        return;
    case TWO_PATHS:
        path_at(id, AT_FDCWD, a[0], room, size / 2);
        length = strlen(room);
        length += (size_t)snprintf(room + length, 8, " -> ");
        path_at(id, AT_FDCWD, a[1], room + length, size - length);
        return;
    case TWO_AT:
        path_at(id, (int64_t)a[0], a[1], room, size / 2);
        length = strlen(room);
        length += (size_t)snprintf(room + length, 8, " -> ");
        path_at(id, (int64_t)a[2], a[3], room + length, size - length);
        return;
    case LINK:
        path_at(id, AT_FDCWD, a[1], room, size);
        return;
    case LINK_AT:
        path_at(id, (int64_t)a[1], a[2], room, size);
        return;
    case DESCRIPTOR:
    case SECOND:
        descriptor_at(id, (int64_t)a[about == SECOND ? 2 : 0], room, size);
        return;
    case MAPPED:
        if ((int)a[4] < 0)
            snprintf(room, size, "no file");
        else
            descriptor_at(id, (int64_t)a[4], room, size);
        return;
    case ADDRESS:
        address_at(id, a[1], a[2], room, size);
        return;
    case SENT:
        if (a[4])
            address_at(id, a[4], a[5], room, size);
        else
            descriptor_at(id, (int64_t)a[0], room, size);
        return;
    case MESSAGE: {
        struct msghdr head = {0};
        copied(id, a[1], &head, sizeof head);
        if (head.msg_name)
            address_at(id, (uint64_t)(uintptr_t)head.msg_name, head.msg_namelen, room, size);
        else
            descriptor_at(id, (int64_t)a[0], room, size);
        return;
    }
    case SPAWN: {
        uint64_t flags = number == SYS_clone ? a[0] : 0;
        if (number == SYS_clone3)
            copied(id, a[0], &flags, sizeof flags);
        snprintf(room, size, flags & CLONE_THREAD ? "new thread" : "new process");
        return;
    }
    case NONE:
        snprintf(room, size, "no name");
    }
}

static int is_about(const char *place) {
    int is_below = rule.below[0] == NULL;
    for (size_t n = 0; rule.below[n] && !is_below; n++)
        is_below = strstr(place, rule.below[n]) != NULL;
    for (size_t n = 0; rule.not[n]; n++)
        if (strstr(place, rule.not[n]))
            return 0;
    return is_below;
}

/* Does half of a write or a read in the place of the process. Returns its result, or 0 if it cannot be halved: not even half of it
 * is sure not to wait. */
static int64_t halved(struct seccomp_notif *notice, pid_t id) {
    static char bytes[1 << 20];
    const __u64 *a = notice->data.args;
    int number = notice->data.nr;
    int is_vector = number == SYS_writev || number == SYS_pwritev || number == SYS_readv || number == SYS_preadv;
    int is_message = number == SYS_sendmsg || number == SYS_recvmsg;
    int reads = number == SYS_read || number == SYS_pread64 || number == SYS_readv || number == SYS_preadv ||
                number == SYS_recvfrom || number == SYS_recvmsg;
    uint64_t at = a[1], length = a[2], vector = a[1];
    if (is_message) {
        struct msghdr head = {0};
        if (copied(notice->pid, a[1], &head, sizeof head) < sizeof head || head.msg_control || head.msg_name)
            return 0;
        vector = (uint64_t)(uintptr_t)head.msg_iov;
    }
    if (is_vector || is_message) {
        struct iovec first = {0};
        copied(notice->pid, vector, &first, sizeof first);
        at = (uint64_t)(uintptr_t)first.iov_base;
        length = first.iov_len;
    }
    length = length / 2 < sizeof bytes ? length / 2 : sizeof bytes;
    if (length == 0 || (number == SYS_sendto && a[4]))
        return 0;
    int process = (int)syscall(SYS_pidfd_open, id, 0);
    int file = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, (int)a[0], 0);
    if (process >= 0)
        close(process);
    struct pollfd waits = {.fd = file, .events = reads ? POLLIN : POLLOUT};
    int64_t done = 0;
    if (file >= 0 && poll(&waits, 1, 0) > 0 && (reads || copied(notice->pid, at, bytes, length) == length)) {
        int has_place = number == SYS_pwrite64 || number == SYS_pread64 || number == SYS_pwritev || number == SYS_preadv;
        int is_socket = number == SYS_sendto || number == SYS_recvfrom || is_message;
        if (reads)
            done = is_socket ? recv(file, bytes, length, 0) : has_place ? pread(file, bytes, length, (off_t)a[3])
                                                                        : read(file, bytes, length);
        else
            done = is_socket ? send(file, bytes, length, MSG_NOSIGNAL) : has_place ? pwrite(file, bytes, length, (off_t)a[3])
                                                                                   : write(file, bytes, length);
        if (reads && done > 0) {
            struct iovec here = {bytes, (size_t)done}, there = {(void *)(uintptr_t)at, (size_t)done};
            process_vm_writev(notice->pid, &here, 1, &there, 1, 0);
        }
        if (done < 0)
            done = -errno;
    }
    if (file >= 0)
        close(file);
    return done;
}

static void answer(int listener, struct seccomp_notif *notice) {
    static char place[16384];
    struct seccomp_notif_resp response = {.id = notice->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    int number = notice->data.nr;
    const __u64 *a = notice->data.args;
    struct process *process = process_of((pid_t)notice->pid, number == SYS_execve || number == SYS_execveat);
    pid_t id = process->id ? process->id : (pid_t)notice->pid;
    if (number == SYS_getpriority && a[0] == MARK) {
        process->is_marked = a[1] != 0;
        process->has_mark = 1;
    }
    if (number == SYS_uname && rule.kernel) {
        struct utsname names;
        uname(&names);
        memset(names.release, 0, sizeof names.release);
        strncpy(names.release, rule.kernel, sizeof names.release - 1);
        struct iovec here = {&names, sizeof names}, there = {(void *)(uintptr_t)a[0], sizeof names};
        process_vm_writev(notice->pid, &here, 1, &there, 1, 0);
        response.flags = 0;
    }
    size_t n = 0;
    while (n < CALL_COUNT && CALLS[n].number != number)
        n++;
    if (n < CALL_COUNT && rule.counts[n] && process->is_victim && (!rule.is_marked || process->is_marked)) {
        place_of(CALLS[n].about, (pid_t)notice->pid, a, number, place, sizeof place);
        if (is_about(place)) {
            static uint64_t count;
            count++;
            int fails = rule.number > 0 && count >= rule.number && (rule.last == 0 || count <= rule.last);
            int is_rest = rule.action == -2 && rule.number > 0 && count == rule.number + 1;
            if (is_rest) {
                response.error = -ENOSPC;
                fails = 1;
            } else if (fails && (rule.action == 0 || rule.action == -2)) {
                response.val = halved(notice, id);
                fails = response.val != 0;
                if (response.val < 0) {
                    response.error = (int)response.val;
                    response.val = 0;
                }
            } else if (fails && rule.action > 0) {
                response.error = -rule.action;
            }
            if (fails)
                response.flags = 0;
            dprintf(logged, "%s%s %s\n", fails ? "!" : "", CALLS[n].name, place);
            if (fails && rule.action == -1) {
                kill(id, SIGKILL);
                response.error = -EIO;
            }
        }
    }
    /* It may have been killed meanwhile. */
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0 && errno != ENOENT && errno != EINPROGRESS)
        dprintf(logged, "? answer: %s\n", strerror(errno));
}

static void serve(int listener) {
    struct seccomp_notif notice;
    /* The two never run at the same time: kernels that know this keep them on one core, which is faster. */
    ioctl(listener, SET_FLAGS, 1);
    struct pollfd waits = {.fd = listener, .events = POLLIN};
    for (;;) {
        if (poll(&waits, 1, -1) < 0 && errno != EINTR)
            return;
        if (waits.revents & POLLHUP)
            return;
        memset(&notice, 0, sizeof notice);
        if (waits.revents & POLLIN && ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notice) == 0)
            answer(listener, &notice);
    }
}

/* Calls that come to `serve`: those that count, and what else it has to know. */
static int filtered(void) {
    struct sock_filter filter[16 + 2 * CALL_COUNT], *end = filter;
    int more[] = {SYS_execve, SYS_execveat, rule.is_marked ? SYS_getpriority : -1, rule.kernel ? SYS_uname : -1};
    *end++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t n = 0; n < CALL_COUNT + sizeof more / sizeof *more; n++) {
        int number = n < CALL_COUNT ? (rule.counts[n] ? CALLS[n].number : -1) : more[n - CALL_COUNT];
        if (number < 0)
            continue;
        *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
        *end++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    *end++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = (unsigned short)(end - filter), .filter = filter};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    check(listener >= 0, "seccomp");
    return listener;
}

static void choose(char *names) {
    int is_all = names && strcmp(names, "all") == 0;
    for (size_t n = 0; n < CALL_COUNT; n++)
        rule.counts[n] = (char)(is_all || (!names && CALLS[n].is_durable));
    for (char *name = is_all ? NULL : names ? strtok(names, ",") : NULL; name; name = strtok(NULL, ",")) {
        size_t n = 0;
        while (n < CALL_COUNT && strcmp(CALLS[n].name, name) != 0)
            n++;
        errno = EINVAL;
        check(n < CALL_COUNT, name);
        rule.counts[n] = 1;
    }
}

static void add(const char **texts, const char *text) {
    size_t n = 0;
    while (texts[n])
        n++;
    errno = E2BIG;
    check(n < MOST_TEXTS - 1, text);
    texts[n] = text;
}

static char **read_rule(char **word) {
    char *calls = NULL;
    for (; *word && strcmp(*word, "--") != 0; word++) {
        char *value = strchr(*word, '=');
        errno = EINVAL;
        check(value != NULL, *word);
        *value++ = 0;
        if (strcmp(*word, "calls") == 0) calls = value;
        else if (strcmp(*word, "exe") == 0) rule.exe = value;
        else if (strcmp(*word, "arg") == 0) rule.arg = value;
        else if (strcmp(*word, "env") == 0) rule.env = value;
        else if (strcmp(*word, "kernel") == 0) rule.kernel = value;
        else if (strcmp(*word, "below") == 0) add(rule.below, value);
        else if (strcmp(*word, "not") == 0) add(rule.not, value);
        else if (strcmp(*word, "marked") == 0) rule.is_marked = atoi(value);
        else if (strcmp(*word, "number") == 0) rule.last = rule.number = strtoull(value, NULL, 10);
        else if (strcmp(*word, "last") == 0) rule.last = strtoull(value, NULL, 10);
        else if (strcmp(*word, "do") == 0) rule.action = atoi(value);
        else check(0, *word);
    }
    choose(calls);
    errno = EINVAL;
    check(*word && word[1], "no command");
    return word + 1;
}

int main(int count, char **words) {
    errno = EINVAL;
    check(count > 2, "usage: fault LOG [KEY=VALUE]... -- COMMAND [ARGUMENT]...");
    logged = open(words[1], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    check(logged >= 0, words[1]);
    char **command = read_rule(words + 2);
    /* The one that answers is nobody's child. It has the same descriptors until the command begins, and then its own: so it has
     * the listener, which a process gets that is filtered itself. */
    int *listener = mmap(NULL, sizeof *listener, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(listener != MAP_FAILED, "mmap");
    pid_t first = getpid();
    struct clone_args shared = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
    pid_t between = (pid_t)syscall(SYS_clone3, &shared, sizeof shared);
    check(between >= 0, "clone");
    if (between == 0) {
        pid_t serves = (pid_t)syscall(SYS_clone3, &shared, sizeof shared);
        if (serves != 0)
            _exit(serves < 0);
        setsid();
        signal(SIGPIPE, SIG_IGN);
        /* The first call behind the filter may be one that counts, so nothing is called to say that it is there. */
        while (__atomic_load_n(listener, __ATOMIC_SEQ_CST) == 0)
            if (usleep(100), kill(first, 0) != 0)
                _exit(0);
        unshare(CLONE_FILES);
        /* What the command prints ends with the command. */
        for (int n = 0; n < 3; n++)
            dup2(logged, n);
        serve(*listener);
        _exit(0);
    }
    int status;
    check(waitpid(between, &status, 0) == between && status == 0, "fork");
    __atomic_store_n(listener, filtered(), __ATOMIC_SEQ_CST);
    execvp(command[0], command);
    fail(command[0]);
}
