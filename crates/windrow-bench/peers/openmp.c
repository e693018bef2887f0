/* libgomp, or LLVM's runtime: gcc or clang -O2 -fopenmp. Threads stay as the library has them: they spin for a while after each region. */
#include "peer.h"
#include <omp.h>

#define LOOP(name, how)                                                                                                \
    static void name(const item *items, uint64_t *out, size_t n) {                                                     \
        _Pragma(how) for (size_t i = 0; i < n; i++) out[i] = work(items[i]);                                           \
    }
LOOP(static_, "omp parallel for schedule(static)")
LOOP(dynamic, "omp parallel for schedule(dynamic)")
LOOP(dynamic_16, "omp parallel for schedule(dynamic, 16)")
LOOP(guided, "omp parallel for schedule(guided)")

/* Regions of two parts, for two of the threads. */
static void empty(const item *items, uint64_t *out, size_t n) {
    (void)items, (void)n;
#pragma omp parallel for schedule(static) num_threads(2)
    for (int who = 0; who < 2; who++) __asm__ volatile("" ::: "memory");
    out[0] = 1;
}
static void both_meet(const item *items, uint64_t *out, size_t n) {
    (void)items, (void)n;
    uint64_t met = 1;
#pragma omp parallel for schedule(static) num_threads(2) reduction(&& : met)
    for (int who = 0; who < 2; who++) met = met && meet(who);
    out[0] = met;
}

/* Rounds: x[i + 1..] += x[i], as in src/rounds.rs. The cell's one item says how many numbers and how many rounds. */
static double *x;
static size_t x_size;

static void rounds_prepare(const item *items, uint64_t *out, size_t n) {
    (void)out, (void)n;
    if (x_size != items->seed) {
        x = (double *)realloc(x, (x_size = items->seed) * sizeof *x);
        if (!x) exit(2);
    }
    double sum = 0;
    for (uint64_t i = 0; i < x_size; i++) {
        double head = ((double)(work((item){i + 1, 2}) >> 43) - (1 << 20)) / (1 << 20);
        x[i] = head - sum;
        sum += head;
    }
}
static void rounds_finish(const item *items, uint64_t *out, size_t n) {
    (void)items, (void)n;
    out[0] = 0;
    for (size_t i = 0; i < x_size; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        out[0] = out[0] * 31 + bits;
    }
}
/* gcc 12 at -O2 vectorizes no loop of unknown length unless it is told to, and unrolls none; rustc does both. */
static __attribute__((noinline, optimize("O3", "unroll-loops"))) void add(double head, double *part, size_t n) {
#pragma omp simd
    for (size_t i = 0; i < n; i++) part[i] += head;
}
static void rounds_serial(const item *items, uint64_t *out, size_t n) {
    (void)out, (void)n;
    for (size_t i = 0; i < items->turns; i++) add(x[i], x + i + 1, x_size - i - 1);
}
/* This thread's part of round i. */
static void add_part(size_t i) {
    size_t me = (size_t)omp_get_thread_num(), width = (size_t)omp_get_num_threads();
    size_t tail = x_size - i - 1, start = tail * me / width, end = tail * (me + 1) / width;
    add(x[i], x + i + 1 + start, end - start);
}
static void rounds_team(const item *items, uint64_t *out, size_t n) {
    (void)out, (void)n;
#pragma omp parallel
    for (size_t i = 0; i < items->turns; i++) {
        add_part(i);
#pragma omp barrier
    }
}
static void rounds_region(const item *items, uint64_t *out, size_t n) {
    (void)out, (void)n;
    for (size_t i = 0; i < items->turns; i++) {
#pragma omp parallel
        add_part(i);
    }
}

/* Crossings of a barrier, so many as the item has turns; with a seed, everybody says in each round that it is there, and looks at what all others
 * said: src/rounds/presence.rs. */
