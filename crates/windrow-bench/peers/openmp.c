/* libgomp, or LLVM's runtime: gcc or clang -O2 -fopenmp. Threads stay as the library has them: they spin for a while after each region. */
#include "peer.h"
#include <omp.h>

#define LOOP(name, how)                                                                                                \
    static void name(const item *items, uint64_t *out, size_t n) {                                                     \
        _Pragma(how) for (size_t i = 0; i < n; i++) out[i] = work(items[i]);                                           \
    }
LOOP(static_, "omp parallel for schedule(static)")
LOOP(guided, "omp parallel for schedule(guided)")

/* Rounds: x[i + 1..] += x[i], as in windrow_scenarios::rounds. The cell's one item says how many numbers and how many rounds. */
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
        {"omp-serial", serial},         {"omp-static", static_}, {"omp-guided", guided},
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
