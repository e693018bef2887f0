#!/usr/bin/env python3
"""Measures the command with mimalloc and with the allocator of the system.

    cargo build --release -p windrow-cli
    cargo build --release -p windrow-cli --features mimalloc --target-dir target/mimalloc
    bench/encoders/allocator.py target/release/windrow target/mimalloc/release/windrow big.txt [--record NAME]

The runs of both take turns, with the first one once more as the control, and the root of each output is compared. Peaks are of resident
memory.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import sys
import tempfile

import datasets
import memory
import run

CHAT = run.ROOT / "crates" / "windrow-tokenizers" / "tests" / "chat"


def inputs(folder, words, size):
    """Writes texts of 20 to 1000 words, one word each, one line, conversations, and nothing."""
    texts = datasets.documents(words, random.Random(1), size)
    with open(folder / "texts.jsonl", "w") as out:
        out.writelines(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
    with open(folder / "tiny.jsonl", "w") as out:
        memory.tiny(out, words, size // 50)
    with open(folder / "line.jsonl", "w") as out:
        memory.line(out, words, size)
    with open(folder / "chat.jsonl", "w") as out:
        for question, answer in zip(texts[0 : len(texts) // 2 : 2], texts[1::2]):
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            out.write(json.dumps({"messages": messages}) + "\n")
    (folder / "empty.txt").write_text("")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", help="the command, built with --release")
    parser.add_argument("mimalloc", help="the same with mimalloc")
    parser.add_argument("text", type=pathlib.Path, help="a plain text file")
    parser.add_argument("--megabytes", type=int, default=100, help="megabytes of text per input (%(default)s)")
    parser.add_argument("--threads", default="1,2,8", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="(%(default)s)")
    parser.add_argument("--tokenizer", help="a tokenizer.json for the Hugging Face engine, measured in one more cell")
    parser.add_argument("--folder", default="/dev/shm", help="folder for the files (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    words = options.text.read_text(errors="replace").split()
    threads = options.threads.split(",")
    template = ["--tokenizer", CHAT / "tokenizer.json", f"--chat={CHAT / 'templates' / 'chatml.jinja'}"]
    cells = {("load", "auto"): ["empty.txt"]}
    for count in threads:
        cells[("texts", count)] = ["texts.jsonl"]
        cells[("tiny", count)] = ["tiny.jsonl"]
        cells[("line", count)] = ["line.jsonl"]
    cells[("kept as JSON lines", "2")] = ["texts.jsonl", "--keep", "id", "--format", "jsonl"]
    cells[("kept as Parquet", "2")] = ["texts.jsonl", "--keep", "id", "--format", "parquet"]
    cells[("chat", "2")] = ["chat.jsonl", *template]
    if options.tokenizer:
        cells[("tokenizers", "2")] = ["texts.jsonl", "--tokenizer", options.tokenizer, "--engine", "tokenizers", "--sample", "0.1"]
    arms = {"system": options.system, "mimalloc": options.mimalloc, "system again": options.system}
    rows, roots, times = [], {}, {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        inputs(folder, words, options.megabytes * 1_000_000)
        for turn in range(options.rounds):
            for (cell, count), (source, *more) in cells.items():
                for arm, command in arms.items():
                    out = folder / "out"
                    shutil.rmtree(out, ignore_errors=True)
                    out.mkdir()
                    words = [command, "encode", folder / source, "-o", out / "out", "--quiet", "--threads", count, *more]
                    peak, _, seconds = memory.peak([*map(str, words)])
                    if roots.setdefault(cell, datasets.root(out)) != datasets.root(out):
                        sys.exit(f"error: another output for {cell}")
                    rows.append(f"{cell}/{count},{arm},{turn},{round(1e9 * seconds)},{peak}")
                    times.setdefault((cell, count), {}).setdefault(arm, []).append((seconds, peak))
            print(f"turn {turn + 1} of {options.rounds}", flush=True)
    for (cell, count), by_arm in times.items():
        median = {arm: [statistics.median(column) for column in zip(*measured)] for arm, measured in by_arm.items()}
        seconds, peak = median["system"]
        other, others_peak = median["mimalloc"]
        print(
            f"{cell:<20} {count} threads: {seconds:.3f} s, {peak / 1024:.0f} MiB; mimalloc by it: {other / seconds:.2f} of the time, "
            f"{others_peak / peak:.2f} of the peak; again {median['system again'][0] / seconds:.2f}"
        )
    if options.record:
        note = "columns: cells are input/threads; nanoseconds of the process, its peak of resident memory in KiB"
        run.write_record(options.record, "cell,arm,repetition,nanoseconds,peak_kib", rows, [note], peers=False)


if __name__ == "__main__":
    main()
