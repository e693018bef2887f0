#!/usr/bin/env bash
# Runs the tests of rayon and rayon-core, as published, through this crate.
#
#   compat/rayon-core/run-rayon-tests.sh [--fetch] [FILTER]
#
# Unpacks both packages from Cargo's registry cache below target/rayon-tests, points rayon-core to this crate, compiles the tests, and
# runs every test function in a separate process. Prints how many compiled, passed and failed, and the names of those that failed. The
# exit status is 0 if none failed. FILTER: only test functions whose binary::name contains it.
#
# --fetch lets Cargo download the two packages and what their tests depend on; without it, they must be in the cache.
# SECONDS_EACH (60) is the limit of a test function. CARGO ("cargo") builds; RUN ("", for example "nice") is put in front of each test.
set -euo pipefail

RAYON=1.12.0
CORE=1.13.0

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
scratch=$target/rayon-tests
home=${CARGO_HOME:-$HOME/.cargo}
limit=${SECONDS_EACH:-60}
read -r -a cargo <<<"${CARGO:-cargo}"
read -r -a run <<<"${RUN:-}"
offline=--offline
if [ "${1:-}" = --fetch ]; then
    offline=
    shift
fi
filter=${1:-}

rm -rf "$scratch/rayon" "$scratch/core" "$scratch/source"
mkdir -p "$scratch/source" "$scratch/core/src" "$scratch/core/tests"

unpack() {
    local archive
    archive=$(find "$home/registry/cache" -name "$1-$2.crate" 2>/dev/null | head -n 1)
    if [ -z "$archive" ]; then
        echo "error: $1 $2 is not in $home/registry/cache" >&2
        echo "hint: cargo fetch, in the workspace's root" >&2
        exit 2
    fi
    tar -xzf "$archive" -C "$scratch/source"
}
unpack rayon "$RAYON"
unpack rayon-core "$CORE"

# rayon: its own manifest, as the root of a workspace with the one line that replaces rayon-core.
mv "$scratch/source/rayon-$RAYON" "$scratch/rayon"
rm -f "$scratch/rayon/Cargo.lock"
cat >>"$scratch/rayon/Cargo.toml" <<TOML

[workspace]

[patch.crates-io]
rayon-core = { path = "$here" }
TOML

# rayon-core: its test modules, in a package that has their neighbours' names.
source=$scratch/source/rayon-core-$CORE
for module in broadcast join scope spawn thread_pool; do
    mkdir -p "$scratch/core/src/$module"
    cp "$source/src/$module/test.rs" "$scratch/core/src/$module/test.rs"
done
cp "$source/src/test.rs" "$scratch/core/src/test.rs"
cp "$source"/tests/*.rs "$scratch/core/tests/"
# Left out: they ask the registry of rayon's scheduler whether its threads have stopped.
left_out="workers_stop sleeper_stop"
for name in $left_out; do
    awk -v name="$name" '
        /^#\[test\]/ { held = $0; next }
        held != "" && /^#\[/ { held = held "\n" $0; next }
        held != "" && $0 ~ "^fn " name "\\(" { held = ""; skip = 1 }
        held != "" { print held; held = "" }
        !skip { print }
        skip && /^}/ { skip = 0 }
    ' "$scratch/core/src/thread_pool/test.rs" >"$scratch/core/src/thread_pool/test.rs.new"
    mv "$scratch/core/src/thread_pool/test.rs.new" "$scratch/core/src/thread_pool/test.rs"
done
cat >"$scratch/core/Cargo.toml" <<TOML
[package]
name = "rayon-core-tests"
version = "0.0.0"
edition = "2021"

[dependencies]
rayon-core = { path = "$here" }
rand = "0.9"
rand_xorshift = "0.4"

[dev-dependencies]
crossbeam-utils = "0.8"
libc = "0.2"
scoped-tls = "1"

[workspace]
TOML
cat >"$scratch/core/src/lib.rs" <<'RUST'
#![allow(dead_code, unused_imports)]
pub use rayon_core::*;
mod unwind {
    pub fn halt_unwinding<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(f))
    }
}
mod registry {
    pub fn in_worker<R: Send>(op: impl FnOnce(&(), bool) -> R + Send) -> R {
        rayon_core::scope(|_| op(&(), false))
    }
}
mod test;
mod broadcast { pub use rayon_core::*; mod test; }
mod join { use crate::unwind; pub use rayon_core::*; #[cfg(test)] mod test; }
mod scope { #[cfg(test)] mod test; }
mod spawn { pub use rayon_core::*; #[cfg(test)] mod test; }
mod thread_pool { mod test; }
RUST

build() {
    (cd "$1" && CARGO_TARGET_DIR="$scratch/target" "${cargo[@]}" test $offline --no-run --message-format=json-render-diagnostics) |
        grep -o '"executable":"[^"]*"' | cut -d'"' -f4
}
binaries=$(build "$scratch/rayon")
binaries="$binaries $(build "$scratch/core")"

compiled=0 passed=0 failures=
for binary in $binaries; do
    name=$(basename "$binary")
    name=${name%-*}
    ignored=$("$binary" --list --ignored 2>/dev/null | sed -n 's/: test$//p')
    for test in $("$binary" --list 2>/dev/null | sed -n 's/: test$//p'); do
        case "$name::$test" in *"$filter"*) ;; *) continue ;; esac
        if grep -qxF "$test" <<<"$ignored"; then
            continue
        fi
        compiled=$((compiled + 1))
        status=0
        ${run[@]+"${run[@]}"} timeout -k 5 "$limit" "$binary" --exact "$test" >"$scratch/output.txt" 2>&1 || status=$?
        if [ "$status" = 0 ]; then
            passed=$((passed + 1))
        else
            [ "$status" = 124 ] && status="over $limit s"
            failures+="  $name::$test ($status)"$'\n'
            cp "$scratch/output.txt" "$scratch/failed-$name-${test//::/-}.txt"
        fi
    done
done

echo "compiled: $compiled, left out: $(wc -w <<<"$left_out") ($left_out)"
echo "passed: $passed, failed: $((compiled - passed))"
printf '%s' "$failures"
[ "$compiled" = "$passed" ]
