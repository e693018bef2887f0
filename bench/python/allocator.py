#!/usr/bin/env python3
"""Measures what an allocator costs and brings: speed, memory and size of the package after 1, 5 and 50 batches.

Two wheels of the package are built, with the system's allocator and with mimalloc. Each measurement is a fresh process, and the arms take
turns. A batch is 1.6 MB of English text in 6.5 KB documents, with GPT-2. Its result is dropped before the next batch.

* `windrow`: `encode_batch_ids`, flat memory;
* `windrow-encodings`: `encode_batch`, and the ids and masks of each encoding are read;
* `tokenizers`: `encode_batch_fast` of Hugging Face's wheel, which has an allocator by itself;
* arms that end in `-mimalloc` are those of the second wheel.

After source document 002, whose table this is, and whose question: is the allocator worth its memory?
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "encoders"))
import corpora
import run

CHECKPOINTS = 1, 5, 50
ARMS = ["windrow", "windrow-mimalloc", "windrow-encodings", "windrow-encodings-mimalloc", "tokenizers"]
WHEELS = corpora.CACHE / "wheels"


def build():
    """Unpacks both wheels."""
    for name, features in (("system", []), ("mimalloc", ["--config-settings=build-args=--features mimalloc"])):
        place = [f"--target={WHEELS / name}", "--upgrade", "--no-deps", "--quiet", "--disable-pip-version-check"]
        command = [run.VENV / "bin" / "pip", "install", *place, *features, run.ROOT / "bindings" / "python"]
        subprocess.run(command, check=True)


def memory():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmPeak", "VmHWM", "VmRSS"))}


def child(arm, tokenizer, corpus):
    texts = [text.decode() for text in corpora.documents(pathlib.Path(corpus))][::4]
    bytes_of = sum(len(text.encode()) for text in texts)
    if arm == "tokenizers":
        import tokenizers as package

        encode = package.Tokenizer.from_file(tokenizer).encode_batch_fast
    else:
        import windrow as package

        ours = package.Tokenizer.from_file(tokenizer)
        encode = ours.encode_batch if "encodings" in arm else ours.encode_batch_ids
    library = next(pathlib.Path(package.__file__).parent.glob("*.so")).stat().st_size
    before = memory()["VmRSS"]
    took = 0
    for number in range(1, max(CHECKPOINTS) + 1):
        begin = time.perf_counter_ns()
        result = encode(texts)
        if "encodings" in arm:
            read = [(one.ids, one.attention_mask) for one in result]
            del read
        took += time.perf_counter_ns() - begin
        del result
        if number in CHECKPOINTS:
            said = {"batches": number, "took_ns": took, "bytes": bytes_of * number, "before_kib": before, "library": library}
            print(json.dumps({**said, **memory()}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each arm (%(default)s)")
    parser.add_argument("--threads", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2])
    parser.add_argument("--arms", type=lambda text: text.split(","), default=ARMS, help=",".join(ARMS))
    parser.add_argument("--data", type=pathlib.Path, default=corpora.DATA, help="folder with text/ and tok/ (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    run.prepare()
    build()
    place = str(corpora.tokenizer("gpt2", options.data)), str(corpora.corpus("big6k", options.data))
    names = ["batches", "took_ns", "bytes", "VmRSS", "VmHWM", "VmPeak", "before_kib", "library"]
    columns, lines = ",".join(["cell", "arm", "repetition", *names]), []
    print(columns)
    for threads in options.threads:
        for repetition in range(options.rounds):
            for arm in options.arms:
                settings = run.placed(threads)
                settings["env"]["PYTHONPATH"] = str(WHEELS / ("mimalloc" if arm.endswith("mimalloc") else "system"))
                command = [run.VENV / "bin" / "python", __file__, "--child", arm, *place]
                said = subprocess.run(command, capture_output=True, text=True, check=True, **settings).stdout
                for row in map(json.loads, said.splitlines()):
                    cell = f"{threads} threads/{row['batches']} batches"
                    lines.append(",".join([cell, arm, str(repetition), *(str(row[name]) for name in names)]))
                    print(lines[-1], flush=True)
    if options.record:
        run.write_record(options.record, columns, lines, ["cells are threads/batches; memory in KiB"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
