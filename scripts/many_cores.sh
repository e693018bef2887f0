#!/usr/bin/env bash
# Measures windrow and its peers on a borrowed machine with 8 or more CPUs, without a network or compilers, in at most 8 minutes.
#
#   scripts/many_cores.sh build DIR       builds and strips the programs and peers, and adds the texts: at most 64 MiB
#   scripts/many_cores.sh run DIR OUT     on that machine: writes OUT/summary.txt, and the records and outputs to OUT/records.tgz
#
# It runs the 31 cells warm and cold, rounds, programs and encode on WIDTHS threads (2 4 8 16), and batches of 16 and 64 callers. If no time is
# left for a part, or a peer does not start, it is skipped, and the summary says so. DATA is the folder of texts and tokenizers. gigatoken is
# measured if Python can import it, also from DIR/python (pip install --no-deps --target DIR/python gigatoken awkward awkward_cpp). oneTBB: crates/windrow-bench/README.md.
set -euo pipefail

limit=470
programs=(cells rounds batches programs)
usage() {
    sed -n '2,9s/^# \?//p' "$0"
    exit 2
}

build() {
    mkdir -p "$1/lib" "$1/peers"
    set -- "$(realpath "$1")"
    cd "$(dirname "$0")/.."
    local target=${CARGO_TARGET_DIR:-target}/release data=${DATA:-../shared/data}
    cargo build --release --locked -p windrow-bench "${programs[@]/#/--bin=}"
    cargo build --release --locked -p windrow-cli
    for program in "${programs[@]}" windrow; do strip -o "$1/$program" "$target/$program"; done
    for arms in cells:omp-static,omp-passive-static,tbb-auto rounds:omp-team; do
        WINDROW_BENCH_PEERS=$1/peers "$1/${arms%:*}" --arms "${arms#*:}" --repetitions 1 >"$1/check.txt" || true
    done
    # Their runtimes, which the other machine may not have.
    find "$1/peers" -name program -exec ldd {} + | awk '/lib(gomp|tbb|iomp5|stdc\+\+|gcc_s)/ { print $3 }' | sort -u | xargs -r cp -t "$1/lib"
    if [ -d "$data" ]; then cp -f "$data/text/big.txt" "$data/tok/gpt2.json" "$1"; fi
    (git describe --always; rustc --version) >"$1/built.txt"
    du -sm "$1" | awk '{ print $1 " MiB"; exit $1 > 64 }'
}

say() { echo "$*" | tee -a "$out/summary.txt"; }

# NAME CPUS PROGRAM ARGUMENT..: runs it on that many CPUs for 75 s at most; the end of its output goes to the summary.
part() {
    local name=$1 cpus=$2 left=$((limit - SECONDS))
    shift 2
    if [ "$left" -lt 5 ]; then
        say "$name: skipped: no time is left"
        return
    fi
    say "== $name (after $SECONDS s)"
    WINDROW_RECORD_FOLDER=$work/records/$name taskset -c "0-$((cpus - 1))" timeout $((left < 75 ? left : 75)) "$@" >"$work/$name.txt" 2>&1 || say "$name: ended with status $?"
    grep -v '^/' "$work/$name.txt" | tail -n 14 | cut -c 1-160 | tee -a "$out/summary.txt" || true
}

encode() {
    if ! [ -f "$dir/gpt2.json" ]; then
        say "encode: skipped: there are no texts"
        return
    fi
    local texts=$work/texts
    mkdir "$texts"
    python3 - "$dir/big.txt" "$texts/in.jsonl" <<'PYTHON'
import json, sys
text = open(sys.argv[1], encoding="utf8").read()
with open(sys.argv[2], "w") as out:
    for copy in range(24):
        for at in range(37 * copy, len(text), 6500):
            print(json.dumps({"text": text[at : at + 6500]}), file=out)
PYTHON
    for cpus in "${widths[@]}"; do
        part "encode-$cpus" "$cpus" bash -c '
            for turn in 1 2 3; do
                begin=$(date +%s%N)
                "$1/windrow" encode "$2/in.jsonl" -o "$2/ids" --tokenizer "$1/gpt2.json" --threads "$3" -q --overwrite
                echo "windrow, from file to file: $(($(stat -c %s "$2/in.jsonl") * 1000 / ($(date +%s%N) - begin))) MB/s"
            done' - "$dir" "$texts" "$cpus"
        if PYTHONPATH=$dir/python python3 -c 'import gigatoken' 2>/dev/null; then
            PYTHONPATH=$dir/python part "gigatoken-$cpus" "$cpus" python3 -c '
import gigatoken, json, sys, time
encoder = gigatoken.Tokenizer.from_json(open(sys.argv[1], "rb").read())
texts = [json.loads(line)["text"] for line in open(sys.argv[2])]
for turn in range(3):
    begin = time.perf_counter()
    encoder.encode_batch_list(texts)
    print(f"gigatoken, from memory to lists: {sum(map(len, texts)) / 1e6 / (time.perf_counter() - begin):.0f} MB/s")
' "$dir/gpt2.json" "$texts/in.jsonl"
        else
            say "gigatoken-$cpus: skipped: Python cannot import gigatoken"
        fi
    done
    rm -r "$texts"
}

run() {
    dir=$(realpath "$1") out=$(realpath -m "$2") work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$out"
    export WINDROW_RECORD_DIRTY=1 WINDROW_BENCH_PEERS=$dir/peers LD_LIBRARY_PATH=$dir/lib
    local cpus known='' most cells rounds=hurdles
    cpus=$(nproc)
    widths=()
    for width in ${WIDTHS:-2 4 8 16}; do
        if [ "$width" -le "$cpus" ]; then widths+=("$width"); fi
    done
    most=${widths[-1]}
    say "$(grep -m 1 'model name' /proc/cpuinfo) x$cpus, built from $(tr '\n' ' ' <"$dir/built.txt")"
    for peer in omp-static omp-passive-static tbb-auto; do
        cells=$(timeout 20 "$dir/cells" --arms "$peer" --cells uniform/1us/100 --repetitions 1 2>&1 || true)
        if [[ $cells == *"  $peer "* ]]; then known+=,$peer; else say "$peer: skipped: $(tail -n 1 <<<"$cells")"; fi
    done
    cells=windrow,rayon,rayon-inside,commonware-batches,commonware-inside$known
    if [[ $known == *omp* ]]; then
        rounds+=,omp-team
    fi
    for width in "${widths[@]}"; do
        part "cells-warm-$width" "$width" "$dir/cells" --arms "$cells" --repetitions 5 --record
        part "rounds-$width" "$width" "$dir/rounds" --arms "windrow-rounds,$rounds" --sizes 10000,100000 --repetitions 3 --record
        part "cells-cold-$width" "$width" "$dir/cells" --regime cold --arms "$cells" --repetitions 3 --record
        part "programs-$width" "$width" "$dir/programs" --processes 1 --repetitions 3 --record
    done
    for callers in 16 64; do
        part "batches-$callers" "$most" "$dir/batches" --only grid --kinds threads --callers "$callers" --fixed 0.1,2,20 --repetitions 3 --record
        part "open-$callers" "$most" "$dir/batches" --only open --callers "$callers" --fixed 100,1000 --loads 50,80 --repetitions 5 --record
    done
    encode
    say "took $SECONDS s"
    tar -C "$work" -czf "$out/records.tgz" .
}

case ${1-}-$# in
    build-2) build "$2" ;;
    run-3) run "$2" "$3" ;;
    *) usage ;;
esac
