#!/usr/bin/env python3
"""Measures products summed over ranks of MPI, by whole calls: `mpiexec -n 2 python3 bench/python/products.py`.

The arms take turns, and the time of a call is that of the slowest rank.

* `plain`: `a @ b` and `Allreduce` in place;
* `tiles=1`: `matmul_all_reduce` without tiles;
* `tiles=4`, and other numbers given with `--tiles`;
* `profile`: the profile of a calibration decides in each call;
* `planned`: the plan of that profile, made once;
* `hand N`: N equal tiles by hand, computed by one thread and summed by another, with mpi4py alone.

Every answer is checked. It needs the package, `mpi4py` and an MPI: `pip install ./bindings/python mpi4py`.
"""

import argparse
import os
import pathlib
import statistics
import sys
import threading
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import mpi4py

mpi4py.rc.thread_level = "serialized"
import numpy as np
from mpi4py import MPI

import windrow
from windrow.products import calibrate_matmul

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "encoders"))

WORLD = MPI.COMM_WORLD
SIZES = [(256, 64, 64), (1024, 256, 256), (2048, 512, 512), (4096, 512, 1024)]


def by_hand(a, b, tiles):
    """Equal tiles, each summed in place while the next one is computed."""
    m = len(a)
    cuts = [m * tile // tiles for tile in range(tiles + 1)]
    out = np.empty((m, b.shape[1]), a.dtype)
    ready = threading.Semaphore(0)

    def communicate():
        for start, end in zip(cuts, cuts[1:]):
            ready.acquire()
            WORLD.Allreduce(MPI.IN_PLACE, out[start:end])

    helper = threading.Thread(target=communicate)
    helper.start()
    for start, end in zip(cuts, cuts[1:]):
        np.matmul(a[start:end], b, out=out[start:end])
        ready.release()
    helper.join()
    return out


def plain(a, b):
    out = a @ b
    WORLD.Allreduce(MPI.IN_PLACE, out)
    return out


def measure(m, n, k, rounds, tiles):
    """The plan, and the milliseconds of each arm, one a round."""
    a, b = np.full((m, k), 0.5, np.float32), np.full((k, n), 2.0, np.float32)
    rows = [m // part for part in (16, 8, 4, 2, 1)]
    profile = calibrate_matmul(WORLD, "matmul-all-reduce", n, k, rows, align=max(16, m // 64), repeats=3)
    plan = profile.plan(m)
    calls = {
        "plain": lambda: plain(a, b),
        "profile": lambda: windrow.matmul_all_reduce(WORLD, a, b, profile=profile),
        "planned": lambda: windrow.matmul_all_reduce(WORLD, a, b, tiles=plan),
    }
    for count in tiles:
        calls[f"tiles={count}"] = lambda count=count: windrow.matmul_all_reduce(WORLD, a, b, tiles=count)
        calls[f"hand {count}"] = lambda count=count: by_hand(a, b, count)
    times = {arm: [] for arm in calls}
    arms = list(calls)
    for turn in range(rounds + 1):
        # Another arm begins in each turn.
        for arm in arms[turn % len(arms) :] + arms[: turn % len(arms)]:
            call = calls[arm]
            WORLD.Barrier()
            began = time.perf_counter()
            out = call()
            took = time.perf_counter() - began
            assert (out == WORLD.size * k).all(), f"{arm} gives a wrong product of {m} x {n} x {k}"
            took = WORLD.allreduce(took, MPI.MAX)
            # The first turn begins threads and agrees about tiles.
            if turn > 0:
                times[arm].append(1e3 * took)
    return WORLD.bcast(plan.tiles), times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each arm (%(default)s)")
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 4], help="equal tiles (%(default)s)")
    parser.add_argument("--size", type=int, nargs=3, action="append", metavar=("M", "N", "K"), help="sizes to measure instead of the default four")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    columns, lines, notes = "cell,arm,repetition,milliseconds", [], [f"{WORLD.size} ranks, f32, numpy {np.__version__}"]
    for m, n, k in options.size or SIZES:
        plan, times = measure(m, n, k, options.rounds, options.tiles)
        medians = {arm: statistics.median(of) for arm, of in times.items()}
        if WORLD.rank == 0:
            ratios = ", ".join(f"{arm} {median / medians['plain']:.2f}" for arm, median in medians.items() if arm != "plain")
            print(f"{m} x {n} x {k}, plan {plan}: plain {medians['plain']:.3f} ms; by plain: {ratios}", flush=True)
            notes.append(f"{m} x {n} x {k}: plan {plan}")
            lines += [f"{m}x{n}x{k},{arm},{turn},{ms:.4f}" for arm, of in times.items() for turn, ms in enumerate(of)]
    if options.record and WORLD.rank == 0:
        import run

        run.write_record(options.record, columns, lines, notes, peers=False)


if __name__ == "__main__":
    main()
