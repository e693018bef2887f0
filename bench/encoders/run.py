#!/usr/bin/env python3
"""Measures encoders of text side by side.

Each measurement is a fresh process on as many CPUs as it has threads; the arms take turns. Ids are compared with those of the wheel of
tokenizers 0.23. README.md says what is measured.
"""

import argparse
import datetime
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import struct
import subprocess
import sys
import venv
import zlib

import corpora

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV = corpora.CACHE / "venv"
# Python packages, by what a program reads of a batch: see child.py. They are measured if they are asked for.
PACKAGES = ["windrow-py", "windrow-py-lists", "windrow-py-masks", "windrow-py-offsets", "tokenizers-py-masks", "tokenizers-py-offsets"]
PACKAGES += ["fastokens-py", "windrow-py-masks-each", "windrow-py-offsets-each", "tokenizers-py-masks-each", "tokenizers-py-offsets-each"]
PACKAGES += ["tokenizers-1.0-py", "gigatoken-lists", "fastokens-lists", "tiktoken-lists"]
PYTHON = [*PACKAGES, "gigatoken", "gigatoken-bytes", "gigatoken-each", "reference"]
# Node packages: see child.js.
NODE = ["windrow-node", "windrow-node-sync", "tokenizers-node", "tiktoken-node"]
RUST = ["windrow", "windrow-fresh", "fastokens", "splintr", "tokenizers-1.0", "tokie", "tokenizers-0.23"]
# Far slower than the others: it encodes each eighth document, in few rounds.
SLOW = ["tokenizers-0.23", *(arm for arm in [*PACKAGES, *NODE] if arm.startswith(("tokenizers-py", "tokenizers-node")))]
EVERY, SLOW_ROUNDS = 8, 2
PASSES = 9
TEXTS = ["big6k", "bigline", "tiny", "bigwhole", "code", "multi"]
PROMPTS = ["p1", "p8", "p64", "p200k"]
MIB = 1 << 20


def stop(message, hint):
    sys.exit(f"error: {message}\nhint: {hint}")


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def builds():
    """The compilers that run now."""
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            # A process that has ended and was not waited for has no command line.
            ended = not (comm.parent / "cmdline").read_bytes()
            if not ended and comm.read_text().strip() in ("cargo", "rustc", "clippy-driver", "rustdoc"):
                yield f"{comm.read_text().strip()} (process {comm.parent.name})"
        except OSError:
            pass


def prepare(arms=()):
    """Builds the arms and installs the wheels, each only if it is missing, and the package of this commit."""
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=HERE, check=True)
    wanted = (HERE / "requirements.txt").read_text()
    stamp = VENV / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(VENV, with_pip=True, clear=True)
        pip = [VENV / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"]
        subprocess.run(pip, check=True)
        stamp.write_text(wanted)
    if "tokenizers-1.0-py" in arms:
        # It has the name of the reference, so it has a folder by itself.
        place = [f"--target={corpora.CACHE / 'tokenizers-1.0'}", "--upgrade", "--no-deps", "--quiet", "--disable-pip-version-check"]
        subprocess.run([VENV / "bin" / "pip", "install", *place, "tokenizers==1.0.0rc3"], check=True)
    if set(arms) & set(NODE):
        node_packages("system")
    if any(arm.startswith("windrow-py") for arm in arms):
        package = ROOT / "bindings" / "python"
        subprocess.run([VENV / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", package], check=True)


def node_packages(allocator):
    """The folder of Node packages, with that of this commit, built with an allocator."""
    place = corpora.CACHE / f"node-{allocator}"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, place)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=place, check=True)
    package, ours = ROOT / "bindings" / "node", place / "node_modules" / "windrow"
    shutil.copytree(package / "lib", ours / "lib", dirs_exist_ok=True)
    shutil.copy(package / "package.json", ours)
    features = [] if allocator == "system" else ["--features", allocator]
    subprocess.run(["node", package / "scripts/build.js", *features, "--out", ours / "windrow.node"], check=True)
    return place / "node_modules"


def placed(threads):
    """The options of a process on as many CPUs as it has threads, in a session with the highest priority."""
    cpus = sorted(os.sched_getaffinity(0))[-threads:]
    settings = {name: str(threads) for name in ("RAYON_NUM_THREADS", "FASTOKENS_BPE_THREADS")}
    settings["NODE_PATH"] = str(corpora.CACHE / "node-system" / "node_modules")

    def start():
        os.sched_setaffinity(0, cpus)
        try:
            # The new session has a separate group, which only root may raise.
            pathlib.Path("/proc/self/autogroup").write_text("-20")
        except OSError:
            pass

    return {"env": {**os.environ, **settings}, "start_new_session": True, "preexec_fn": start}


def child(arm, tokenizer, corpus, threads, passes, every=1, batch=0, timeout=600):
    """What a measurement says, or a text that says why it failed."""
    if arm in NODE:
        program = ["node", HERE / "child.js"]
    else:
        program = [VENV / "bin" / "python", HERE / "child.py"] if arm in PYTHON else [HERE / "target/release/encoders"]
    numbers = [str(number) for number in (threads, passes, every, batch)]
    command = [*program, arm, tokenizer, corpus, *numbers]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **placed(threads))
    except subprocess.TimeoutExpired:
        return f"timeout after {timeout} s"
    if ended.returncode != 0:
        lines = [line for line in ended.stderr.splitlines() if line and not line.startswith("note: ")]
        # A panic of Rust says why in its second line, an exception of Python in its last one.
        panics = [lines[k + 1] for k, line in enumerate(lines[:-1]) if "panicked at" in line]
        return (panics or lines[-1:] or [f"exit status {ended.returncode}"])[0][:160]
    return json.loads(ended.stdout)


