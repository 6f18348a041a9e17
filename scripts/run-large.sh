#!/usr/bin/env bash
# Generates a large Kronecker graph on the node, and runs the four algorithms on it,
# verified, one after the other.
#
#   ./run-large.sh [LIST [SCALE [EDGE_FACTOR]]]     cuda:0-3 25 32 unless given
#
# The graph, 17 GB by default, lies in FOLDER (/tmp) and stays there for a next run; with
# weights it takes as much memory again while it is read. RUN_SECONDS (100) limits each
# command. Prints the seconds of each, and what the command says: its phases, and whether
# the answer was verified.
set -uo pipefail
cd "$(dirname "$0")"
list=${1:-cuda:0-3} scale=${2:-25} edge_factor=${3:-32}
millstream=${MILLSTREAM_COMMAND:-./millstream}
graph=${FOLDER:-/tmp}/kron-$scale-$edge_factor.mill
export CUDA_DEVICE_MAX_CONNECTIONS=12 CUDA_MODULE_LOADING=EAGER
failed=0

# Runs a command with a limit, and says how long it took.
timed() {
    local start said code
    start=$(date +%s%N)
    said=$(timeout -k 5 "${RUN_SECONDS:-100}" "$millstream" "$@" 2>&1)
    code=$?
    printf '%s: exit %d, %d.%01d s\n' "$1" "$code" \
        $((($(date +%s%N) - start) / 1000000000)) $((($(date +%s%N) - start) / 100000000 % 10))
    python3 -c 'import json, sys
said = sys.stdin.read()
try:
    said = {k: v for k, v in json.loads(said).items() if k not in ("links", "per_device")}
except ValueError:
    pass
print(said)' <<< "$said"
    [ "$code" -eq 0 ] || failed=1
}

[ -f "$graph" ] ||
    timed generate kron "$scale" "$edge_factor" "$graph" --max-weight 64 --seed 1
for algorithm in bfs sssp cc pagerank; do
    timed "$algorithm" "$graph" --devices "$list" --partitioner edges --repeat "${RUNS:-3}" --verify --json
done
exit $failed
