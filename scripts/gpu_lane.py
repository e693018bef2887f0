#!/usr/bin/env python3
"""Times products on a GPU, cut as `windrow plan` says, and compares them with hand-picked tiles.

    scripts/gpu_lane.py target/release/windrow [--cells store:8192x4096x14336,..] [--record NAME]

Multiplies an m x k matrix by a k x n matrix of bf16. One stream computes; the other one copies over the GPU's link to the host:

* `store`: the rows of each tile go to pinned host memory after their product. Planned as `matmul-all-reduce`, whose product comes first.
* `load`: the rows of each tile come from pinned host memory before their product. Planned as `all-gather-matmul`, whose product comes last.

For each cell (an operation and a shape) the script

1. measures tiles of every multiple of the alignment, back to back: in each stream alone, and some sizes while the other stream is busy;
2. writes `samples.csv`, and gets tiles from `windrow plan --cost` and predictions for all cuts from `--replay`;
3. runs all cuts alternately, each time in a different random order: not tiled, equal tiles, and the planned ones twice (`auto` and
   `auto again`, the control).

A waiting kernel holds the streams until the host has queued a whole cut, so a time is that of the GPU, with the host ahead of it. If the host
was too slow, the time is discarded and measured again with a longer hold. All cuts use the same input buffers, and small ones may be in the
GPU's cache.

`best by hand` is the fastest cut other than `auto`. It is chosen on the even repetitions and timed on the odd ones, and the other way round, so
luck does not choose it. Each cut is compared with the product in float32 before and after it is timed; elements that it does not write stay NaN
and fail the comparison.

Needs PyTorch with CUDA and one GPU. Without them, it prints "not available: REASON" and succeeds.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    torch = None

CELLS = [
    # Copying takes longer, both take about as long, computing takes longer; then small ones.
    "store:8192x8192x1024",
    "store:8192x8192x4096",
    "store:8192x4096x8192",
    "store:8192x4096x14336",
    "store:8192x4096x28672",
    "store:4096x4096x16384",
    "store:2048x2048x16384",
    "store:1024x1024x8192",
    "store:256x1024x1024",
    "load:8192x4096x4096",
    "load:8192x14336x4096",
    "load:4096x28672x4096",
    "load:2048x16384x2048",
    "load:1024x8192x1024",
]
OPERATIONS = {"store": "matmul-all-reduce", "load": "all-gather-matmul"}
UNIFORM = [2, 4, 8, 16, 32]
# A cell's tiles begin at multiples of a 32nd of its rows, which is at least a tile of the GPU's product.
PLACES, LEAST = 32, 128
# Of tiles that are measured back to back.
ROW = 4
# Multiples of this part of the rows are measured while the other stream is busy, which is that much longer.
CONTENDED, COVER = 8, 1.5
# To queue the work before the hold ends. Every second one has a longer hold.
TRIES = 12
# Relative to the product in float32. The inputs are exact and sums are float32, so the error is that of rounding the result to bf16.
TOLERANCE = 1e-2
ROOT = pathlib.Path(__file__).resolve().parents[1]


class Cell:
    """The buffers of a cell, and its two streams."""

    def __init__(self, name):
        self.name = name
        self.operation, shape = name.split(":")
        self.m, self.n, self.k = map(int, shape.split("x"))
        generator = torch.Generator(device="cuda").manual_seed(1)
        matrix = lambda rows, columns: torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16, generator=generator)
        self.a, self.b = matrix(self.m, self.k), matrix(self.k, self.n)
        self.c = torch.empty(self.m, self.n, device="cuda", dtype=torch.bfloat16)
        self.exact = self.a.float() @ self.b.float()
        columns = self.n if self.operation == "store" else self.k
        self.host = torch.empty(self.m, columns, dtype=torch.bfloat16, pin_memory=True)
        if self.operation == "load":
            self.host.copy_(self.a)
        self.streams = {stage: torch.cuda.Stream() for stage in ("compute", "communicate")}
        self.align = max(LEAST, self.m // PLACES)
        # Of the GPU's clock; about 1 ms.
        self.hold = 2_000_000
        torch.cuda.synchronize()

    def compute(self, rows):
        torch.mm(self.a[rows], self.b, out=self.c[rows])

    def communicate(self, rows):
        if self.operation == "store":
            self.host[rows].copy_(self.c[rows], non_blocking=True)
        else:
            self.a[rows].copy_(self.host[rows], non_blocking=True)

    def held(self, queue):
        """The microseconds between the two events that `queue` returns. It is called with a held stream and queues all of the work."""
        for attempt in range(TRIES):
            begin, end = queue()
            ahead = not begin.query()
            torch.cuda.synchronize()
            if ahead:
                return 1e3 * begin.elapsed_time(end)
            # The host may have been interrupted once.
            self.hold *= 1 + attempt % 2
        sys.exit(f"error: {self.name}: the host does not queue the work within a hold of {self.hold} cycles")

    def begin(self, stage):
        """Holds a stream; the event after that."""
        with torch.cuda.stream(self.streams[stage]):
            torch.cuda._sleep(self.hold)
        return record(self.streams[stage])

    def rows(self, size, count):
        """`count` tiles of `size` rows, from all of the matrix in turn."""
        return [slice(at * size, (at + 1) * size) for at in (tile % (self.m // size) for tile in range(count))]

    def queue(self, stage, tiles):
        run = self.compute if stage == "compute" else self.communicate
        with torch.cuda.stream(self.streams[stage]):
            for rows in tiles:
                run(rows)

    def back_to_back(self, stage, size):
        """The time of a tile of `size` rows, alone."""
        count = max(ROW, self.m // size)

        def queue():
            begin = self.begin(stage)
            self.queue(stage, self.rows(size, count))
            return begin, record(self.streams[stage])

        return self.held(queue) / count

    def contended(self, stage, size, alone):
        """The time of a tile of `size` rows while the other stream is busy. `alone` has the times of both alone."""
        (other,) = set(self.streams) - {stage}
        count = max(ROW, self.m // size)
        cover = math.ceil(COVER * count * alone[stage] / alone[other]) + 2

        def queue():
            begin = self.begin(stage)
            self.streams[other].wait_event(begin)
            # In turn, so that neither stream waits for the host.
            mine, others = self.rows(size, count), self.rows(size, cover)
            for tile in range(max(count, cover)):
                self.queue(stage, mine[tile : tile + 1])
                self.queue(other, others[tile : tile + 1])
                if tile + 1 == count:
                    end = record(self.streams[stage])
            return begin, end

        return self.held(queue) / count

    def run(self, tiles):
        """The time of the whole operation in these tiles, microseconds."""
        first, second = ("compute", "communicate") if self.operation == "store" else ("communicate", "compute")
        edges = [sum(tiles[:at]) for at in range(len(tiles) + 1)]
        rows = [slice(*edge) for edge in zip(edges, edges[1:])]

        def queue():
            begin = self.begin(first)
            for tile in rows:
                self.queue(first, [tile])
                self.streams[second].wait_stream(self.streams[first])
                self.queue(second, [tile])
            return begin, record(self.streams[second])

        return self.held(queue)

    def load(self, tiles):
        """Loads the kernels of such tiles. That waits for all streams, so it must not happen behind a hold."""
        for size in set(tiles):
            self.queue("compute", [slice(0, size)])
        torch.cuda.synchronize()

    def check(self, tiles):
        """Runs these tiles over a poisoned output, and compares it."""
        self.load(tiles)
        (self.host if self.operation == "store" else self.a).fill_(math.nan)
        self.c.fill_(math.nan)
        torch.cuda.synchronize()
        self.run(tiles)
        result = self.host.cuda() if self.operation == "store" else self.c
        error = float((result.float() - self.exact).norm() / self.exact.norm())
        if not error < TOLERANCE:
            sys.exit(f"error: {self.name} in tiles of {tiles}: off by {error:.2%} from the product in float32")


def record(stream):
    event = torch.cuda.Event(enable_timing=True)
    event.record(stream)
    return event


def calibrate(cell, repeats, rng):
    """Samples of both stages: the stage, the rows, the microseconds; and by what factor each stage is slower while both are busy."""
    sizes = range(cell.align, cell.m + 1, cell.align)
    stages = list(cell.streams)
    cell.load(sizes)
    samples = []
    for _ in range(repeats):
        for size in rng.sample(sizes, len(sizes)):
            samples += [(stage, size, cell.back_to_back(stage, size)) for stage in stages]
    usual = {}
    for stage, size, time in samples:
        usual.setdefault((stage, size), []).append(time)
    usual = {key: statistics.median(times) for key, times in usual.items()}
    factors = {stage: [] for stage in stages}
    some = [size for size in sizes if size % max(cell.align, cell.m // CONTENDED) == 0]
    for _ in range(repeats):
        for size in some:
            alone = {stage: usual[stage, size] for stage in stages}
            for stage in stages:
                factors[stage].append(cell.contended(stage, size, alone) / alone[stage])
    return samples, [max(1.0, statistics.median(factors[stage])) for stage in stages]


def plan(windrow, cell, samples, contention, by_hand, folder):
    """What `windrow plan` answers, with predictions for cuts picked by hand."""
    costs = folder / "samples.csv"
    lines = [f"{stage},{size},{time:.3f}" for stage, size, time in samples]
    costs.write_text("\n".join(["stage,m,microseconds", *lines]) + "\n")
    command = [windrow, "plan", OPERATIONS[cell.operation], "--ranks", "2", "--json", "--cost", costs]
    command += ["--m", cell.m, "--n", cell.n, "--k", cell.k, "--align", cell.align]
    command += ["--contention", ",".join(f"{factor:.4f}" for factor in contention)]
    for name, tiles in by_hand.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(tiles))
        command += ["--replay", path]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {cell.name}: {shlex.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def equal(m, count):
    """So many tiles whose rows differ by one at most, and are even: `all-gather-matmul` deals them out to two ranks."""
    edges = [2 * (m // 2 * at // count) for at in range(count + 1)]
    return [end - start for start, end in zip(edges, edges[1:])]


def best_by_hand(times):
    """The times of the fastest cut apart from the planned one: each half of the repetitions is timed with the choice of the other half."""
    found = []
    for half in (0, 1):
        others = {cut: of for cut, of in times.items() if not cut.startswith("auto")}
        choice = min(others, key=lambda cut: statistics.median(others[cut][1 - half :: 2]))
        found.append(others[choice][half::2])
    return [time for pair in zip(*found) for time in pair]


def measure(options, name, rng, folder):
    """Rows of the record, and the values that notes are made of."""
    cell = Cell(name)
    samples, contention = calibrate(cell, options.repeats, rng)
    cuts = {"none": [cell.m]} | {f"uniform {count}": equal(cell.m, count) for count in UNIFORM}
    planned = plan(options.windrow, cell, samples, contention, cuts, folder)
    predicted = {cut: replay["predicted_us"] for cut, replay in zip(cuts, planned["replays"], strict=True)}
    for auto in ("auto", "auto again"):
        cuts[auto], predicted[auto] = planned["tiles"], planned["predicted_us"]
    for tiles in cuts.values():
        cell.check(tiles)
    times = {cut: [] for cut in cuts}
    for _ in range(options.repetitions):
        for cut in rng.sample(list(cuts), len(cuts)):
            times[cut].append(cell.run(cuts[cut]))
    for tiles in cuts.values():
        cell.check(tiles)
    times["best by hand"] = best_by_hand(times)

    whole = [planned["fits"][stage]["whole_us"] for stage in cell.streams]
    about = [cell.operation, cell.m, cell.n, cell.k]
    costs = [*(f"{time:.1f}" for time in whole), *(f"{factor:.3f}" for factor in contention)]
    bound = planned["bound_with_contention_us"]
    print(f"\n{name}: {whole[0]:.1f} us to compute, {whole[1]:.1f} us to copy; both at once x{contention[0]:.3f}, x{contention[1]:.3f}")
    print(f"  {planned['why']}")
    print(f"  {'cut':<13} {'predicted':>9} {'median us':>9} {'quartiles':>19} {'by auto':>8}  tiles")
    rows, medians, base = [], {}, statistics.median(times["auto"])
    for cut, of in times.items():
        tiles, expected = " ".join(map(str, cuts.get(cut, []))), f"{predicted[cut]:.1f}" if cut in predicted else ""
        low, middle, high = statistics.quantiles(of, n=4)
        medians[cut] = middle
        print(f"  {cut:<13} {expected:>9} {middle:>9.1f} {low:>9.1f} {high:>9.1f} {middle / base:>8.3f}  {tiles}", flush=True)
        each = " ".join(f"{time:.2f}" for time in of)
        rows.append([*about, cut, tiles, *costs, f"{bound:.1f}", expected, *(f"{time:.2f}" for time in (middle, low, high)), each])
    return rows, {"predicted": predicted, "medians": medians, "bound": bound}


COLUMNS = (
    "operation,m,n,k,cut,tiles,compute_us,communicate_us,compute_slowdown,communicate_slowdown,bound_us,predicted_us,median_us,"
    "lower_quartile_us,upper_quartile_us,us_of_each_repetition"
)


def notes(cells):
    """What all cells together say."""
    ratio = lambda cut, by: [cell["medians"][cut] / cell["medians"][by] for cell in cells]
    errors = [abs(cell["medians"][cut] / time - 1) for cell in cells for cut, time in cell["predicted"].items()]
    own = [abs(cell["medians"]["auto"] / cell["predicted"]["auto"] - 1) for cell in cells]
    lines = []
    for what, by in [("the best by hand", "best by hand"), ("not tiled", "none"), ("8 equal tiles", "uniform 8"), ("auto again, the control,", "auto again")]:
        of = ratio("auto", by)
        lines.append(f"auto by {what} x{statistics.geometric_mean(of):.3f} in geometric mean, x{min(of):.3f} to x{max(of):.3f}")
    lines.append(f"bound by auto x{statistics.geometric_mean(cell['bound'] / cell['medians']['auto'] for cell in cells):.3f} in geometric mean")
    lines.append(f"predictions of auto off by {100 * statistics.median(own):.1f} % in the median, {100 * max(own):.1f} % at worst")
    lines.append(f"predictions of all cuts off by {100 * statistics.median(errors):.1f} % in the median, {100 * max(errors):.1f} % at worst")
    return lines


def said(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return "-"
    return done.stdout.strip() or "-"


def machine():
    """The GPU, the CPU and the number of CPUs."""
    info = pathlib.Path("/proc/cpuinfo").read_text() if sys.platform == "linux" else ""
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
    return torch.cuda.get_device_name(), f"{model[1] if model else platform.machine()} x{len(os.sched_getaffinity(0))}"


def write(options, rows, lines):
    gpu, cpu = machine()
    driver = said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    head = [
        f"command: scripts/gpu_lane.py target/release/windrow --repeats {options.repeats} --repetitions {options.repetitions} --record {options.record}",
        f"machine: {gpu}, {cpu}",
        f"commit: {options.commit or said('git', 'describe', '--always')}",
        f"compiler: Python {platform.python_version()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, driver {driver}",
        "bf16; medians of interleaved repetitions on a held stream; store: rows go to the host after their product, load: they come before it",
        *lines,
    ]
    folder = pathlib.Path(os.environ.get("WINDROW_RECORD_FOLDER") or ROOT / "bench" / "record")
    day = datetime.datetime.now(datetime.timezone.utc).date()
    path = folder / "-".join(re.findall(r"[A-Za-z0-9]+", gpu)).lower() / f"{day}-{options.record}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    body = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([*(f"# {line}" for line in head), COLUMNS, *body]) + "\n")
    print(f"\n{path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windrow", help="the command, built with --release")
    parser.add_argument("--cells", type=lambda text: text.split(","), default=CELLS, metavar="OPERATION:MxNxK,..", help="default: all cells of the script")
    parser.add_argument("--repeats", type=int, default=5, help="samples of each size (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=60, help="runs of each cut (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<GPU>/<date>-NAME.csv")
    parser.add_argument("--commit", help="commit for the record, if this folder is not a checkout")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print(f"not available: {'PyTorch is not installed' if torch is None else 'PyTorch finds no GPU with CUDA'}")
        return
    rng, rows, cells = random.Random(1), [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.cells:
            found, values = measure(options, name, rng, pathlib.Path(folder))
            rows += found
            cells.append(values)
    lines = notes(cells)
    print("", *lines, sep="\n")
    if options.record:
        write(options, rows, lines)


if __name__ == "__main__":
    main()
