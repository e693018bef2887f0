#!/usr/bin/env python3
"""Doubles and halves each constant of windrow-plan, one at a time, and reports whether a unit test notices.

    scripts/double-constants.py [NAME | file.rs]...

Prints one line per change: `killed` (a test fails), `broken` (does not compile), or `survived`, which makes the exit status 1. Constants are numeric
`const` items, and functions and fields that are a multiple of one of the machine's primitives. Works in a temporary clone.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATE = "crates/windrow-plan"
NUMBER = r"(?:f64|f32|u8|u16|u32|u64|usize)"
CONST = r"(?m)^( *(?:pub(?:\([a-z]+\))? )?const (?P<name>[A-Z_]+): "
FORMS = [
    rf"{CONST}{NUMBER} = )(?P<value>[^;]+);",
    rf"{CONST}Nanos = Nanos\()(?P<value>[^;]+)\);",
    r"(pub fn (?P<name>\w+)\(&self\) -> Nanos \{\s*Nanos\()(?P<value>(?:[\d.]+ \* )?self\.\w+(?:\(\))?\.0(?: / [\d.]+)?)\)\n",
    r"(?m)^( +(?P<name>\w+): Nanos\()(?P<value>[^;{}\n]*\b(?:claim|line|wake|slice|park|enter)\b[^\n]*)\),$",
]


def mutants():
    for path in sorted((ROOT / CRATE / "src").rglob("*.rs")):
        if path.name == "tests.rs" or "tests" in path.parts:
            continue
        text = path.read_text()
        code = text.split("#[cfg(test)]")[0]
        found = (it for form in FORMS for it in re.finditer(form, code) if re.search(r"(?<![\w.])\d", it["value"]))
        for it in sorted(found, key=lambda it: it.start()):
            value, whole = it["value"], re.search(rf": {NUMBER}", it[1]) and not re.search(r": f\d\d", it[1])
            two = "2" if whole else "2.0"
            for what, by in (("doubled", f"({value}) * {two}"), ("halved", f"({value}) / {two}")):
                start, end = it.span("value")
                yield path.relative_to(ROOT), it["name"], what, text[:start] + by + text[end:]


def main():
    wanted, survivors = sys.argv[1:], 0
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / "windrow"
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
        shutil.copytree(ROOT / CRATE, clone / CRATE, dirs_exist_ok=True)

        def cargo(*words):
            command = ["cargo", "test", "--quiet", "--locked", "-p", "windrow-plan", "--lib", *words]
            environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target/constants")}
            try:
                return subprocess.run(command, cwd=clone, env=environment, capture_output=True, timeout=600).returncode == 0
            except subprocess.TimeoutExpired:
                return False

        assert cargo(), "the tests fail even without a change"
        for path, name, what, text in mutants():
            if wanted and not any(word in (name, path.name) for word in wanted):
                continue
            shutil.copytree(ROOT / CRATE / "src", clone / CRATE / "src", dirs_exist_ok=True)
            (clone / path).write_text(text)
            built = cargo("--no-run")
            outcome = "broken" if not built else "survived" if cargo() else "killed"
            survivors += outcome == "survived"
            print(f"{outcome:9} {what:8} {name:20} {path.relative_to(CRATE)}", flush=True)
    sys.exit(survivors > 0)


main()
