#!/usr/bin/env bash
# Builds programs that use rayon on windrow's rayon-core, by the one line that the README shows, and runs their own tests.
#
#   compat/rayon-core/run-programs.sh [--fetch]
#
# First what programs/ tests: results of these crates, and programs whose parts wait for each other. Then each crate's own tests, from its
# package below target/programs. Prints what passed. --fetch lets Cargo download the packages.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
scratch=$target/programs
home=${CARGO_HOME:-$HOME/.cargo}
export CARGO_TARGET_DIR=$scratch/target
offline=--offline
[ "${1:-}" = --fetch ] && offline=

mkdir -p "$scratch"
failed=
report() {
    echo "$1: $2"
    [ "$2" = passed ] || failed="$failed $1"
}
tests() {
    local name=$1
    shift
    if timeout "${SECONDS_EACH:-900}" "$@" >"$scratch/$name.txt" 2>&1; then report "$name" passed; else report "$name" "failed ($scratch/$name.txt)"; fi
}

cd "$here/programs"
[ -n "$offline" ] || cargo fetch --locked --quiet
tests programs cargo test --release --locked $offline

# Name, version, and what its tests need. The packages of blake3, dssim-core and tokei lack files of tests; rdst's patterns of 128-bit numbers take
# minutes.
while read -r name version options; do
    rm -rf "${scratch:?}/$name-$version"
    tar -xzf "$(find "$home/registry/cache" -name "$name-$version.crate" | head -n 1)" -C "$scratch"
    cd "$scratch/$name-$version"
    rm -f Cargo.lock
    printf '\n[workspace]\n\n[patch.crates-io]\nrayon-core = { path = "%s" }\n' "$here" >>Cargo.toml
    # shellcheck disable=SC2086
    tests "$name" cargo test --release $offline $options
done <<LIST
blake3 1.8.7 --features rayon --doc
rdst 0.20.14 --lib -- sorts:: --skip u128 --skip i128 --skip patterns
instant-distance 0.6.1 --lib --tests
tokei 15.0.0 --lib -- --skip jupyter_notebook --skip lf_embedded_language
LIST

[ -z "$failed" ]
