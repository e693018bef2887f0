#!/usr/bin/env python3
"""Measures what one text costs in a call for itself, beside what it costs in a large batch.

Everything runs on one CPU. The arms take turns.

* `batch`: a part of `encode_batch_ids` of a thousand times the text, with `TOKENIZERS_PARALLELISM=false`: as if the engine were called without
  Python;
* `ids`: `encode_batch_ids([text])`;
* `ids-off`: the same with `TOKENIZERS_PARALLELISM=false`;
* `encode`: `encode(text).ids`;
* `encode-batch`: `encode_batch([text])[0].ids`, which should cost no more.

It needs the package: `pip install ./bindings/python`.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "encoders"))
import corpora
import run

SIZES = [10, 1_000, 6_500, 100_000]
ARMS = ["batch", "ids", "ids-off", "encode", "encode-batch"]
BATCH = 1000
OFF = "TOKENIZERS_PARALLELISM"


def cut(text, size):
    """A text of so many bytes, or a few less."""
    return text.encode()[:size].decode(errors="ignore")


def measure(tokenizer, text, rounds, seconds):
    """The times of each arm for a text, in nanoseconds, one a round."""
    texts = [text] * BATCH
    calls = {
        "batch": lambda: tokenizer.encode_batch_ids(texts),
        "ids": lambda: tokenizer.encode_batch_ids([text]),
        "ids-off": lambda: tokenizer.encode_batch_ids([text]),
        "encode": lambda: tokenizer.encode(text).ids,
        "encode-batch": lambda: tokenizer.encode_batch([text])[0].ids,
    }

    def timed(arm, repetitions):
        os.environ.pop(OFF, None)
        if arm in ("batch", "ids-off"):
            os.environ[OFF] = "false"
        call = calls[arm]
        begin = time.perf_counter_ns()
        for _ in range(repetitions):
            call()
        return (time.perf_counter_ns() - begin) / repetitions

    repetitions = {}
    for arm in ARMS:
        timed(arm, 1)
        repetitions[arm] = max(1, int(seconds * 1e9 / timed(arm, 1)))
    found = {arm: [] for arm in ARMS}
    for _ in range(rounds):
        for arm in ARMS:
            found[arm].append(timed(arm, repetitions[arm]) / (BATCH if arm == "batch" else 1))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each arm (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.2, help="seconds per turn (%(default)s)")
    parser.add_argument("--tokenizer", default="gpt2", help="a tiktoken name or the path to a tokenizer.json (%(default)s)")
    parser.add_argument("--data", type=pathlib.Path, default=corpora.DATA, help="folder with text/ (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    # Before the pool counts the CPUs.
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [max(cpus)])
    import windrow

    is_file = "." in options.tokenizer or "/" in options.tokenizer
    tokenizer = (windrow.Tokenizer.from_file if is_file else windrow.Tokenizer.from_tiktoken)(options.tokenizer)
    big = (options.data / "text" / "big.txt").read_bytes().decode()
    # The engine has its tables before anything is measured.
    tokenizer.encode_batch_ids([big])
    columns, lines = "bytes,arm,ns_per_text,ns_over_batch,ratio_to_batch", []
    print(columns)
    for size in SIZES:
        text = cut(big[1000:], size)
        medians = {arm: statistics.median(times) for arm, times in measure(tokenizer, text, options.rounds, options.seconds).items()}
        for arm, median in medians.items():
            base = medians["batch"]
            lines.append(f"{len(text.encode())},{arm},{median:.0f},{median - base:.0f},{median / base:.3f}")
            print(lines[-1], flush=True)
    os.sched_setaffinity(0, cpus)
    if options.record:
        run.write_record(options.record, columns, lines, [f"medians of {options.rounds} rounds"])


if __name__ == "__main__":
    main()