@functools.cache
def reference(tokenizer, corpus):
    """The digest of each document's ids, kept in the cache."""
    key = f"{zlib.crc32(corpus.read_bytes()):08x}{zlib.crc32(tokenizer.read_bytes()):08x}"
    path = corpora.CACHE / f"reference-{tokenizer.stem}-{corpus.stem}-{key}.txt"
    if not path.exists():
        found = child("reference", tokenizer, corpus, os.cpu_count(), 0)
        if isinstance(found, str):
            print(f"note: no reference for {tokenizer.stem} and {corpus.stem}: {found}")
            return None
        corpora.write(path, found["digests"].encode())
    return split(path.read_text())


def split(digests):
    return [digests[k : k + 8] for k in range(0, len(digests), 8)]


class Cell:
    """The measurements of all arms with one tokenizer, corpus and number of threads."""

    def __init__(self, options, tokenizer, corpus, threads):
        self.options, self.threads = options, threads
        self.tokenizer, self.corpus = corpora.tokenizer(tokenizer, options.data), corpora.corpus(corpus, options.data)
        self.name, self.batch = f"{tokenizer} {corpus} {threads}", 0
        if options.latency:
            (self.batch,) = struct.unpack_from("<I", self.corpus.read_bytes())
            # The calls take their prompts from all of the text, but for the single long one.
            self.corpus = self.corpus if corpus == "p200k" else corpora.corpus("prompts", options.data)
        self.rows, self.failures = {}, {}

    def measure(self):
        expected = None if self.options.latency else reference(self.tokenizer, self.corpus)
        for repetition in range(self.options.rounds):
            for arm in self.options.arms:
                if arm in self.failures or (arm in SLOW and repetition >= SLOW_ROUNDS):
                    continue
                every = EVERY if arm in SLOW and not self.options.latency else 1
                passes = 1 if arm in SLOW else PASSES
                place = (self.tokenizer, self.corpus, self.threads)
                found = child(arm, *place, passes, every, self.batch, self.options.timeout)
                if isinstance(found, str):
                    self.failures[arm] = found
                    continue
                if not self.options.latency:
                    digests = split(found.pop("digests"))
                    pairs = zip(digests, expected[::every]) if expected else ()
                    found["documents"] = len(digests)
                    found["differing"] = sum(a != b for a, b in pairs) if expected else None
                self.rows.setdefault(arm, []).append(found)

    def table(self):
        columns = ["arm", "load ms", *self.titles()]
        lines = [[arm, f"{middle(rows, 'load_ns') / 1e6:.0f}", *self.fields(rows)] for arm, rows in self.rows.items()]
        lines += [[arm, "-", why] for arm, why in self.failures.items()]
        widths = [max(len(line[k]) for line in [columns, *lines] if len(line) == len(columns)) for k in range(len(columns))]
        print(f"\n{self.name} thread{'s' if self.threads > 1 else ''}")
        for line in [columns, *lines]:
            print("  " + "  ".join(f"{text:<{width}}" for text, width in zip(line, widths)).rstrip())
        sys.stdout.flush()

    def titles(self):
        if self.options.latency:
            return ["first us", "p50 us (min-max)", "p99 us (min-max)", "calls"]
        return ["cold MiB/s (min-max)", "warm MiB/s (min-max)", "cold per CPU s", "peak MiB", "differ"]

    def fields(self, rows):
        if self.options.latency:
            spread = lambda name: ranged([row[name] / 1e3 for row in rows], 1)
            calls = str(min(row["calls"] for row in rows))
            return [f"{middle(rows, 'first_ns') / 1e3:.0f}", spread("p50_ns"), spread("p99_ns"), calls]
        speed = lambda name: [row["bytes"] / MIB / (row[name] / 1e9) for row in rows]
        differing = "-" if rows[0]["differing"] is None else f"{max(row['differing'] for row in rows)}/{rows[0]['documents']}"
        per_cpu, peak = statistics.median(speed("cold_cpu_ns")), middle(rows, "peak_kib") / 1024
        return [ranged(speed("cold_ns")), ranged(speed("warm_ns")), f"{per_cpu:.0f}", f"{peak:.0f}", differing]

    def lines(self):
        """The lines of the record: its columns first, then each repetition."""
        names = ["load_ns", "load_peak_kib"]
        if self.options.latency:
            names += ["first_ns", "p50_ns", "p99_ns", "calls"]
        else:
            names += ["cold_ns", "cold_cpu_ns", "warm_ns", "warm_cpu_ns", "peak_kib", "bytes", "documents", "differing"]
        yield ",".join(["cell", "arm", "repetition", *names])
        for arm, rows in self.rows.items():
            for repetition, row in enumerate(rows):
                values = ["-" if row[name] is None else str(row[name]) for name in names]
                yield ",".join([self.name.replace(" ", "/"), arm, str(repetition), *values])


