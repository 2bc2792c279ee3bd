#define _GNU_SOURCE
#include "tiers.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int locked_by;

double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void until(double when) {
    struct timespec at = {(time_t)when, (long)((when - (double)(time_t)when) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {}
}

struct tiers *attach(const char *path) {
    locked_by = open(path, O_RDWR | O_CLOEXEC);
    void *page = mmap(NULL, sizeof(struct tiers), PROT_READ | PROT_WRITE, MAP_SHARED, locked_by, 0);
    if (locked_by < 0 || page == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    return page;
}

static double later(double one, double other) { return one > other ? one : other; }

static double pass(struct tiers *tiers, int tier, int way, long long bytes, double begin) {
    double *free_at = &tiers->free_at[tier][way];
    if (tiers->rate[tier] > 0) *free_at = later(*free_at, begin) + (double)bytes / tiers->rate[tier];
    return later(*free_at, begin);
}

/* Gives up copies of what was moved, the oldest first. */
static long long room_for(struct tiers *tiers, int tier, long long bytes) {
    for (int step = 0; step < MOST_STEPS; step++) {
        long long lacks = bytes - (tiers->capacity[tier] - tiers->used[tier]), kept = tiers->kept[step][tier];
        long long part = lacks < kept ? lacks : kept;
        if (part <= 0) continue;
        tiers->kept[step][tier] -= part;
        tiers->used[tier] -= part;
    }
    return tiers->capacity[tier] - tiers->used[tier];
}

double place(struct tiers *tiers, int step, long long bytes, double begin) {
    double end = begin;
    flock(locked_by, LOCK_EX);
    for (int tier = 0; tier < tiers->tiers && bytes > 0; tier++) {
        long long room = room_for(tiers, tier, bytes);
        long long part = tier == tiers->tiers - 1 || bytes < room ? bytes : room;
        if (part <= 0) continue;
        tiers->used[tier] += part;
        tiers->waits[step][tier] += part;
        bytes -= part;
        end = later(end, pass(tiers, tier, WRITING, part, begin));
    }
    flock(locked_by, LOCK_UN);
    return end;
}

void found(const struct tiers *tiers, int step, long long at[MOST_TIERS]) {
    int last = tiers->tiers - 1;
    long long kept = 0;
    for (int tier = 0; tier < last; tier++) {
        at[tier] = tiers->waits[step][tier] + tiers->kept[step][tier];
        kept += tiers->kept[step][tier];
    }
    at[last] = tiers->waits[step][last] - kept;
}

double fetch(struct tiers *tiers, const long long *at, double begin) {
    double end = begin;
    flock(locked_by, LOCK_EX);
    for (int tier = 0; tier < tiers->tiers; tier++)
        if (at[tier] > 0) end = later(end, pass(tiers, tier, READING, at[tier], begin));
    flock(locked_by, LOCK_UN);
    return end;
}

/* Moves some bytes of the oldest step that waits, from `at` on, which becomes the end; false if none does. */
static int move_some(struct tiers *tiers, double *at) {
    const long long most = 1 << 20;
    int last = tiers->tiers - 1, moved = 0;
    flock(locked_by, LOCK_EX);
    for (int step = 0; step < MOST_STEPS && !moved; step++)
        for (int tier = 0; tier < last && !moved; tier++) {
            long long part = tiers->waits[step][tier] < most ? tiers->waits[step][tier] : most;
            if (part <= 0) continue;
            tiers->waits[step][tier] -= part;
            tiers->waits[step][last] += part;
            tiers->kept[step][tier] += part;
            double read = pass(tiers, tier, WRITING, part, *at);
            *at = later(read, pass(tiers, last, WRITING, part, *at));
            moved = 1;
        }
    flock(locked_by, LOCK_UN);
    return moved;
}

void move_all(struct tiers *tiers) {
    /* A device that has enough to do does not rest because its mover was woken late. */
    double at = seconds();
    for (;;) {
        int has_ended = tiers->has_ended, moved = move_some(tiers, &at);
        if (!moved && has_ended) return;
        until(moved ? at : seconds() + 0.01);
        if (!moved) at = seconds();
    }
}
