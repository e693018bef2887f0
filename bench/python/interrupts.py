#!/usr/bin/env python3
"""Measures how long Ctrl-C takes to end a batch: from the signal to the `KeyboardInterrupt`.

The items of the batch take about a millisecond each, and the batch takes seconds. The signal comes at a random moment.

It needs the package: `pip install ./bindings/python`.
"""

import argparse
import os
import pathlib
import random
import signal
import statistics
import string
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "encoders"))
import run

ITEM = 0.001
# The signal comes that many seconds after the start of the batch.
MOMENTS = 0.02, 0.5


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def calibrated(encode, text):
    """Texts that take about `ITEM` seconds each, and what they take."""
    size = 1000
    while True:
        texts = [text[n * size : (n + 1) * size] for n in range(8)]
        if len(texts[-1]) < size:
            run.stop(f"{size} characters take less than {ITEM} s, and the text has no more", "pass another --tokenizer")
        # The first time fills caches.
        item = statistics.median(min(seconds_of(lambda: encode([one])) for _ in range(3)) for one in texts)
        if 0.9 * ITEM < item < 1.1 * ITEM:
            return texts, item
        size = max(1, int(size * min(4, max(0.25, ITEM / item))))


def latency(encode, texts, moment):
    """The time from the signal to the exception."""
    sent = []

    def send():
        time.sleep(moment)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    try:
        thread.start()
        encode(texts)
    except KeyboardInterrupt:
        end = time.perf_counter()
        thread.join()
        return end - sent[0]
    run.stop("the batch ended before the signal", "pass a larger --items")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="batches (%(default)s)")
    parser.add_argument("--items", type=int, help="items per batch (default: enough for 3 s)")
    parser.add_argument("--tokenizer", default="gpt2", help="a tiktoken name or the path to a tokenizer.json (%(default)s)")
    parser.add_argument("--encodings", action="store_true", help="measure `encode_batch` of pairs instead of `encode_batch_ids`")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    # A process that a shell has started in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import windrow

    is_file = "." in options.tokenizer or "/" in options.tokenizer
    tokenizer = (windrow.Tokenizer.from_file if is_file else windrow.Tokenizer.from_tiktoken)(options.tokenizer)
    # A single piece that no cache has: text of a language takes so little that a batch of seconds fills the memory.
    text = "".join(random.Random(1).choices(string.ascii_lowercase, k=2_000_000))
    if options.encodings:
        encode = lambda texts: tokenizer.encode_batch([(one, "") for one in texts])
    else:
        encode = tokenizer.encode_batch_ids
    texts, item = calibrated(encode, text)
    cpus = len(os.sched_getaffinity(0))
    items = options.items or int(3 * cpus / item)
    batch = [texts[n % len(texts)] for n in range(items)]
    chance, found = random.Random(1), []
    for _ in range(options.runs):
        found.append(latency(encode, batch, chance.uniform(*MOMENTS)) * 1e3)
    found.sort()
    at = lambda share: found[round(share * (len(found) - 1))]
    method = "encode_batch" if options.encodings else "encode_batch_ids"
    columns = "method,runs,item_ms,p50_ms,p99_ms,max_ms"
    line = f"{method},{len(found)},{item * 1e3:.2f},{at(0.5):.1f},{at(0.99):.1f},{found[-1]:.1f}"
    print(columns, line, sep="\n")
    if options.record:
        notes = [f"{cpus} CPUs, batches of {items} items"]
        run.write_record(options.record, columns, [line], notes)


if __name__ == "__main__":
    main()
