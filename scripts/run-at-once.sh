#!/usr/bin/env bash
# Runs the case list on several device lists at once, each on GPUs of its own.
#
#   ./run-at-once.sh GPUS=LIST...   such as 0=cuda:0x4 1=cuda:0 2,3=cuda:0-1
#
# LIST counts from the first of its GPUS, as `run-tests.sh` has it, whose variables hold
# here too. What a list says comes when it is over. Times of cases are those of a busy
# node: measure by `run-tests.sh LIST` alone.
set -uo pipefail
cd "$(dirname "$0")"

[ $# -gt 0 ] || { echo "usage: run-at-once.sh GPUS=LIST..." >&2; exit 2; }
[ -n "${CASES:-}" ] || ./compile-kernels.sh > /dev/null 2>&1
export KERNELS_ARE_COMPILED=1

failed=0
processes=()
for pair in "$@"; do
    {
        said=$(CUDA_VISIBLE_DEVICES=${pair%%=*} ./run-tests.sh "${pair#*=}" 2>&1)
        code=$?
        printf '%s\n' "$said"
        exit $code
    } &
    processes+=($!)
done
for process in "${processes[@]}"; do
    wait "$process" || failed=1
done
exit $failed
