#!/usr/bin/env bash
# Runs the tests of windrow-collective over each installed MPI: with 2, 3 and 4 ranks, RUNS times each. Prints one line per run.
#
#   scripts/mpi-tests.sh [RUNS [mpich|openmpi]]        default: 1 run, both
#
# Each MPI has a target folder, because the crate mpi-sys does not notice another MPICC. A run that takes more than two minutes fails.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-1}
targets=${CARGO_TARGET_DIR:-target}
tests="mpi mpi_split"
failed=0 ran=0

# The compiler and the launcher of an MPI: the names of Debian, or the plain ones if they are of that MPI.
tools() {
    local mpi=$1 says=$2
    if command -v "mpicc.$mpi" >/dev/null && command -v "mpirun.$mpi" >/dev/null; then
        cc=mpicc.$mpi launch=mpirun.$mpi
    elif command -v mpicc >/dev/null && [[ $(mpirun --version 2>&1) == *$says* ]]; then
        cc=mpicc launch=mpirun
    else
        return 1
    fi
}

# Runs the tests on so many ranks, as the README of the crate does.
run() {
    local ranks=$1 log=$2 flags=
    # Open MPI refuses more ranks than cores, and root, unless told.
    if [ "$mpi" = openmpi ]; then flags=--oversubscribe; fi
    if [ "$mpi" = openmpi ] && [ "$(id -u)" = 0 ]; then flags+=" --allow-run-as-root"; fi
    local test runner
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    for test in $tests; do
        env MPICC="$cc" CARGO_TARGET_DIR="$targets/$mpi" "$runner=timeout 120 $launch $flags -n $ranks" \
            cargo test --quiet -p windrow-collective --features mpi --test "$test" >"$log" 2>&1 || return
        # Every rank reports.
        [ "$(grep -c "of $ranks: ok" "$log")" = "$ranks" ] || return
    done
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for mpi in ${2:-mpich openmpi}; do
    says=HYDRA
    if [ "$mpi" = openmpi ]; then says="Open MPI"; fi
    if ! tools "$mpi" "$says"; then
        echo "$mpi: not installed"
        continue
    fi
    MPICC=$cc CARGO_TARGET_DIR=$targets/$mpi \
        cargo test --quiet --no-run -p windrow-collective --features mpi --test mpi --test mpi_split
    for ranks in 2 3 4; do
        for ((at = 1; at <= runs; at++)); do
            began=$SECONDS verdict=ok
            run "$ranks" "$log" || verdict=FAILED
            echo "$mpi, $ranks ranks, run $at of $runs: $verdict, $((SECONDS - began)) s"
            ran=$((ran + 1))
            if [ "$verdict" = FAILED ]; then
                failed=$((failed + 1))
                tail -n 20 "$log"
            fi
        done
    done
done
echo "$((ran - failed)) of $ran runs passed"
[ "$ran" -gt 0 ] && [ "$failed" = 0 ]
