#!/usr/bin/env python3
"""Turns the results of `windrow bench --json FILE` into a record.

    bench/regret.py FILE.json --record regret [--machine "Intel(R) Xeon(R) Processor x16" --commit abc1234]

Each line is a cell. `harm` is windrow's time relative to that of the plain code, and `regret` relative to that of the best hand-picked choice. Both are
from the half of the repetitions in which they are smaller, so that a loss is one that both halves show. `control` is the plain code relative to itself.
"""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "encoders"))
import run

# The bars of regret, and those of harm.
REGRETS, HARMS = [1.03, 1.10, 1.25], [1.05, 1.15]


def line(cell):
    harm, regret = min(cell["harm"]["halves"]), min(cell["regret"]["halves"]) if cell["regret"] else 1.0
    nanos = [round(cell[arm]["median"], 1) for arm in ("serial", "windrow")]
    why = cell["why"].replace(",", ";").replace("\n", " ")
    name = f"{cell['shape']}/{cell['name'].replace(', ', '/')}"
    return name, cell["cold"], harm, regret, ",".join(map(str, [name, *nanos, round(harm, 4), round(regret, 4), round(cell["control"]["value"], 4), cell["best"].replace(",", ";"), why]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--record", required=True, metavar="NAME")
    parser.add_argument("--machine", help="machine on which the file was made, if not this one")
    parser.add_argument("--commit", help="commit of the command that made the file, if not this one")
    options = parser.parse_args()
    found = json.loads(options.file.read_text())
    cells = [line(cell) for cell in found["cells"]]
    harms, regrets = [cell[2] for cell in cells], [cell[3] for cell in cells]
    warm = [harm for _, cold, harm, _, _ in cells if not cold]
    if options.machine:
        run.machine = lambda: options.machine
    notes = [
        f"command: {found['command']} --json {options.file.name} && python3 bench/regret.py {options.file.name} --record {options.record}",
        f"machine: {run.machine()}",
        f"commit: {options.commit or run.commit()}",
        f"regret: median {statistics.median(regrets):.3f}, worst {max(regrets):.3f}",
        *(f"regret: {100 * sum(value <= bar for value in regrets) / len(regrets):.1f} % of {len(regrets)} cells <= {bar}" for bar in REGRETS),
        *(f"harm without pauses: {100 * sum(value <= bar for value in warm) / len(warm):.1f} % of {len(warm)} cells <= {bar}" for bar in HARMS),
        f"harm: median {statistics.median(harms):.3f}, worst {max(harms):.3f}",
        f"seconds: {found['seconds']:.0f}; threads: {found['threads']}",
    ]
    run.write_lines(options.record, notes, ["cell,serial_ns,windrow_ns,harm,regret,control,best,why", *(cell[4] for cell in cells)])


if __name__ == "__main__":
    main()
