#!/usr/bin/env python3
"""Measures what the Node package leaves to the event loop while a batch of 100 MB runs, and how fast an abort ends one.

* `batch`: the delay of the event loop beside the batch, as `perf_hooks` sees it each millisecond; `control`: for as long beside nothing;
* `abort`: from the abort to the rejection of the promise, and until the process has nothing to do any more.

Each measurement is a fresh process with GPT-2, on 6.5 KB documents or lines of English text.
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

NAMES = ["took_ms", "p50_ms", "p99_ms", "max_ms", "rejected_ms", "quiet_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="processes of each cell (%(default)s)")
    parser.add_argument("--data", type=pathlib.Path, default=corpora.DATA, help="folder with text/ and tok/ (%(default)s)")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    options = parser.parse_args()
    modules = run.node_packages("system")
    tokenizer = str(corpora.tokenizer("gpt2", options.data))
    columns, lines = ",".join(["cell", "arm", "repetition", *NAMES]), []
    print(columns)
    for repetition in range(options.rounds):
        for name in ("big6k", "bigline"):
            for mode in ("loop", "abort"):
                settings = run.placed(2)
                settings["env"]["NODE_PATH"] = str(modules)
                command = ["node", HERE / "child.js", mode, "windrow", tokenizer, corpora.corpus(name, options.data)]
                said = subprocess.run(command, capture_output=True, text=True, check=True, **settings).stdout
                for row in map(json.loads, said.splitlines()):
                    values = [f"{row[name]:.3f}" if name in row else "-" for name in NAMES]
                    lines.append(",".join([name, row["what"], str(repetition), *values]))
                    print(lines[-1], flush=True)
    if options.record:
        run.write_record(options.record, columns, lines, ["cells are corpora; a batch has 100 MB"])


if __name__ == "__main__":
    main()
