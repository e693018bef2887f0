#!/usr/bin/env python3
"""Measures the peak of resident memory of `windrow encode` beside its budget.

    bench/encoders/memory.py target/release/windrow big.txt [--record NAME]

The corpora are made of the words of the text:

* `unseen`: JSON lines of 500 words, 0.6 % of which are other words, a million different ones;
* `tiny`: ten million JSON lines with one word each;
* `text`: one plain text; `line`: one JSON line.

With `--tokenizer FILE`, which may be given several times, also `tokenizers` 1.0 and 0.23 encode, by files that go to them: they hold a text or a line
as a whole, which may take the bytes a byte of book/src/encode.md. `--one` is the size of these two then.

The command may take the budget, a tenth of it, and what it takes with an empty document: its tokenizer. The peak of a run beyond that fails.
`late` is the largest resident memory in the second half of a run by that in the first, so that a leak shows.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import run

MIB = 1 << 20
WORDS = 500
UNSEEN = 1_000_000


def unseen(out, words, size):
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    others = ["".join(rng.choices(letters, k=rng.randint(5, 12))) for _ in range(UNSEEN)]
    written, used = 0, 0
    while written < size:
        at = rng.randrange(len(words) - WORDS)
        document = words[at : at + WORDS]
        for _ in range(3):
            document[rng.randrange(WORDS)] = others[used % UNSEEN]
            used += 1
        written += out.write(json.dumps({"text": " ".join(document)}) + "\n")
    if used < UNSEEN:
        print(f"note: only {used} of the {UNSEEN} other words occur")


def tiny(out, words, size):
    for number in range(size):
        out.write(json.dumps({"text": words[number % len(words)]}) + "\n")


def text(out, words, size):
    part = " ".join(words) + "\n"
    written = 0
    while written < size:
        written += out.write(part[: size - written])


def line(out, words, size):
    out.write('{"text": "')
    part = json.dumps(" ".join(words) + "\n")[1:-1]
    for _ in range(size // len(part)):
        out.write(part)
    out.write('"}\n')


def peak(command):
    """The peak in KiB, the largest of each half, and seconds."""
    # The system's own count for an ended process begins with the memory of its parent.
    samples, peaks = [], [0]
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def watch():
        while child.returncode is None:
            try:
                status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
                samples.append(int(re.search(r"VmRSS:\s*(\d+)", status)[1]))
                peaks.append(int(re.search(r"VmHWM:\s*(\d+)", status)[1]))
            except (OSError, TypeError):
                pass
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status = os.waitpid(child.pid, 0)
    child.returncode = status
    watcher.join()
    if status:
        sys.exit(f"error: {' '.join(map(str, command))}: {child.stderr.read().decode()}")
    half = len(samples) // 2
    halves = max(samples[:half], default=0), max(samples[half:], default=0)
    return peaks[-1], halves, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windrow", help="the command, built with --release")
    parser.add_argument("text", type=pathlib.Path, help="a plain text file")
    parser.add_argument("--budgets", default="64,256,1024", help="in MiB (%(default)s)")
    parser.add_argument("--threads", default="1,2,8", help="(%(default)s)")
    parser.add_argument("--repetitions", type=int, default=2, help="turns of each cell (%(default)s)")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="folder for the files, some GB (%(default)s)")
    parser.add_argument("--part", type=float, default=1, help="fraction of the corpora to use (%(default)s)")
    parser.add_argument("--tokenizer", action="append", default=[], metavar="FILE", help="a tokenizer.json for another engine")
    parser.add_argument("--one", type=float, default=16e6, help="bytes of one document on another engine (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    words = options.text.read_text(errors="replace").split()
    corpora = {"unseen": (unseen, 2e9), "tiny": (tiny, 1e7), "text": (text, 500e6), "line": (line, 200e6)}
    # Of book/src/encode.md.
    working = {"tokenizers 1": 44, "tokenizers 0": 128}
    rows, failed = [], 0
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        empty = folder / "empty.txt"
        empty.write_text("")
        for name, (make, size) in corpora.items():
            with open(folder / name, "w") as out:
                make(out, words, int(size * options.part))
        for name in ("text", "line"):
            with open(folder / f"one-{name}", "w") as out:
                corpora[name][0](out, words, int(options.one))
        cells = itertools.product(
            range(options.repetitions), map(int, options.budgets.split(",")), map(int, options.threads.split(",")), [None, *options.tokenizer]
        )
        for repetition, budget, threads, vocabulary in cells:
            fixed = ["-o", folder / "out", "--overwrite", "--quiet", "--memory", f"{budget}M", "--threads", threads]
            fixed += ["--tokenizer", vocabulary] if vocabulary else []
            encode = [*map(str, [options.windrow, "encode", *fixed])]
            tokenizer, _, _ = peak([*encode, str(empty)])
            engine = json.loads((folder / "out.manifest.json").read_text())["engine"]
            version = f"{engine['name']} {engine['versions'][engine['name']][:1]}"
            for name in corpora:
                kind = "text" if name == "text" else "jsonl"
                is_one = version in working and name in ("text", "line")
                file = folder / (f"one-{name}" if is_one else name)
                kib, (early, late), seconds = peak([*encode, "--input-format", kind, str(file)])
                budgets = budget * 1024
                if is_one:
                    budgets = max(budgets, working[version] * file.stat().st_size / 1024)
                most = (1.2 if is_one else 1.1) * budgets + tokenizer
                failed += kib > most
                share = kib / most
                arm = f"{name}-{version.split()[1]}" if version in working else name
                print(f"{arm:<9} {budget:>5} MiB {threads:>2} threads: {kib / 1024:6.0f} MiB, {share:.2f} of what is allowed, {seconds:.1f} s{' FAILED' if kib > most else ''}", flush=True)
                rows.append(f"{arm},{budget},{threads},{repetition},{round(1e9 * seconds)},{tokenizer},{kib},{share:.3f},{late / max(early, 1):.3f}")
    if options.record:
        note = "columns: budget in MiB; peak and tokenizer (the peak with an empty document) in KiB; share is the peak by 1.1 budgets and the tokenizer"
        run.write_record(options.record, "arm,budget,threads,repetition,nanoseconds,tokenizer_kib,peak_kib,share,late", rows, [note], peers=False)
    sys.exit(f"error: {failed} runs beyond the budget" if failed else 0)


if __name__ == "__main__":
    main()
