// oneTBB: g++ -O2 -ltbb. Called from inside an arena of as many threads as asked for, the caller one of them.
#include "peer.h"
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>
#include <utility>
#include <vector>

static tbb::task_arena *arena;

template <class Partitioner> static void loop(const item *items, uint64_t *out, size_t n, Partitioner &&how) {
    auto range = [=](const tbb::blocked_range<size_t> &part) {
        for (size_t i = part.begin(); i != part.end(); i++) out[i] = work(items[i]);
    };
    tbb::parallel_for(tbb::blocked_range<size_t>(0, n), range, how);
}
static void auto_(const item *items, uint64_t *out, size_t n) { loop(items, out, n, tbb::auto_partitioner()); }

// Recursions; the item's seed is the size. The functions are those of src/arms/joins.rs.
// Not inlined into itself: gcc would make it twice as fast as rustc does, and the question is not which compiler inlines more.
__attribute__((noinline, noclone)) static uint64_t fib_serial(uint64_t n) { return n <= 1 ? n : fib_serial(n - 1) + fib_serial(n - 2); }
static uint64_t fib(uint64_t n, uint64_t cut_off) {
    if (n <= cut_off) return fib_serial(n);
    uint64_t a, b;
    tbb::parallel_invoke([&] { a = fib(n - 1, cut_off); }, [&] { b = fib(n - 2, cut_off); });
    return a + b;
}
static void fib_20(const item *items, uint64_t *out, size_t) { out[0] = fib(items[0].seed, 20); }
static void fib_1(const item *items, uint64_t *out, size_t) { out[0] = fib(items[0].seed, 1); }

struct node {
    uint64_t value;
    uint32_t children[2];
};
static std::vector<node> nodes;
static uint32_t grow(uint64_t depth) {
    uint32_t at = nodes.size();
    nodes.push_back({depth, {0, 0}});
    if (depth > 0)
        for (int which : {0, 1}) {
            uint32_t child = grow(depth - 1);
            nodes[at].children[which] = child;
        }
    return at;
}
static uint64_t sum(uint32_t at) {
    const node &root = nodes[at];
    if (root.children[0] == 0) return root.value;
    uint64_t left, right;
    tbb::parallel_invoke([&] { left = sum(root.children[0]); }, [&] { right = sum(root.children[1]); });
    return root.value + left + right;
}
static void tree(const item *items, uint64_t *out, size_t) {
    if (nodes.empty()) grow(items[0].seed);
    out[0] = sum(0);
}

static void sort(uint64_t *numbers, size_t n) {
    if (n <= 20) {
        for (size_t end = 1; end < n; end++)
            for (size_t at = end; at > 0 && numbers[at - 1] > numbers[at]; at--) std::swap(numbers[at - 1], numbers[at]);
        return;
    }
    size_t last = n - 1, middle = 0;
    for (size_t at = 0; at < last; at++)
        if (numbers[at] < numbers[last]) std::swap(numbers[at], numbers[middle++]);
    std::swap(numbers[middle], numbers[last]);
    tbb::parallel_invoke([=] { sort(numbers, middle); }, [=] { sort(numbers + middle + 1, last - middle); });
}
static void quicksort(const item *items, uint64_t *out, size_t) {
    static std::vector<uint64_t> shuffled, numbers;
    for (uint64_t state = 0; shuffled.size() < items[0].seed;) {
        uint64_t x = state += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        shuffled.push_back(x ^ (x >> 31));
    }
    numbers = shuffled;
    sort(numbers.data(), numbers.size());
    out[0] = 0;
    for (uint64_t number : numbers) out[0] = out[0] * 31 + number;
}

static void flat(const item *items, uint64_t *out, size_t) {
    uint64_t sum = 0;
    for (uint64_t at = 0; at < items[0].seed; at++) {
        volatile uint64_t a, b;
        tbb::parallel_invoke([&] { a = at; }, [&] { b = 1; });
        sum += a + b;
    }
    out[0] = sum;
}

static void enter(void) { arena->execute(body); }

int main(int count, char **arguments) {
    static const arm arms[] = {
        {"tbb-serial", serial},
        {"tbb-auto", auto_},
        {"tbb-fib-20", fib_20},
        {"tbb-fib", fib_1},
        {"tbb-tree", tree},
        {"tbb-quicksort", quicksort},
        {"tbb-flat", flat},
    };
    if (count != 2) return 2;
    tbb::global_control threads(tbb::global_control::max_allowed_parallelism, atoi(arguments[1]));
    tbb::task_arena here(atoi(arguments[1]));
    arena = &here;
    char version[64];
    snprintf(version, sizeof version, "oneTBB %d.%d, g++ %s", TBB_VERSION_MAJOR, TBB_VERSION_MINOR, __VERSION__);
    return serve(version, arms, sizeof arms / sizeof *arms);
}
