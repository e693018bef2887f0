/* A peer as a process of its own, in C or C++: the work, the clocks and the protocol. Each peer adds its arms.
 *
 * Requests come one a line on standard input, answers go one a line to standard output:
 *   version                 what was compiled, with what
 *   cell N                  then N items as raw bytes; answers ok
 *   run ARM WARM_UP CALLS EACH GAP_NS REST_NS IDLE_NS
 *        answers CPU_NS REST_CPU_NS IDLE_CPU_NS CHECKSUM, then the nanoseconds of each call (EACH = 1) or of all (EACH = 0)
 * The work, the gaps and the rest are those of the arms in Rust: src/work.rs, src/arms.rs. */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    uint64_t seed, turns;
} item;

static inline uint64_t work(item it) {
    uint64_t x = it.seed;
    for (uint64_t turn = 0; turn < it.turns; turn++) x = (x ^ (x >> 7)) * 0x9e3779b97f4a7c15u;
    return x;
}

/* One call: the items of the cell into the output. */
typedef void (*call)(const item *items, uint64_t *out, size_t n);

/* An arm may have something to do before each call, which is not timed if each is, and something after the last. */
typedef struct {
    const char *name;
    call run, prepare, finish;
} arm;

static void serial(const item *items, uint64_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = work(items[i]);
}

static uint64_t now(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time)) return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static clockid_t threads[256];
static size_t thread_count;

/* The clocks of the threads there are. */
static void find_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    thread_count = 0;
    for (struct dirent *task; tasks && thread_count < 256 && (task = readdir(tasks));)
        if (atoi(task->d_name) > 0) threads[thread_count++] = (clockid_t)(~(unsigned)atoi(task->d_name) << 3 | 6);
    if (tasks) closedir(tasks);
}

/* CPU time of the process. Reading a running thread's own clock brings its account up to date. */
static uint64_t cpu(void) {
    for (size_t i = 0; i < thread_count; i++) now(threads[i]);
    return now(CLOCK_PROCESS_CPUTIME_ID);
}

static void wait_for(uint64_t nanos) {
    if (nanos < 100000) {
        for (uint64_t start = now(CLOCK_MONOTONIC); now(CLOCK_MONOTONIC) - start < nanos;) {}
    } else {
        struct timespec time = {(time_t)(nanos / 1000000000u), (long)(nanos % 1000000000u)};
        nanosleep(&time, NULL);
    }
}

/* Waits until the other threads use no CPU: they may spin on for milliseconds, and another arm is timed next. */
static void come_to_rest(void) {
    uint64_t before;
    find_threads();
    do {
        before = cpu();
        wait_for(1000000);
    } while (cpu() - before > 300000);
}

/* The state of a run; `body` does it, on a thread of the peer's choice. */
static struct {
    item *items;
    uint64_t *out, *times;
    size_t n;
    call run, prepare, finish;
    unsigned long warm_up, calls, gap, rest, cpu, rest_cpu;
    int each;
} ask;

static void prepare(void) {
    if (ask.prepare) ask.prepare(ask.items, ask.out, ask.n);
}

static void body(void) {
    find_threads();
    for (unsigned long i = 0; i < ask.warm_up; i++) {
        prepare();
        ask.run(ask.items, ask.out, ask.n);
    }
    uint64_t before = cpu();
    if (!ask.each) ask.times[0] = now(CLOCK_MONOTONIC);
    for (unsigned long i = 0; i < ask.calls; i++) {
        prepare();
        if (ask.each) {
            if (ask.gap) wait_for(ask.gap);
            ask.times[i] = now(CLOCK_MONOTONIC);
        }
        ask.run(ask.items, ask.out, ask.n);
        if (ask.each) ask.times[i] = now(CLOCK_MONOTONIC) - ask.times[i];
    }
    if (!ask.each) ask.times[0] = now(CLOCK_MONOTONIC) - ask.times[0];
    uint64_t after = cpu();
    if (ask.rest) wait_for(ask.rest);
    ask.cpu = after - before;
    ask.rest_cpu = cpu() - after;
}

/* Each peer says how `body` gets to where calls are made from. */
static void enter(void);

static int serve(const char *version, const arm *arms, size_t count) {
    char line[256], name[64];
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "version\n")) {
            printf("%s\n", version);
        } else if (sscanf(line, "cell %zu", &ask.n) == 1) {
            ask.items = (item *)realloc(ask.items, ask.n * sizeof(item));
            ask.out = (uint64_t *)realloc(ask.out, ask.n * sizeof(uint64_t));
            if (fread(ask.items, sizeof(item), ask.n, stdin) != ask.n) return 2;
            printf("ok\n");
        } else if (sscanf(line, "run %63s %lu %lu %d %lu %lu", name, &ask.warm_up, &ask.calls, &ask.each, &ask.gap,
                          &ask.rest) == 6) {
            size_t at = 0;
            while (at < count && strcmp(arms[at].name, name)) at++;
            if (at == count) return 2;
            ask.run = arms[at].run;
            ask.prepare = arms[at].prepare;
            ask.finish = arms[at].finish;
            unsigned long times = ask.each ? ask.calls : 1;
            ask.times = (uint64_t *)realloc(ask.times, times * sizeof(uint64_t));
            memset(ask.out, 0, ask.n * sizeof(uint64_t));
            enter();
            if (ask.finish) ask.finish(ask.items, ask.out, ask.n);
            come_to_rest();
            uint64_t checksum = 0;
            for (size_t i = 0; i < ask.n; i++) checksum = checksum * 31 + ask.out[i];
            printf("%lu %lu %lu", ask.cpu, ask.rest_cpu, (unsigned long)checksum);
            for (unsigned long i = 0; i < times; i++) printf(" %lu", (unsigned long)ask.times[i]);
            printf("\n");
        } else {
            return 2;
        }
        fflush(stdout);
    }
    return 0;
}
