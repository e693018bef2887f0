#!/usr/bin/env python3
"""Measures encoders from file to file: documents of a file to a file of ids.

Each measurement is a fresh process on as many CPUs as it has threads, from its start to its end; the arms take turns. README.md says what
is measured.
"""

import argparse
import gzip
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

import corpora
import run

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
ALTERED = 0.03

# Encodes a thousand lines at a time by `encode`, which gives a list of ids for each.
LISTS = """total = 0
with open(sys.argv[2], encoding="utf-8") as lines, open(sys.argv[3], "wb") as out:
    batch = []
    def flush():
        count = 0
        for ids in encode(batch):
            out.write(numpy.array(ids, "<u2").tobytes())
            count += len(ids)
        batch.clear()
        return count
    for line in lines:
        batch.append(json.loads(line)["text"])
        if len(batch) == 1000:
            total += flush()
    total += flush() if batch else 0
print(total)
"""

# What a user of a library writes. Each prints the number of ids.
SCRIPTS = {
    "gigatoken": """
import sys, numpy, gigatoken
tokenizer = gigatoken.Tokenizer.from_json(open(sys.argv[1], "rb").read())
source = sys.argv[2] if sys.argv[2].endswith(".txt") else gigatoken.JsonlFileSource([sys.argv[2]])
ids = tokenizer.encode_files(source, parallel=sys.argv[4] != "1").layout.content.data
numpy.save(sys.argv[3], numpy.asarray(ids).astype(numpy.uint16))
print(len(ids))
""",
    "fastokens": """
import sys, json, gzip, numpy, fastokens
tokenizer = fastokens.Tokenizer.from_file(sys.argv[1])
opened = gzip.open if sys.argv[2].endswith(".gz") else open
total = 0
with opened(sys.argv[2], "rt", encoding="utf-8") as lines, open(sys.argv[3], "wb") as out:
    batch = []
    def flush():
        ids = numpy.frombuffer(tokenizer.encode_batch_flat(batch, add_special_tokens=False)[0], "<u4")
        out.write(ids.astype("<u2").tobytes())
        batch.clear()
        return len(ids)
    texts = [lines.read()] if ".txt" in sys.argv[2] else (json.loads(line)["text"] for line in lines)
    for text in texts:
        batch.append(text)
        if len(batch) == 1000:
            total += flush()
    total += flush() if batch else 0
print(total)
""",
    "tokenizers": """
import sys, json, numpy, tokenizers
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
def encode(batch):
    return (encoding.ids for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False))
"""
    + LISTS,
}
# The loop of Megatron's preprocess_data: processes that encode a document at a time, and one that writes.
SCRIPTS["preprocess_data"] = """
import sys, json, numpy, tokenizers, multiprocessing
def start():
    global tokenizer
    tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
def encode(line):
    return tokenizer.encode(json.loads(line)["text"], add_special_tokens=False).ids
total = 0
with open(sys.argv[2], encoding="utf-8") as lines, open(sys.argv[3], "wb") as out:
    with multiprocessing.Pool(int(sys.argv[4]), initializer=start) as pool:
        for ids in pool.imap(encode, lines, 32):
            out.write(numpy.array(ids, "<u2").tobytes())
            total += len(ids)
print(total)
"""
SCRIPTS["datasets"] = """
import sys, os, datasets, tokenizers
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
datasets.disable_progress_bars()
def encode(batch):
    return {"ids": [it.ids for it in tokenizer.encode_batch_fast(batch["text"], add_special_tokens=False)]}
cache, processes = sys.argv[3] + ".cache", int(sys.argv[4])
rows = datasets.load_dataset("json", data_files=sys.argv[2], split="train", cache_dir=cache)
made = datasets.Features({"ids": datasets.Sequence(datasets.Value("uint16"))})
rows = rows.map(encode, batched=True, remove_columns=["text"], num_proc=processes if processes > 1 else None, features=made)
rows.save_to_disk(sys.argv[3])
print(sum(len(ids) for ids in rows.with_format("arrow")["ids"]))
"""
# From the file that the others read: `tiktoken.get_encoding` fetches an equal vocabulary from the network.
SCRIPTS["tiktoken"] = r"""
import sys, json, numpy, tiktoken
with open(sys.argv[1], encoding="utf-8") as file:
    file = json.load(file)
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [byte for byte in range(256) if byte not in plain]
byte_of = {chr(byte): byte for byte in plain} | {chr(256 + at): byte for at, byte in enumerate(others)}
special = {token["content"]: token["id"] for token in file["added_tokens"]}
ranks = {bytes(map(byte_of.get, text)): id for text, id in file["model"]["vocab"].items() if text not in special}
pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
encoding = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
def encode(batch):
    return encoding.encode_ordinary_batch(batch, num_threads=int(sys.argv[4]))
""" + LISTS
ARMS = ["windrow", *SCRIPTS]
# Far slower: they get a twentieth of the documents.
SLOW, SHARE = ["tokenizers", "preprocess_data", "datasets", "tiktoken"], 20


def documents(big):
    """Parts of an English text, some 6 KB each, between paragraphs."""
    parts, part, size = [], [], 0
    for paragraph in big.split("\n\n"):
        part.append(paragraph)
        size += len(paragraph)
        if size > 6000:
            parts.append("\n\n".join(part))
            part, size = [], 0
    return [*parts, "\n\n".join(part)]


def altered(text, chance):
    words = text.split(" ")
    for at, word in enumerate(words):
        if len(word) > 1 and chance.random() < ALTERED:
            place = chance.randrange(len(word))
            words[at] = word[:place] + chance.choice(ALPHABET) + word[place + 1 :]
    return " ".join(words)


