#!/usr/bin/env python3
"""Runs the tests of rayon and rayon-core, as published, on windrow by rename: against the crate `rayon` of this folder.

    compat/rayon/run-rayon-tests.py [--fetch] [--check] [--write] [--compare] [--crate FOLDER] [FILTER]

Unpacks both packages from Cargo's registry cache below target/rayon-rename and compiles their tests. An item that does not compile is cut
out, with its first error, until the rest compiles; then every test function runs in a separate process. Prints how many compiled, passed
and failed.

--fetch         lets Cargo download what the tests depend on
--check         stops when the rest compiles, and lists what was cut
--write         writes results.txt in this folder
--compare       fails if a function does not pass that passes by results.txt
--crate FOLDER  another crate in place of this one, by its name (crates/windrow: the rename without this folder)
FILTER          runs only tests whose name contains it
SECONDS_EACH (30) is the limit of a test function.
"""

import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile

RAYON, CORE = "1.12.0", "1.13.0"
# They ask the registry of rayon's scheduler whether its threads have stopped.
LEFT_OUT = {"workers_stop", "sleeper_stop"}
# These pass or fail by which member is first, or by random comparisons. They count as failed.
BY_CHANCE = {"iter::blocks", "slice::test_par_sort", "slice::test_par_sort_unstable"}

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRATCH = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "rayon-rename")
LIMIT = float(os.environ.get("SECONDS_EACH", "30"))

MANIFEST = """[package]
name = "rayon-tests"
version = "0.0.0"
edition = "2021"

[dependencies]
rayon = {{ {dependency} }}
rand = "0.9"
rand_xorshift = "0.4"

[dev-dependencies]
crossbeam-utils = "0.8"
libc = "0.2"
scoped-tls = "1"

[workspace]
"""

LIB = """#![allow(dead_code, unused_imports, ambiguous_glob_reexports, deprecated)]
pub use rayon::*;
mod unwind {
    pub fn halt_unwinding<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(f))
    }
}
mod registry {
    pub fn in_worker<R: Send>(op: impl FnOnce(&(), bool) -> R + Send) -> R {
        op(&(), false)
    }
}
#[cfg(test)] mod test;
pub mod iter { pub use rayon::iter::*; use std::collections::LinkedList; #[cfg(test)] mod test; }
pub mod slice { pub use rayon::slice::*; #[cfg(test)] mod test; }
mod broadcast { pub use rayon::*; #[cfg(test)] mod test; }
mod join { use crate::unwind; pub use rayon::*; #[cfg(test)] mod test; }
mod scope { pub use rayon::*; #[cfg(test)] mod test; }
mod spawn { pub use rayon::*; #[cfg(test)] mod test; }
mod thread_pool { pub use rayon::*; #[cfg(test)] mod test; }
"""


def unpack(name, version):
    home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    found = glob.glob(f"{home}/registry/cache/*/{name}-{version}.crate")
    if not found:
        sys.exit(f"error: {name} {version} is not in {home}/registry/cache\nhint: cargo fetch, in the workspace's root")
    with tarfile.open(found[0]) as archive:
        archive.extractall(os.path.join(SCRATCH, "source"), filter="data")
    return os.path.join(SCRATCH, "source", f"{name}-{version}")


