#!/usr/bin/env python3
"""Measures what an allocator costs and brings in the Node package: speed, memory and size after 1, 5 and 50 batches, and memory
of this package after 500.

The package is built with the system's allocator and with mimalloc. Each measurement is a fresh process, and the arms take turns. A batch is
1.6 MB of English text in 6.5 KB documents, with GPT-2. `windrow-disposed` gives each batch back with `Symbol.dispose`. Beside it are
`tokenizers`, whose ids are read, and `tiktoken`, which has one thread.

After source document 002, as bench/python/allocator.py.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "encoders"))
import corpora
import run

ARMS = ["windrow", "windrow-disposed", "windrow-mimalloc", "tokenizers", "tiktoken"]
NAMES = ["batches", "took_ns", "bytes", "VmRSS", "VmHWM", "VmPeak", "before_kib", "library"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each arm (%(default)s)")
    parser.add_argument("--threads", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2])
    parser.add_argument("--arms", type=lambda text: text.split(","), default=ARMS, help=",".join(ARMS))
    parser.add_argument("--data", type=pathlib.Path, default=corpora.DATA, help="folder with text/ and tok/ (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    modules = {name: run.node_packages(name) for name in ("system", "mimalloc")}
    place = str(corpora.tokenizer("gpt2", options.data)), str(corpora.corpus("big6k", options.data))
    columns, lines = ",".join(["cell", "arm", "repetition", *NAMES]), []
    print(columns)
    for threads in options.threads:
        for repetition in range(options.rounds):
            for arm in options.arms:
                settings = run.placed(threads)
                settings["env"]["NODE_PATH"] = str(modules["mimalloc" if arm.endswith("mimalloc") else "system"])
                command = ["node", HERE / "child.js", "batches", arm, *place]
                said = subprocess.run(command, capture_output=True, text=True, check=True, **settings).stdout
                for row in map(json.loads, said.splitlines()):
                    cell = f"{threads} threads/{row['batches']} batches"
                    lines.append(",".join([cell, arm, str(repetition), *(str(row[name]) for name in NAMES)]))
                    print(lines[-1], flush=True)
    if options.record:
        run.write_record(options.record, columns, lines, ["cells are threads/batches; memory in KiB"])


if __name__ == "__main__":
    main()