def middle(rows, name):
    return statistics.median(row[name] for row in rows)


def ranged(values, digits=0):
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", info)
    return f"{model[1].strip() if model else os.uname().machine} x{len(os.sched_getaffinity(0))}"


def versions():
    lock = (HERE / "Cargo.lock").read_text()
    crates = re.findall(r'name = "(fastokens|splintr|tokie|tokenizers|tk-encode)"\nversion = "(.*)"', lock)
    wheels = re.findall(r"^([a-z]+)==(.*)", (HERE / "requirements.txt").read_text(), re.MULTILINE)
    packages = json.loads((HERE / "package.json").read_text())["dependencies"].items()
    nodes = [f"Node package of {name} {version}" for name, version in packages]
    return [f"{name} {version}" for name, version in crates] + nodes + [f"wheel of {name} {version}" for name, version in wheels]


def commit():
    changes = said("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)bench/record")
    return said("git", "describe", "--always") + ("-dirty" if changes else "")


def record(name, cells):
    failures = [f"{cell.name}: {arm} failed: {why}" for cell in cells for arm, why in cell.failures.items()]
    tables = [list(cell.lines()) for cell in cells]
    lines = [line for table in tables for line in table[1:]]
    write_record(name, tables[0][0], lines, ["cells are tokenizer/corpus/threads", *failures])


def write_record(name, columns, lines, notes, peers=True):
    """Writes a record of the program that runs. Without peers it names no version but that of the commit."""
    # Files without their folders on this machine.
    words = [pathlib.Path(word).name if word.startswith("/") and pathlib.Path(word).is_file() else word for word in sys.argv[1:]]
    program = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)
    head = [f"command: {shlex.join(['python3', str(program), *words])}", f"machine: {machine()}", f"commit: {commit()}"]
    if peers:
        head += [f"compiler: {said('rustc', '--version')}", *versions()]
    write_lines(name, [*head, *notes], [columns, *lines])


