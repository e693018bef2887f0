#!/usr/bin/env bash
# Measures two MPI ranks, each in its own network namespace, over a link of a given speed: a product fused with an all-reduce, not tiled, in
# uniform tiles, and as planned; and, for comparison, mpi4py with numpy and hand-picked tiles. Whatever is set up is taken down
# again. If the machine does not allow this, it prints "not available: REASON" and succeeds.
#
#   scripts/netns-mpi.sh [RATE [M N K]]        default: 1gbit 4096 512 1024
#
# Needs root, Linux with veth and tbf, and MPICH or Open MPI: MPI=openmpi chooses the latter where both are installed. The latency of the
# link is that of the kernel: netem is not needed. PEER=no skips mpi4py, which is otherwise installed with pip into a temporary folder,
# with its own MPICH.
set -euo pipefail
cd "$(dirname "$0")/.."

rate=${1:-1gbit}
m=${2:-4096} n=${3:-512} k=${4:-1024}
one=windrow0-$$ other=windrow1-$$
folder=

unavailable() {
    echo "not available: $1"
    exit 0
}

cleanup() {
    # A namespace takes its end of the link with it.
    ip netns del "$one" 2>/dev/null || true
    ip netns del "$other" 2>/dev/null || true
    if [ -n "$folder" ]; then rm -rf "$folder"; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM

[ "$(uname -s)" = Linux ] || unavailable "network namespaces need Linux"
[ "$(id -u)" = 0 ] || unavailable "network namespaces need root"
for tool in ip tc; do
    command -v "$tool" >/dev/null || unavailable "there is no $tool"
done
# The compiler and the launcher of an MPI: the names of Debian, or the plain ones if they are of that MPI.
for mpi in ${MPI:-mpich openmpi}; do
    says=HYDRA cc=mpicc launch=mpiexec
    if [ "$mpi" = openmpi ]; then says="Open MPI"; fi
    if command -v "mpicc.$mpi" >/dev/null && command -v "mpiexec.$mpi" >/dev/null; then
        cc=mpicc.$mpi launch=mpiexec.$mpi
    fi
    if command -v "$cc" >/dev/null && [[ $("$launch" --version 2>&1) == *"$says"* ]]; then break; fi
    cc=
done
[ -n "$cc" ] || unavailable "MPICH and Open MPI are missing, or the one that MPI selects is"
folder=$(mktemp -d)

set_up() {
    ip netns add "$one" && ip netns add "$other" &&
        ip link add wrv0 netns "$one" type veth peer name wrv1 netns "$other" &&
        ip -n "$one" addr add 10.253.7.1/24 dev wrv0 && ip -n "$other" addr add 10.253.7.2/24 dev wrv1 &&
        ip -n "$one" link set lo up && ip -n "$other" link set lo up &&
        ip -n "$one" link set wrv0 up && ip -n "$other" link set wrv1 up &&
        # The burst is above what a veth passes on at once (64 KiB), and small against a tile.
        tc -n "$one" qdisc add dev wrv0 root tbf rate "$rate" burst 128kb latency 50ms &&
        tc -n "$other" qdisc add dev wrv1 root tbf rate "$rate" burst 128kb latency 50ms
}
set_up 2>"$folder/error" || unavailable "$(tail -n 1 "$folder/error")"

# A link takes a moment to come up.
for _ in $(seq 50); do
    [[ $(ip -n "$one" link show wrv0)$(ip -n "$other" link show wrv1) == *"state UP"*"state UP"* ]] && break
    sleep 0.1
done

# Processes of one machine would meet in shared memory otherwise. MPICH is built on libfabric (ofi) or UCX.
export MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=tcp UCX_TLS=tcp,self
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=10.253.7.0/24
in_both_mpich() {
    local mpiexec=$1 netmod=$2
    shift 2
    MPIR_CVAR_CH4_NETMOD=$netmod timeout 300 "$mpiexec" -launcher fork \
        -n 1 ip netns exec "$one" env FI_TCP_IFACE=wrv0 UCX_NET_DEVICES=wrv0 taskset -c 0 "$@" : \
        -n 1 ip netns exec "$other" env FI_TCP_IFACE=wrv1 UCX_NET_DEVICES=wrv1 taskset -c $(($(nproc) > 1)) "$@"
}
# A rank of Open MPI has to reach the server of mpiexec, which listens to the loopback otherwise. So mpiexec is in the first namespace, and
# its server listens to the link.
in_both_openmpi() {
    local mpiexec=$1
    shift
    PMIX_MCA_ptl_base_if_include=wrv0 PMIX_MCA_ptl_base_remote_connections=1 \
        timeout 300 ip netns exec "$one" "$mpiexec" --allow-run-as-root --oversubscribe \
        -np 1 taskset -c 0 "$@" : -np 1 ip netns exec "$other" taskset -c $(($(nproc) > 1)) "$@"
}

example=mpi_matmul_all_reduce
# mpi-sys does not notice another MPICC, so each MPI has a target folder.
target=${CARGO_TARGET_DIR:-target}/$mpi
MPICC=$cc CARGO_TARGET_DIR=$target \
    cargo build --quiet --release -p windrow-collective --features mpi --example "$example" ||
    unavailable "the mpi feature does not build here; see crates/windrow-collective/README.md"
echo "$m x $k times $k x $n of f32, summed over 2 ranks, $rate, $mpi"
run=("$target/release/examples/$example" "$m" "$n" "$k")
if [ "$mpi" = openmpi ]; then
    in_both_openmpi "$launch" "${run[@]}"
else
    netmod=ofi
    if mpichversion 2>/dev/null | grep 'ch4:ucx' >/dev/null; then netmod=ucx; fi
    in_both_mpich "$launch" "$netmod" "${run[@]}"
fi

[ "${PEER:-yes}" != no ] || exit 0
python3 -m venv "$folder/venv" >/dev/null 2>&1 &&
    "$folder/venv/bin/pip" install --quiet mpi4py numpy mpich >"$folder/error" 2>&1 || {
    echo "mpi4py not available: $(tail -n 1 "$folder/error" 2>/dev/null || echo "python3 has no venv")"
    exit 0
}
cat >"$folder/peer.py" <<'PEER'
import sys, threading, time
import mpi4py
mpi4py.rc.thread_level = "serialized"
from mpi4py import MPI
import numpy as np

m, n, k = map(int, sys.argv[1:])
world = MPI.COMM_WORLD
a, b = np.full((m, k), 0.5, np.float32), np.full((k, n), 2.0, np.float32)
c, out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)

