#!/usr/bin/env python3
"""Forks a process that has used `windrow.Tokenizer`, again and again, and has each child encode.

A child writes a hash of its ids into a pipe, which the parent compares. A child without an answer after 20 s counts as a hang, and is killed.

* `after-use`: the parent has encoded a batch with several threads; the child encodes one text;
* `parallel-in-child`: the child encodes a batch with several threads;
* `while-encoding`: another thread of the parent encodes batches all the time; the child encodes such a batch.

It needs the package: `pip install ./bindings/python`.
"""

import argparse
import contextlib
import hashlib
import os
import pathlib
import select
import signal
import sys
import threading
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "encoders"))
import corpora
import run

MODES = ["after-use", "parallel-in-child", "while-encoding"]
DEADLINE = 20
TASKS = "/proc/self/task"


def answer(tokenizer, texts):
    """A hash of the ids."""
    ids = tokenizer.encode_batch_ids(texts)
    return hashlib.blake2b(ids.values.tobytes() + ids.offsets.tobytes(), digest_size=32).digest()


def probe(tokenizer, texts):
    """The answer of a child, and whether it had several threads; nothing if it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = answer(tokenizer, texts)
            os.write(write, bytes([len(os.listdir(TASKS)) > 1]) + found)
        finally:
            os._exit(0)
    os.close(write)
    is_ready = select.select([read], [], [], DEADLINE)[0]
    if not is_ready:
        os.kill(child, signal.SIGKILL)
    found = os.read(read, 64)
    os.close(read)
    os.waitpid(child, 0)
    return (found[1:], found[:1] == b"\1") if is_ready else None


@contextlib.contextmanager
def encoding(tokenizer, texts):
    """Another thread encodes."""
    begun, ends = threading.Event(), threading.Event()

    def work():
        while not ends.is_set():
            tokenizer.encode_batch_ids(texts)
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def measure(mode, probes, tokenizer, texts):
    # What the parent has used: its threads, and the caches of the tokenizer.
    answer(tokenizer, texts)
    if len(os.listdir(TASKS)) == 1:
        run.stop("the parent encoded its batch with one thread", "set WINDROW_THREADS=2, or pass a larger --bytes")
    asked = texts[:1] if mode == "after-use" else texts
    expected = answer(tokenizer, asked)
    hangs = differences = parallel = 0
    with encoding(tokenizer, texts) if mode == "while-encoding" else contextlib.nullcontext():
        begin = time.perf_counter()
        for _ in range(probes):
            found = probe(tokenizer, asked)
            if found is None:
                hangs += 1
                continue
            differences += found[0] != expected
            parallel += found[1]
        took = time.perf_counter() - begin
    print(f"{mode}: {parallel} of {probes} children had several threads", file=sys.stderr)
    if mode == "parallel-in-child" and parallel < probes - hangs:
        run.stop("a child encoded its batch with one thread", "pass a larger --bytes")
    return f"{mode},{probes},{hangs},{differences},{took:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=10_000, help="forks of each mode (%(default)s)")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=MODES, help=",".join(MODES))
    parser.add_argument("--tokenizer", default="gpt2", help="a tiktoken name or the path to a tokenizer.json (%(default)s)")
    parser.add_argument("--bytes", type=int, default=400_000, help="bytes per batch (%(default)s)")
    parser.add_argument("--data", type=pathlib.Path, default=corpora.DATA, help="folder with text/ (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    for mode in options.modes:
        if mode not in MODES:
            parser.error(f"no mode {mode!r} among {', '.join(MODES)}")
    # Before the first batch. The pool of a process has as many threads as CPUs, and with one CPU there is nothing to probe.
    os.environ.setdefault("WINDROW_THREADS", str(max(2, len(os.sched_getaffinity(0)))))
    # Python warns of forks beside threads, each time.
    warnings.simplefilter("ignore", DeprecationWarning)
    import windrow

    is_file = "." in options.tokenizer or "/" in options.tokenizer
    tokenizer = (windrow.Tokenizer.from_file if is_file else windrow.Tokenizer.from_tiktoken)(options.tokenizer)
    text = (options.data / "text" / "big.txt").read_bytes().decode()[: options.bytes]
    texts = corpora.every(text, max(1, len(text) // 64))
    columns, lines = "mode,probes,hangs,differences,seconds", []
    print(columns)
    for mode in options.modes:
        lines.append(measure(mode, options.probes, tokenizer, texts))
        print(lines[-1], flush=True)
    if options.record:
        run.write_record(options.record, columns, lines, [f"{DEADLINE} s without an answer are a hang"])
    sys.exit(any(line.split(",")[2:4] != ["0", "0"] for line in lines))


if __name__ == "__main__":
    main()
