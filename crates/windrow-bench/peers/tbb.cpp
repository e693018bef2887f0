// oneTBB: g++ -O2 -ltbb. Called from inside an arena of as many threads as asked for, the caller one of them.
#include "peer.h"
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>

static tbb::task_arena *arena;

template <class Partitioner> static void loop(const item *items, uint64_t *out, size_t n, Partitioner &&how) {
    auto range = [=](const tbb::blocked_range<size_t> &part) {
        for (size_t i = part.begin(); i != part.end(); i++) out[i] = work(items[i]);
    };
    tbb::parallel_for(tbb::blocked_range<size_t>(0, n), range, how);
}
static void auto_(const item *items, uint64_t *out, size_t n) { loop(items, out, n, tbb::auto_partitioner()); }
static void static_(const item *items, uint64_t *out, size_t n) { loop(items, out, n, tbb::static_partitioner()); }
static void affinity(const item *items, uint64_t *out, size_t n) {
    // It remembers which thread had which part, from call to call.
    static tbb::affinity_partitioner memory;
    loop(items, out, n, memory);
}

// Regions of two parts.
static void empty(const item *, uint64_t *out, size_t) {
    tbb::parallel_invoke([] {}, [] {});
    out[0] = 1;
}
static void both_meet(const item *, uint64_t *out, size_t) {
    uint64_t met[2];
    tbb::parallel_invoke([&] { met[0] = meet(0); }, [&] { met[1] = meet(1); });
    out[0] = met[0] & met[1];
}

static void enter(void) { arena->execute(body); }

int main(int count, char **arguments) {
    static const arm arms[] = {
        {"tbb-serial", serial},
        {"tbb-auto", auto_},
        {"tbb-static", static_},
        {"tbb-affinity", affinity},
        {"tbb-empty", empty},
        {"tbb-meet", both_meet},
    };
    if (count != 2) return 2;
    tbb::global_control threads(tbb::global_control::max_allowed_parallelism, atoi(arguments[1]));
    tbb::task_arena here(atoi(arguments[1]));
    arena = &here;
    char version[64];
    snprintf(version, sizeof version, "oneTBB %d.%d, g++ %s", TBB_VERSION_MAJOR, TBB_VERSION_MINOR, __VERSION__);
    return serve(version, arms, sizeof arms / sizeof *arms);
}
