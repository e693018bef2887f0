#!/usr/bin/env python3
"""Measures `windrow.Batcher` with a thousand tasks of asyncio, beside a batcher with a timer.

Each task pauses for a random time, calls, and pauses again. A call is answered by a *launch*: a function of a list that takes 2 ms, however
long the list. The arms take turns, and each runs in a fresh process.

* `ideal`: each call sleeps for the time of a launch: as if all launches could run at the same time, for nothing;
* `windrow`: `await batcher.submit(item)`;
* `timer`: calls are collected for 5 ms from the first one on, then launched on a thread;
* `alone`: each call is a launch by itself, on one thread.

It needs the package: `pip install ./bindings/python`.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "encoders"))
import run

LAUNCH, TIMER = 0.002, 0.005
ARMS = ["ideal", "windrow", "timer", "alone"]


def launch(items):
    time.sleep(LAUNCH)
    return items


class Timer:
    """What people write by hand."""

    def __init__(self, thread):
        self.thread, self.waiting = thread, []

    async def submit(self, item):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.waiting.append((item, future))
        if len(self.waiting) == 1:
            loop.call_later(TIMER, self.go)
        return await future

    def go(self):
        waiting, self.waiting = self.waiting, []
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self.thread, launch, [item for item, _ in waiting])
        done.add_done_callback(lambda done: [future.set_result(it) for (_, future), it in zip(waiting, done.result())])


async def measure(arm, tasks, pause, seconds):
    thread = ThreadPoolExecutor(1)
    if arm == "windrow":
        import windrow

        submit = windrow.Batcher(launch).submit
    elif arm == "timer":
        submit = Timer(thread).submit
    elif arm == "alone":
        submit = lambda item: asyncio.get_running_loop().run_in_executor(thread, launch, [item])
    else:
        submit = lambda item: asyncio.sleep(LAUNCH, item)
    chance, times = random.Random(1), []
    end = time.perf_counter() + seconds

    async def task(number):
        while time.perf_counter() < end:
            await asyncio.sleep(chance.expovariate(1 / pause))
            begin = time.perf_counter()
            await submit(number)
            times.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    running = [asyncio.ensure_future(task(number)) for number in range(tasks)]
    await asyncio.sleep(seconds)
    # What is still under way is not counted.
    answered, took = list(times), time.perf_counter() - begin
    for one in running:
        one.cancel()
    thread.shutdown(wait=False, cancel_futures=True)
    answered.sort()
    at = lambda share: answered[int(share * (len(answered) - 1))] * 1e9
    return [len(answered) / took, at(0.5), at(0.99)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000, help="%(default)s")
    parser.add_argument("--pauses", default="1,0.2", help="mean seconds between two calls of a task (%(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="seconds per process (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each arm (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        pause = float(options.pauses)
        print(json.dumps(asyncio.run(measure(options.arm, options.tasks, pause, options.seconds))))
        # Threads of the pool may still have calls.
        sys.stdout.flush()
        os._exit(0)
    lines = []
    for pause in options.pauses.split(","):
        found = {arm: [] for arm in ARMS}
        for repetition in range(options.rounds):
            for arm in ARMS:
                words = [sys.executable, __file__, "--arm", arm, "--pauses", pause]
                words += ["--tasks", str(options.tasks), "--seconds", str(options.seconds)]
                row = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
                found[arm].append(row)
                lines.append(",".join([f"{options.tasks} tasks/{pause} s", arm, str(repetition), *(f"{value:.0f}" for value in row)]))
        print(f"\n{options.tasks} tasks, {pause} s between two calls, launches of {LAUNCH * 1e3:.0f} ms")
        for arm, rows in found.items():
            rate, middle, late = (statistics.median(row[at] for row in rows) for at in range(3))
            print(f"  {arm:8} {rate:7.0f} calls/s, median {middle / 1e6:7.2f} ms, 99 % {late / 1e6:7.2f} ms")
    if options.record:
        notes = ["cells are tasks/pause"]
        run.write_record(options.record, "cell,arm,repetition,calls_per_second,p50_ns,p99_ns", lines, notes)


if __name__ == "__main__":
    main()