static void cross(const item *items, uint64_t *out, size_t n) {
    (void)n;
    static struct {
        uint64_t said __attribute__((aligned(128)));
    } present[2][64];
    static uint32_t last = 0;
    static __thread uint32_t thread = 0;
    int all = 1;
#pragma omp parallel reduction(&& : all)
    {
        int me = omp_get_thread_num(), width = omp_get_num_threads();
        all = width == omp_get_max_threads() && width <= 64;
        if (!thread) thread = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
        for (uint64_t round = 0; round < items->turns; round++) {
            if (items->seed) __atomic_store_n(&present[round % 2][me].said, round << 32 | thread, __ATOMIC_RELAXED);
#pragma omp barrier
            if (!items->seed) continue;
            for (int i = 0; i < width; i++) {
                uint64_t said = __atomic_load_n(&present[round % 2][i].said, __ATOMIC_RELAXED);
                all = all && said >> 32 == round && (uint32_t)said;
                for (int j = 0; j < i; j++)
                    all = all && (uint32_t)said != (uint32_t)__atomic_load_n(&present[round % 2][j].said, __ATOMIC_RELAXED);
            }
        }
    }
    out[0] = (uint64_t)all;
}

/* Constructs of the EPCC microbenchmarks, as many as the second item has turns, each around a delay of the first. With a seed, delays are
 * counted: src/arms/epcc.rs. */
static uint64_t delays, delays_counted;
static inline void delay(const item *items) {
    uint64_t did = work(items[0]);
    __asm__ volatile("" ::"r"(did));
    if (delays_counted) __atomic_add_fetch(&delays, 1, __ATOMIC_RELAXED);
}
#define EPCC(name, times, constructs)                                                                                  \
    static void epcc_##name(const item *items, uint64_t *out, size_t n) {                                              \
        const uint64_t count = items[1].turns;                                                                         \
        uint64_t sum = 0;                                                                                              \
        (void)n, (void)sum, delays = 0, delays_counted = items[1].seed;                                                \
        constructs;                                                                                                    \
        out[0] = !delays_counted || delays == (times) * count;                                                         \
        out[1] = count;                                                                                                \
    }
#define EACH for (uint64_t i = 0; i < count; i++)
EPCC(parallel, 2, EACH {
    _Pragma("omp parallel") delay(items);
})
EPCC(parallel_for, 2, EACH {
    _Pragma("omp parallel for schedule(static)") for (int who = 0; who < 2; who++) delay(items);
})
EPCC(for, 2, _Pragma("omp parallel") EACH {
    _Pragma("omp for schedule(static)") for (int who = 0; who < 2; who++) delay(items);
})
EPCC(barrier, 2, _Pragma("omp parallel") EACH {
    delay(items);
    _Pragma("omp barrier")
})
EPCC(single, 1, _Pragma("omp parallel") EACH {
    _Pragma("omp single") delay(items);
})
EPCC(reduction, 2, EACH {
    _Pragma("omp parallel reduction(+ : sum)") {
        delay(items);
        sum++;
    }
})
EPCC(reduction_inside, 2, _Pragma("omp parallel") EACH {
    _Pragma("omp for schedule(static) reduction(+ : sum)") for (int who = 0; who < 2; who++) {
        delay(items);
        sum++;
    }
})

static void enter(void) { body(); }

/* In a program with LLVM's runtime. */
extern int __kmpc_global_num_threads(void *) __attribute__((weak));

int main(int count, char **arguments) {
    static const arm arms[] = {
        {"omp-serial", serial},         {"omp-static", static_}, {"omp-dynamic", dynamic},
        {"omp-dynamic-16", dynamic_16}, {"omp-guided", guided},
        {"omp-empty", empty},           {"omp-meet", both_meet}, {"omp-cross", cross},
        {"omp-epcc-parallel", epcc_parallel},   {"omp-epcc-parallel-for", epcc_parallel_for},
        {"omp-epcc-for", epcc_for},             {"omp-epcc-barrier", epcc_barrier},
        {"omp-epcc-single", epcc_single},       {"omp-epcc-reduction", epcc_reduction},
        {"omp-epcc-reduction-inside", epcc_reduction_inside},
        {"omp-rounds-serial", rounds_serial, rounds_prepare, rounds_finish},
        {"omp-team", rounds_team, rounds_prepare, rounds_finish},
        {"omp-region", rounds_region, rounds_prepare, rounds_finish},
    };
    if (count != 2) return 2;
    omp_set_num_threads(atoi(arguments[1]));
    char version[64];
    const char *runtime = __kmpc_global_num_threads ? "LLVM's runtime, " : "";
#ifdef __clang__
    const char *compiler = "";
#else
    const char *compiler = "gcc ";
#endif
    snprintf(version, sizeof version, "%sOpenMP %d, %s%s", runtime, _OPENMP, compiler, __VERSION__);
    return serve(version, arms, sizeof arms / sizeof *arms);
}