def make(folder, data, megabytes):
    """The inputs, if they are missing: repeated and altered documents as JSON lines, compressed ones, and a single text."""
    big = (data / "text" / "big.txt").read_text(encoding="utf-8", errors="replace")
    parts, chance = documents(big), random.Random(7)
    names = {}
    for name in ("repeated", "altered"):
        names[name] = path = folder / f"{name}-{megabytes}.jsonl"
        if not path.exists():
            with open(path, "w", encoding="utf-8") as file:
                while file.tell() < megabytes * 10**6:
                    text = chance.choice(parts)
                    text = altered(text, chance) if name == "altered" else text
                    file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    names["text"] = path = folder / f"text-{megabytes}.txt"
    if not path.exists():
        path.write_text(big * max(1, megabytes * 10**6 // len(big.encode())), encoding="utf-8")
    names["gz"] = path = folder / f"altered-{megabytes}.jsonl.gz"
    if not path.exists():
        with open(names["altered"], "rb") as plain, gzip.open(path, "wb", 6) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
    names["zst"] = path = folder / f"altered-{megabytes}.jsonl.zst"
    if not path.exists():
        subprocess.run(["zstd", "-q", "-3", "-k", names["altered"], "-o", path], check=True)
    names["slow"] = path = folder / f"altered-{megabytes}-slow.jsonl"
    if not path.exists():
        with open(names["altered"], encoding="utf-8") as file:
            lines = file.readlines()
        path.write_text("".join(lines[: len(lines) // SHARE]), encoding="utf-8")
    return names


def measure(arm, options, path, threads):
    """Seconds, CPU seconds, peak KiB and ids of a process; a text if it failed."""
    out = options.folder / "out"
    for old in options.folder.glob("out*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    tokenizer = corpora.tokenizer("gpt2", options.data)
    if arm == "windrow":
        words = [options.windrow, "encode", path, "-o", out, "--threads", str(threads), "--tokenizer", tokenizer, "--json"]
        words.append("--special-in-text")  # as the others
    else:
        words = [run.VENV / "bin" / "python", "-c", SCRIPTS[arm], tokenizer, path, out.with_suffix(".npy"), str(threads)]
    begin = time.perf_counter()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(list(map(str, words)), text=True, **pipes, **run.placed(threads))
    said, complaint = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return (complaint.splitlines() or [f"exit status {process.returncode}"])[-1][:160]
    ids = json.loads(said)["tokens"] if arm == "windrow" else int(said)
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss, ids


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/dev/shm/windrow-files"), help="%(default)s")
    parser.add_argument("--megabytes", type=int, default=254, help="bytes of an input, in millions (%(default)s)")
    parser.add_argument("--inputs", default="repeated,altered,text,gz,zst,slow", help="%(default)s")
    parser.add_argument("--arms", default=",".join(ARMS), help="%(default)s")
    parser.add_argument("--threads", default="1,2", help="%(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each arm (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    parser.add_argument("--data", type=pathlib.Path, default=corpora.DATA, help="folder with text/ and tok/ (%(default)s)")
    options = parser.parse_args()
    if running := list(run.builds()):
        run.stop(f"a build is running: {', '.join(running)}", "wait for it")
    if options.record and run.commit().endswith("-dirty") and "WINDROW_RECORD_DIRTY" not in os.environ:
        run.stop(f"uncommitted code is not recorded ({run.commit()})", "commit first")
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked", "-p", "windrow-cli"], cwd=run.ROOT, check=True)
    options.windrow = run.ROOT / "target" / "release" / "windrow"
    run.prepare()
    options.folder.mkdir(exist_ok=True)
    inputs = make(options.folder, options.data, options.megabytes)
    lines = []
    for name in options.inputs.split(","):
        path = inputs[name]
        size = inputs["altered"].stat().st_size if name in ("gz", "zst") else path.stat().st_size
        arms = [arm for arm in options.arms.split(",") if (arm not in SLOW or name == "slow") and not (arm == "gigatoken" and name in ("gz", "zst"))]
        arms = [arm for arm in arms if not (arm == "fastokens" and name == "zst")]
        for threads in map(int, options.threads.split(",")):
            found = {}
            for repetition in range(options.rounds):
                for arm in arms:
                    got = measure(arm, options, path, threads)
                    if isinstance(got, str):
                        print(f"{name} {threads}: {arm} failed: {got}")
                        continue
                    found.setdefault(arm, []).append(got)
                    values = [f"{got[0] * 1e9:.0f}", f"{got[1] * 1e9:.0f}", str(got[2]), str(got[3]), str(size)]
                    lines.append(",".join([f"{name}/{threads}", arm, str(repetition), *values]))
            print(f"\n{name}, {size / 1e6:.0f} MB, {threads} thread{'s' if threads > 1 else ''}")
            for arm, rows in found.items():
                seconds = [row[0] for row in rows]
                middle = statistics.median(seconds)
                cpu, peak = statistics.median(row[1] for row in rows), max(row[2] for row in rows) / 1024
                spread = f"{min(seconds):.2f}-{max(seconds):.2f}"
                print(f"  {arm:11} {middle:6.2f} s ({spread}) {size / 1e6 / middle:6.1f} MB/s, CPU {cpu:6.2f} s, peak {peak:5.0f} MiB, {rows[0][3]} ids")
            sys.stdout.flush()
    if options.record:
        run.write_record(options.record, "cell,arm,repetition,nanoseconds,cpu_nanoseconds,peak_kib,ids,bytes", lines, ["cells are input/threads"])


if __name__ == "__main__":
    main()
