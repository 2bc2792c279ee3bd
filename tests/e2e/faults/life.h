/* The life of a file, as letters say it: one program for each library, which all do the same.
 *
 *     PROGRAM LETTERS ELEMENTS
 *
 * Each letter is a call of all ranks. Each rank notes what it did and what came back in KNARR_TOLD/RANK, a line for each call:
 * the number of the letter, the call, what it was about, and the code. Whoever reads that knows which values must be in the file.
 * The program goes on whatever fails, and ends with 0.
 *
 * c  creates the file, with a variable T that has a row for each step, and F that has one row
 * p  puts the rank's part of the next row of T, with all ranks together; P each rank for itself; n two rows, without waiting for
 *    each of them; r the first row once more; f that of F
 * s  syncs
 * g  gets the rank's own part of all rows; a all parts of all rows
 * x  closes; A gives the file up
 * d  adds definitions
 * o  opens the file to read, w to write as well
 * v  waits until the file is there, by its name
 * z  waits a moment
 * e  ends the library, where it has an end
 * q  rank 0 is killed
 * 1 to 9  from here on it is about the file of this number
 *
 * Each number tells where it belongs and which put it is from: see `number`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef END_LIBRARY
#define END_LIBRARY() 0
#endif

/* Each part of a row has so many numbers. */
static long part;
static int rank, size, told;
/* Rows that there are of T; whether the file is open. */
static int rows, is_open;
static char name[64] = "hist_1";

/* A library. Codes are 0 where the library says that all is well. `row` is -1 for F. */
static int make(void);
static int put(int row, const int *numbers, int together);
static int put_two(int row, const int *numbers, const int *behind);
static int get(int row, int owner, int *numbers);
static int sync_all(void);
static int end(void);
static int give_up(void);
static int define(void);
static int begin(int writes);
static int rows_of(void);
static const char *suffix(void);

static void say(const char *format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (write(told, line, (size_t)length) != length)
        abort();
}

/* What the injector of faults takes for the beginning and the end of what counts in this process. */
static void mark(int begins) {
    getpriority((__priority_which_t)0x6b6e61, (id_t)begins);
}

/* The number at a place of a row; `seed` is the number of the put, from 1. */
static int number(int seed, int row, long column) {
    return (int)((unsigned)seed << 22 | (unsigned)((row < 0 ? 0 : row * size * part) + column));
}

static int *numbers_of(int seed, int row) {
    int *numbers = malloc(sizeof *numbers * (size_t)part);
    for (long n = 0; n < part; n++)
        numbers[n] = number(seed, row, rank * part + n);
    return numbers;
}

/* Says which puts the numbers of a part are from: 0 for numbers that nobody has put there, -1 for those of other places. */
static void say_what_came(int letter, int row, int owner, int code, const int *numbers) {
    char seeds[256] = "";
    int last = -2, length = 0;
    for (long n = 0; code == 0 && n < part && length < 200; n++) {
        int seed = (int)((unsigned)numbers[n] >> 22), is_right = number(seed, row, owner * part + n) == numbers[n];
        seed = numbers[n] == 0 || numbers[n] == -2147483647 ? 0 : is_right && seed > 0 ? seed : -1;
        if (seed != last)
            length += snprintf(seeds + length, sizeof seeds - (size_t)length, " %d", seed);
        last = seed;
    }
    say("%d get %s %d %d %d%s\n", letter, name, row, owner, code, seeds);
}

static void get_all(int letter, int of_all) {
    int *numbers = malloc(sizeof *numbers * (size_t)part);
    int there = rows_of();
    for (int row = -1; row < there; row++)
        for (int owner = 0; owner < size; owner++) {
            /* All ranks get as often. */
            int whose = of_all ? owner : rank;
            if (!of_all && owner > 0)
                continue;
            memset(numbers, 0x77, sizeof *numbers * (size_t)part);
            int code = get(row, whose, numbers);
            say_what_came(letter, row, whose, code, numbers);
        }
    free(numbers);
}

static void await_name(void) {
    char path[128];
    snprintf(path, sizeof path, "%s%s", name, suffix());
    mark(0);
    for (int n = 0; n < 1000 && access(path, F_OK) != 0; n++)
        usleep(10000);
    mark(1);
}

static void live(const char *letters) {
    int seed = 0;
    for (int n = 0; letters[n]; n++) {
        int code = 0, row = rows, *numbers, *behind;
        char letter = letters[n];
        if (letter >= '1' && letter <= '9') {
            snprintf(name, sizeof name, "hist_%c", letter);
            rows = 0;
        } else if (letter == 'v') {
            await_name();
        } else if (letter == 'z') {
            usleep(300000);
        } else if (letter == 'c') {
            say("%d begins create %s\n", n, name);
            rows = 0;
            code = make();
            is_open = code == 0;
            say("%d create %s %d\n", n, name, code);
        } else if (letter == 'o' || letter == 'w') {
            say("%d begins open %s\n", n, name);
            code = begin(letter == 'w');
            is_open = code == 0;
            rows = is_open ? rows_of() : 0;
            say("%d open%s %s %d\n", n, letter == 'w' ? "w" : "", name, code);
        } else if (letter == 'e') {
            say("%d end %s %d\n", n, name, END_LIBRARY());
        } else if (letter == 'q') {
            if (rank == 0)
                raise(SIGKILL);
        } else if (!is_open) {
            say("%d skipped %c\n", n, letter);
        } else if (strchr("pPrf", letter)) {
            row = letter == 'f' ? -1 : letter == 'r' ? 0 : rows++;
            numbers = numbers_of(++seed, row);
            say("%d begins put %s %d %d %d\n", n, name, row, rank, seed);
            code = put(row, numbers, letter != 'P');
            say("%d put %s %d %d %d %d\n", n, name, row, rank, seed, code);
            free(numbers);
        } else if (letter == 'n') {
            rows += 2;
            numbers = numbers_of(++seed, row);
            behind = numbers_of(++seed, row + 1);
            for (int more = 0; more < 2; more++)
                say("%d begins put %s %d %d %d\n", n, name, row + more, rank, seed - 1 + more);
            code = put_two(row, numbers, behind);
            for (int more = 0; more < 2; more++)
                say("%d put %s %d %d %d %d\n", n, name, row + more, rank, seed - 1 + more, code);
            free(numbers);
            free(behind);
        } else if (letter == 's') {
            say("%d sync %s %d\n", n, name, sync_all());
        } else if (letter == 'd') {
            say("%d define %s %d\n", n, name, define());
        } else if (letter == 'g' || letter == 'a') {
            get_all(n, letter == 'a');
        } else if (letter == 'x' || letter == 'A') {
            say("%d begins %s %s\n", n, letter == 'x' ? "close" : "abort", name);
            code = letter == 'x' ? end() : give_up();
            is_open = 0;
            say("%d %s %s %d\n", n, letter == 'x' ? "close" : "abort", name, code);
        }
    }
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    part = atol(words[2]);
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", getenv("KNARR_TOLD"), rank);
    told = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    /* What libraries print is seen apart from what the launcher says. */
    snprintf(path, sizeof path, "%s/printed.%d", getenv("KNARR_TOLD"), rank);
    const char *elsewhere = getenv("KNARR_PRINTED");
    if (elsewhere)
        snprintf(path, sizeof path, "%s", elsewhere);
    int printed = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (told < 0 || printed < 0)
        return 2;
    fflush(stdout);
    dup2(printed, 1);
    dup2(printed, 2);
    close(printed);
    mark(1);
    live(words[1]);
    mark(0);
    say("%d ended\n", (int)strlen(words[1]));
    MPI_Finalize();
    return 0;
}