def write_lines(name, head, lines):
    """Writes a record of this machine, of today."""
    folder = pathlib.Path(os.environ.get("WINDROW_RECORD_FOLDER") or ROOT / "bench" / "record")
    slug = "-".join(re.findall(r"[A-Za-z0-9]+", machine())).lower()
    path = folder / slug / f"{datetime.datetime.now(datetime.timezone.utc).date()}-{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*(f"# {line}" for line in head), *lines]) + "\n")
    print(f"\n{path}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--tokenizers", type=words, default=["gpt2"], help=", ".join(corpora.TOKENIZERS))
    parser.add_argument("--corpora", type=words, help=f"{', '.join(corpora.CORPORA)}; adv: all that begin with adv")
    parser.add_argument("--threads", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2])
    parser.add_argument("--arms", type=words, help=", ".join([*RUST, *PYTHON[:-1]]))
    parser.add_argument("--rounds", type=int, default=5, help="processes of each arm (%(default)s)")
    parser.add_argument("--latency", action="store_true", help="measure single calls with 1, 8 or 64 prompts, or a long one")
    parser.add_argument("--record", metavar="NAME", help="write bench/record/<machine>/<date>-NAME.csv")
    parser.add_argument("--data", type=pathlib.Path, default=corpora.DATA, help="folder with text/ and tok/ (%(default)s)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds per process (%(default)s)")
    parser.add_argument("--busy", action="store_true", help="measure during a build; not for a record")
    options = parser.parse_args()
    options.corpora = options.corpora or (PROMPTS if options.latency else TEXTS)
    adversarial = [name for name in corpora.CORPORA if name.startswith("adv_")]
    options.corpora = [it for name in options.corpora for it in (adversarial if name == "adv" else [name])]
    if not options.arms:
        gigatoken = ["gigatoken", "gigatoken-each" if options.latency else "gigatoken-bytes"]
        options.arms = RUST[:-1] + gigatoken + RUST[-1:]
    known = [("tokenizer", options.tokenizers, corpora.TOKENIZERS), ("corpus", options.corpora, [*corpora.CORPORA])]
    for what, names, all_names in [*known, ("arm", options.arms, RUST + PYTHON[:-1] + NODE)]:
        for name in names:
            if name not in all_names:
                stop(f"no {what} is called {name}", ", ".join(all_names))
    if options.latency and not set(options.corpora) <= set(PROMPTS):
        stop("--latency measures only calls with prompts", f"--corpora {','.join(PROMPTS)}")
    if not (options.data / "tok").is_dir():
        stop(f"{options.data} does not contain the folder tok", "--data FOLDER")
    if max(options.threads) > len(os.sched_getaffinity(0)):
        stop(f"{max(options.threads)} threads need as many CPUs", "--threads 1")
    if options.record and options.busy:
        stop("a record must not come from a busy machine", "use --record without --busy")
    if options.record and commit().endswith("-dirty") and "WINDROW_RECORD_DIRTY" not in os.environ:
        stop(f"uncommitted code is not recorded ({commit()})", "commit first, or set WINDROW_RECORD_DIRTY=1 to record it anyway")
    return options


def main():
    options = arguments()
    refuse = lambda: [] if options.busy else list(builds())
    if running := refuse():
        stop(f"a build is running: {', '.join(running)}", "wait for it, or measure anyway with --busy")
    prepare(options.arms)
    print(", ".join(versions()))
    cells = []
    for tokenizer in options.tokenizers:
        for corpus in options.corpora:
            for threads in options.threads:
                if running := refuse():
                    stop(f"a build has started: {', '.join(running)}", "wait for it, and measure again")
                cells.append(Cell(options, tokenizer, corpus, threads))
                cells[-1].measure()
                cells[-1].table()
    if options.record:
        record(options.record, cells)


if __name__ == "__main__":
    main()
