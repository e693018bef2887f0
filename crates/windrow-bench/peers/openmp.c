/* libgomp: gcc -O2 -fopenmp. Threads stay as the library has them: they spin for a while after each region. */
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

static void enter(void) { body(); }

int main(int count, char **arguments) {
    static const arm arms[] = {
        {"omp-serial", serial},         {"omp-static", static_}, {"omp-dynamic", dynamic},
        {"omp-dynamic-16", dynamic_16}, {"omp-guided", guided},
        {"omp-empty", empty},           {"omp-meet", both_meet},
    };
    if (count != 2) return 2;
    omp_set_num_threads(atoi(arguments[1]));
    char version[64];
    snprintf(version, sizeof version, "OpenMP %d, gcc %s", _OPENMP, __VERSION__);
    return serve(version, arms, sizeof arms / sizeof *arms);
}
