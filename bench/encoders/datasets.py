#!/usr/bin/env python3
"""Measures how `windrow encode` and `windrow verify` read: several inputs side by side, Parquet beside JSON lines, and outputs again.

    bench/encoders/datasets.py target/release/windrow big.txt [--record NAME]

The same documents are stored in `--files` files of JSON lines (plain, gzip, zstd) and Parquet (snappy, zstd; needs pyarrow). The arms of
`read` have one reader, two, or as many as pay; those of `format` write Megatron files with all threads. `verify` reads outputs that were
just written. All arms take turns, and the root of each output is compared.
"""

import argparse
import gzip
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import run

STORED = ["plain", "gzip", "zstd", "parquet-snappy", "parquet-zstd"]


def documents(words, rng, size):
    """Texts of 20 to 1000 words, a few of them made up."""
    texts, written = [], 0
    while written < size:
        count = min(int(rng.lognormvariate(5.2, 0.9)) + 20, 1000)
        at = rng.randrange(len(words) - count)
        document = words[at : at + count]
        document[rng.randrange(count)] += str(rng.randrange(10**6))
        texts.append(" ".join(document))
        written += len(texts[-1])
    return texts


def store(folder, number, texts):
    lines = "".join(json.dumps({"id": str(index), "text": text}) + "\n" for index, text in enumerate(texts)).encode()
    (folder / "plain" / f"{number:03}.jsonl").write_bytes(lines)
    (folder / "gzip" / f"{number:03}.jsonl.gz").write_bytes(gzip.compress(lines, 6))
    zstd = ["zstd", "-q", "-3", "-o", folder / "zstd" / f"{number:03}.jsonl.zst", folder / "plain" / f"{number:03}.jsonl"]
    subprocess.run(zstd, check=True)
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"id": [str(index) for index in range(len(texts))], "text": texts})
    for codec in ("snappy", "zstd"):
        path = folder / f"parquet-{codec}" / f"{number:03}.parquet"
        pyarrow.parquet.write_table(table, path, compression=codec, row_group_size=10_000)


def bytes_in(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def encode(options, source, out, *more):
    """What the command says of a run."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    command = [options.windrow, "encode", source, "-o", out / "out", "--quiet", "--json", *more]
    if options.threads:
        command += ["--threads", options.threads]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}: {done.stderr}")
    return json.loads(done.stdout)


def root(out):
    manifests = list(out.glob("*.manifest.json"))
    return json.loads(manifests[0].read_text())["outputs_blake3"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windrow", help="the command, built with --release")
    parser.add_argument("text", type=pathlib.Path, help="a plain text file")
    parser.add_argument("--files", type=int, default=12, help="(%(default)s)")
    parser.add_argument("--megabytes", type=int, default=24, help="text in each file (%(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads for encode; 0: its default (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--only", default="read,format,verify", help="(%(default)s)")
    parser.add_argument("--folder", default="/dev/shm", help="folder for the files (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    words = options.text.read_text(errors="replace").split()
    rng = random.Random(1)
    rows, roots = [], {}

    def note(group, cell, arm, turn, seconds, size, readers=0):
        print(f"{turn} {group:<7} {cell:<15} {arm:<10} {size / seconds / 1e6:8.0f} MB/s {readers} readers", flush=True)
        rows.append(f"{group}/{cell},{arm},{turn},{round(1e9 * seconds)},{size},{size / seconds / 1e6:.0f},{readers}")

    def same(cell, out):
        if roots.setdefault(cell, root(out)) != root(out):
            sys.exit(f"error: another output for {cell}")

    wanted = options.only.split(",")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        for kind in STORED:
            (folder / kind).mkdir()
        for number in range(options.files):
            store(folder, number, documents(words, rng, options.megabytes * 1_000_000))
        out = folder / "out"
        for turn in range(options.rounds):
            for kind in STORED if "read" in wanted else []:
                for arm in ("1", "2", "auto", "1 again"):
                    said = encode(options, folder / kind, out, "--readers", arm.split()[0])
                    same("npy", out)
                    note("read", kind, arm, turn, said["encoding_seconds"], said["bytes"], said["readers"])
            for kind in ("plain", "parquet-snappy", "parquet-zstd", "plain again") if "format" in wanted else []:
                said = encode(options, folder / kind.split()[0], out, "--format", "megatron")
                same("megatron", out)
                note("format", "megatron", kind, turn, said["encoding_seconds"], said["bytes"], said["readers"])
        for kind in ("npy", "nanogpt", "megatron", "datatrove", "jsonl", "arrow", "parquet") if "verify" in wanted else []:
            # Counted in bytes of the output.
            encode(options, folder / "plain", out, "--format", kind, "--tokenizer", "gpt2")
            size = bytes_in(out)
            for turn in range(options.rounds):
                begin = time.perf_counter()
                done = subprocess.run([options.windrow, "verify", str(out / "out")], capture_output=True, text=True)
                seconds = time.perf_counter() - begin
                if done.returncode:
                    sys.exit(f"error: verify of {kind}: {done.stderr}")
                note("verify", kind, "verify", turn, seconds, size)
    if options.record:
        note = "columns: bytes of text, for verify of the output; nanoseconds of encoding, for verify of the process"
        run.write_record(options.record, "cell,arm,repetition,nanoseconds,bytes,mb_per_s,readers", rows, [note], peers=False)


if __name__ == "__main__":
    main()
