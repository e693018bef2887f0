#!/usr/bin/env python3
"""Checks wheels: their size, their licences and commands, and that their library has no symbols for debuggers."""

import argparse
import pathlib
import sys
import zipfile


def problems(wheel: pathlib.Path, max_bytes: int) -> list[str]:
    """What is wrong with a wheel."""
    found = []
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size} bytes")
    if size > max_bytes:
        found.append(f"has {size} bytes, more than {max_bytes}")
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        libraries = [name for name in names if "_windrow" in name and name.endswith((".so", ".pyd"))]
        if len(libraries) != 1:
            found.append(f"has {len(libraries)} extension modules")
        found.extend("is not stripped" for name in libraries if b"\0.symtab\0" in files.read(name))
        found.extend(f"has no {name}" for name in ("windrow/py.typed", "windrow/_windrow.pyi") if name not in names)
        licences = ("licenses/LICENSE-APACHE", "licenses/LICENSE-MIT", "licenses/THIRD-PARTY.txt")
        found.extend(f"has no {ending}" for ending in (*licences, ".cyclonedx.json") if not any(name.endswith(ending) for name in names))
        scripts = b"".join(files.read(name) for name in names if name.endswith("entry_points.txt")).replace(b" ", b"").splitlines()
    commands = (b"windrow=windrow.__main__:main", b"windrow-rs=windrow.__main__:main")
    found.extend(f"has no command {command.decode()}" for command in commands if command not in scripts)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=pathlib.Path)
    # Parquet with the kernels of Arrow is the largest part of the code.
    parser.add_argument("--max-bytes", type=int, default=12 << 20, help="%(default)s")
    options = parser.parse_args()
    bad = [f"{wheel.name} {problem}" for wheel in options.wheels for problem in problems(wheel, options.max_bytes)]
    for line in bad:
        print(f"error: {line}", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