def lay_out(crate):
    for part in ("source", "src", "tests"):
        shutil.rmtree(os.path.join(SCRATCH, part), ignore_errors=True)
    rayon, core = unpack("rayon", RAYON), unpack("rayon-core", CORE)
    files = {f"src/{m}/test.rs": f"{rayon}/src/{m}/test.rs" for m in ("iter", "slice")}
    files |= {f"src/{m}/test.rs": f"{core}/src/{m}/test.rs" for m in ("broadcast", "join", "scope", "spawn", "thread_pool")}
    files["src/test.rs"] = f"{core}/src/test.rs"
    # This one kills its own process, and has a main function of its own.
    for path in glob.glob(f"{rayon}/tests/*.rs") + glob.glob(f"{core}/tests/*.rs"):
        if os.path.basename(path) != "stack_overflow_crash.rs":
            files["tests/" + os.path.basename(path)] = path
    for to, path in files.items():
        with open(path) as file:
            text = file.read().replace("rayon_core", "rayon")
        for name in LEFT_OUT:
            text = re.sub(rf"(?m)^#\[test\]\n(?:#\[.*\n)*fn {name}\((?:.*\n)*?}}\n", "", text)
        write(os.path.join(SCRATCH, to), text)
    name = re.search(r'^name = "(.*)"', read(os.path.join(crate, "Cargo.toml")), re.M)[1]
    dependency = f'path = "{crate}"' + ("" if name == "rayon" else f', package = "{name}"')
    write(os.path.join(SCRATCH, "Cargo.toml"), MANIFEST.format(dependency=dependency))
    write(os.path.join(SCRATCH, "src/lib.rs"), LIB)
    return [os.path.join(SCRATCH, file) for file in files]


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def cargo(words):
    command = ["cargo", *words, "--tests", "--keep-going", "--message-format=json"]
    environment = os.environ | {"CARGO_TARGET_DIR": os.path.join(SCRATCH, "target"), "RUSTFLAGS": "-Awarnings"}
    done = subprocess.run(command, cwd=SCRATCH, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return messages, done


def item_at(lines, line):
    """The first and last line of the top-level item around a line, its attributes included."""
    first = line
    while first > 0 and not re.match(r"[a-z#]", lines[first]):
        first -= 1
    while lines[first].startswith("where"):
        first -= 1
    last = first
    while last < len(lines) - 1 and lines[last].startswith(("#", "//")):
        last += 1
    if not lines[last].rstrip().endswith(("}", ";")) or lines[last].rstrip().endswith("{}"):
        while last < len(lines) - 1 and not re.match(r"[})]", lines[last]) and not lines[last].rstrip().endswith("{}"):
            last += 1
    while first > 0 and lines[first - 1].startswith(("#[", "//")):
        first -= 1
    return first, last


def cut(path, errors, gone):
    """Takes the items with these errors out of a file, and notes the error of each test among them."""
    lines = read(path).split("\n")
    spans = {}
    for line, name, message in errors:
        first, last = item_at(lines, line)
        head = next(text for text in lines[first:] if not text.startswith(("#", "//")))
        if head.startswith(("use ", "pub use ")) and name:
            # Only the name that is missing goes.
            lines[line] = re.sub(rf"\b{re.escape(name)}\b(::\{{.*?\}}|::\w+|::\*)*( as \w+)?(, )?", "", lines[line], count=1)
            lines[line] = re.sub(r"^use [\w:]*::;$|^use ;$", "", lines[line])
            if re.match(r"^(pub )?use [\w:]*[^:{}*\w]", lines[line]) or "{" not in lines[line]:
                lines[line] = "" if lines[line].startswith("use") and not lines[line].rstrip().endswith(("*;", "{")) else lines[line]
            continue
        spans.setdefault((first, last), message)
    for (first, last), message in sorted(spans.items(), reverse=True):
        text = "\n".join(lines[first : last + 1])
        name = re.search(r"^(?:pub )?(?:async )?(?:unsafe )?fn (\w+)", text, re.M)
        if name and "#[test]" in text:
            gone[f"{label(path)}::{name[1]}"] = message
        lines[first : last + 1] = []
    write(path, "\n".join(lines))


def label(path):
    """The name of a file's tests: tests/clones.rs -> clones, src/iter/test.rs -> iter."""
    parts = os.path.relpath(path, SCRATCH).removesuffix(".rs").split("/")
    return parts[1].replace("-", "_") if parts[0] == "tests" else (parts[1] if len(parts) == 3 else "core")


def primary(message):
    """The place of an error in a test's file: its path, line, and the text that it is about."""
    for span in message["spans"]:
        if not span["is_primary"]:
            continue
        while span:
            path = os.path.join(SCRATCH, span["file_name"])
            if span["file_name"].startswith(("src/", "tests/")) and os.path.exists(path) and not path.endswith("/lib.rs"):
                text = span["text"][0] if span["text"] else None
                name = text["text"][text["highlight_start"] - 1 : text["highlight_end"] - 1] if text else ""
                return path, span["line_start"] - 1, name
            span = span["expansion"] and span["expansion"]["span"]
    return None


def compile_rest(words):
    gone = {}
    for turn in range(60):
        messages, done = cargo(["check", *words])
        errors = {}
        for message in messages:
            message = message.get("message", {}) if message.get("reason") == "compiler-message" else {}
            if message.get("level") == "error" and (place := primary(message)):
                code = (message["code"] or {}).get("code", "")
                errors.setdefault(place[0], []).append((place[1], place[2], f"{code} {message['message']}".strip()))
        print(f"turn {turn + 1}: {sum(map(len, errors.values()))} errors", file=sys.stderr, flush=True)
        if not errors:
            if done.returncode:
                sys.exit(f"error: what is left does not compile\n{done.stderr[-3000:]}")
            return gone
        for path, found in errors.items():
            cut(path, found, gone)
    sys.exit("error: no end of errors")


def bound():
    """A search that gathers what it should not must not fill the machine's memory."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def run(binary, test):
    try:
        done = subprocess.run([binary, "--exact", test], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, preexec_fn=bound)
    except subprocess.TimeoutExpired:
        return f"over {LIMIT:.0f} s"
    said = (done.stdout + done.stderr).decode(errors="replace")
    reason = re.search(r"panicked at .*?:\n(.*)", said)
    return None if done.returncode == 0 else " ".join((reason[1] if reason else f"exit status {done.returncode}").split())[:120]


def main():
    arguments = sys.argv[1:]
    crate, words = HERE, ["--offline"]
    if "--crate" in arguments:
        at = arguments.index("--crate")
        crate = os.path.abspath(arguments[at + 1])
        del arguments[at : at + 2]
    if "--fetch" in arguments:
        words = []
    filter_ = next((word for word in arguments if not word.startswith("--")), "")
    files = lay_out(crate)
    all_tests = set()
    for path in files:
        all_tests |= {f"{label(path)}::{name}" for name in re.findall(r"#\[test\]\n(?: *#\[.*\n)* *fn (\w+)", read(path))}
    gone = compile_rest(words)
    if "--check" in sys.argv:
        return print("".join(f"{test} | {why}\n" for test, why in sorted(gone.items())), len(gone))
    binaries = [m["executable"] for m in cargo(["build", *words])[0] if m.get("executable")]
    results = {test: f"cut: {why}" for test, why in gone.items()}
    for binary in binaries:
        name = re.sub(r"-[0-9a-f]+$", "", os.path.basename(binary))
        listed = subprocess.run([binary, "--list"], capture_output=True, text=True).stdout
        ignored = subprocess.run([binary, "--list", "--ignored"], capture_output=True, text=True).stdout.splitlines()
        for test in [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]:
            parts = test.split("::")
            group = name if name != "rayon_tests" else ("core" if parts[0] == "test" else parts[0])
            full = f"{group}::{parts[-1]}"
            if f"{test}: test" in ignored:
                results[full] = "ignored"
            elif filter_ in full:
                why = run(binary, test)
                why = why or ("passes by chance" if full in BY_CHANCE else None)
                results[full] = f"failed: {why}" if why else "passed"
                print(f"{full}: {results[full]}", file=sys.stderr, flush=True)
    for test in all_tests - results.keys():
        results[test] = "cut: with what it needs"
    text = "".join(f"{test} | {result}\n" for test, result in sorted(results.items()))
    count = {word: sum(result.startswith(word) for result in results.values()) for word in ("passed", "failed", "cut", "ignored")}
    if "--write" in sys.argv:
        head = f"# rayon {RAYON} and rayon-core {CORE} by rename: `run-rayon-tests.py --write`\n"
        write(os.path.join(HERE, "results.txt"), head + text)
    elif "--compare" in sys.argv:
        passed = {line.split(" | ")[0] for line in read(os.path.join(HERE, "results.txt")).splitlines() if line.endswith(" | passed")}
        lost = [f"  {test} | {results.get(test)}\n" for test in sorted(passed) if results.get(test) != "passed"]
        if lost:
            sys.exit("error: these passed before\n" + "".join(lost))
    else:
        print(text, end="")
    counted = len(results) - count["ignored"]
    print(f"functions: {counted}, compiled: {counted - count['cut']}, passed: {count['passed']}, failed: {count['failed']}")


main()