def run(tiles):
    """Tiles by hand: one thread computes, one communicates with a blocking call."""
    cuts = [m * tile // tiles for tile in range(tiles + 1)]
    ready = threading.Semaphore(0)
    def communicate():
        for start, end in zip(cuts, cuts[1:]):
            ready.acquire()
            world.Allreduce(c[start:end], out[start:end])
    out.fill(np.nan)
    world.Barrier()
    began = time.perf_counter()
    helper = threading.Thread(target=communicate)
    helper.start()
    for start, end in zip(cuts, cuts[1:]):
        np.matmul(a[start:end], b, out=c[start:end])
        ready.release()
    helper.join()
    took = time.perf_counter() - began
    assert (out == world.size * k).all()
    return world.allreduce(took, MPI.MAX)

arms = [1, 2, 4, 8, 16]
times = {tiles: [] for tiles in arms}
for _ in range(9):
    for tiles in arms:
        times[tiles].append(run(tiles))
if world.rank == 0:
    for tiles in arms:
        print(f"mpi4py {'none' if tiles == 1 else f'uniform {tiles}'}: {1e3 * sorted(times[tiles])[4]:.2f} ms", flush=True)
PEER
export OPENBLAS_NUM_THREADS=1
in_both_mpich "$folder/venv/bin/mpiexec" ofi "$folder/venv/bin/python" "$folder/peer.py" "$m" "$n" "$k" ||
    echo "mpi4py not available: it does not run in a namespace"
