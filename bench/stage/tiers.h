/* Tiers that this machine does not have, EMULATED by token buckets that all processes of a run share.
 *
 * Files lie in memory. A tier has a rate and a capacity; its device is free again when all bytes that it was given would
 * have passed. What is moved is read from the device that takes new values, as in Knarr's emulation. Programs that read
 * steps have buckets of their own, in all ways. The last tier is the place of the files.
 */
#ifndef TIERS_H
#define TIERS_H

enum { MOST_TIERS = 4, MOST_STEPS = 64, READING = 0, WRITING = 1 };

struct tiers {
    int tiers, has_ended;
    double rate[MOST_TIERS];
    long long capacity[MOST_TIERS], used[MOST_TIERS];
    double free_at[MOST_TIERS][2];
    /* Bytes of a step that wait in a tier, or have their place in the last one; and copies of what was moved since. */
    long long waits[MOST_STEPS][MOST_TIERS], kept[MOST_STEPS][MOST_TIERS];
};

double seconds(void);
void until(double when);
struct tiers *attach(const char *path);

/* A step of so many bytes is placed by its size, as Hermes does: in the fastest tier with room, and the rest below.
 * Returns when the devices have taken it if they began at `begin`; they work side by side. */
double place(struct tiers *tiers, int step, long long bytes, double begin);

/* The same for reading what lies where. */
double fetch(struct tiers *tiers, const long long *at, double begin);

/* Where a step is read: in the fastest tiers that have it. */
void found(const struct tiers *tiers, int step, long long at[MOST_TIERS]);

/* Moves what waits to the last tier, the oldest step first, until the program has ended and nothing waits. A copy stays
 * until its room is needed. */
void move_all(struct tiers *tiers);

#endif
