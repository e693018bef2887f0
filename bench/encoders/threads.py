#!/usr/bin/env python3
"""Measures how `windrow encode` scales with threads, from files in memory to files in memory, with `encode_batch` of tokenizers beside it.

    bench/encoders/threads.py target/release/windrow big.txt gpt2.json [--record NAME]

The files are JSON lines with documents of 6.5 KB. Each copy of the text is cut at other places, so no document is there twice. The arms take
turns, in another random order each time; the operating system places their threads.

* `windrow o200k_base`, `windrow gpt2`: the whole command, with its start, reading, parsing and writing. Every number of threads must give the
  same number of ids.
* `tokenizers gpt2`: `encode_batch` of the Python package alone, on documents in memory: 8 MB for each thread, because it is far slower. Its
  ids of the first documents must be those of windrow.

A rate is bytes of text a second.
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import corpora
import run

WINDROW = ["o200k_base", "gpt2"]
PEER = "tokenizers gpt2"
FILES = 16
# For each thread of the peer.
BATCH = 8_000_000
CHECKED = 200


def documents(text, copy):
    """The text in documents, cut at places that no other copy has."""
    first = 1 + 37 * copy % corpora.DOCUMENT
    return [text[:first], *(text[at : at + corpora.DOCUMENT] for at in range(first, len(text), corpora.DOCUMENT))]


def corpus(folder, text, size):
    """Writes the files; the bytes of their texts."""
    written, copy = 0, 0
    outs = [open(folder / f"{file:02}.jsonl", "w") for file in range(FILES)]
    while written < size:
        for document in documents(text, copy):
            outs[copy % FILES].write(json.dumps({"text": document}) + "\n")
            written += len(document.encode())
        copy += 1
    for out in outs:
        out.close()
    return written


def windrow(options, tokenizer, threads, inputs, out):
    """Seconds of the command, those of them that it encodes for, and the number of ids."""
    command = [options.windrow, "encode", inputs, "-o", out, "--tokenizer", tokenizer, "--threads", str(threads), "--json", "-q", "--overwrite"]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took, said = time.perf_counter() - begin, json.loads(done.stdout)
    return took, said["encoding_seconds"], said["tokens"]


def batch(tokenizer, text, size):
    """The peer in this process: seconds, bytes, and the number of ids of the first documents."""
    import tokenizers

    engine = tokenizers.Tokenizer.from_file(str(tokenizer))
    texts, written, copy = [], 0, 0
    while written < size:
        texts += documents(text, copy)
        written += len(text.encode())
        copy += 1
    while written > size:
        written -= len(texts.pop().encode())
    engine.encode_batch(texts[:4])
    begin = time.perf_counter()
    found = engine.encode_batch(texts, add_special_tokens=False)
    took = time.perf_counter() - begin
    return took, written, sum(len(each.ids) for each in found[:CHECKED])


def peer(options, threads):
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"}
    command = [sys.executable, __file__, options.windrow, options.text, options.tokenizer, "--batch", str(BATCH * threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def measure(options, rng, folder):
    """Of each repetition of each arm: nanoseconds, those of them that it encodes for, bytes."""
    text = options.text.read_bytes().decode()
    inputs, out = folder / "in", folder / "out"
    inputs.mkdir()
    size = corpus(inputs, text, int(options.gigabytes * 1e9))
    some = folder / "some.jsonl"
    some.write_text("".join(json.dumps({"text": it}) + "\n" for it in documents(text, 0)[:CHECKED]))
    expected = windrow(options, "gpt2", 1, some, out)[2]
    found, counts = {}, {}
    arms = [(f"windrow {name}", threads) for name in WINDROW for threads in options.threads]
    with_peer = [*arms, *((PEER, threads) for threads in options.threads)]
    for repetition in range(options.repetitions):
        turn = with_peer if repetition < options.peer_repetitions else arms
        for arm, threads in rng.sample(turn, len(turn)):
            if arm == PEER:
                seconds, encoded, ids = peer(options, threads)
                encoding = seconds
                if ids != expected:
                    sys.exit(f"error: {arm}: {ids} ids of the first documents, {expected} of windrow")
            else:
                (seconds, encoding, ids), encoded = windrow(options, arm.split()[1], threads, inputs, out), size
                if counts.setdefault(arm, ids) != ids:
                    sys.exit(f"error: {arm}: {ids} ids on {threads} threads, {counts[arm]} before")
            found.setdefault((arm, threads), []).append((round(1e9 * seconds), round(1e9 * encoding), encoded))
    return found, size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windrow", help="the command, built with --release")
    parser.add_argument("text", type=pathlib.Path, help="a plain text file")
    parser.add_argument("tokenizer", type=pathlib.Path, help="the tokenizer.json of gpt2")
    parser.add_argument("--threads", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 4, 8, 16])
    parser.add_argument("--gigabytes", type=float, default=1, help="gigabytes of text in the files (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=5, help="turns of each arm (%(default)s)")
    parser.add_argument("--peer-repetitions", type=int, default=3, help="turns of tokenizers (%(default)s)")
    parser.add_argument("--folder", default="/dev/shm", help="for the files (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    parser.add_argument("--commit", help="commit for the record, if this folder is not a checkout")
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.batch:
        print(json.dumps(batch(options.tokenizer, options.text.read_bytes().decode(), options.batch)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found, size = measure(options, random.Random(1), pathlib.Path(folder))
    lines = ["arm,threads,repetition,nanoseconds,encoding_ns,bytes,mb_per_s"]
    for (arm, threads), of in sorted(found.items()):
        rates = [1e3 * encoded / nanoseconds for nanoseconds, _, encoded in of]
        single = [1e3 * encoded / nanoseconds for nanoseconds, _, encoded in found[arm, min(options.threads)]]
        encoding = statistics.median(part / whole for whole, part, _ in of)
        middle = statistics.median(rates)
        speedup = middle / statistics.median(single)
        print(f"{arm:<20} {threads:>3} threads {middle:>8.1f} MB/s ({min(rates):.1f} to {max(rates):.1f}), x{speedup:.2f}, {encoding:.0%} encoding", flush=True)
        each = enumerate(zip(of, rates))
        lines += [f"{arm},{threads},{turn},{','.join(map(str, one))},{rate:.1f}" for turn, (one, rate) in each]
    if not options.record:
        return
    cores = re.search(r"Thread\(s\) per core:\s*(\d+)", run.said("lscpu") or "")
    try:
        import tokenizers
    except ImportError:
        tokenizers = None
    head = [
        f"command: bench/encoders/threads.py target/release/windrow {options.text.name} {options.tokenizer.name} --record {options.record}",
        f"machine: {run.machine()}",
        f"commit: {options.commit or run.commit()}",
        f"wheel of tokenizers {tokenizers.__version__ if tokenizers else '-'}",
        f"bytes of text in {FILES} files of JSON lines: {size}; threads of a core: {cores[1] if cores else '-'}",
    ]
    run.write_lines(options.record, head, lines)


if __name__ == "__main__":
    main()
