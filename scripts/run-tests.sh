#!/usr/bin/env bash
# Runs the case list of the bundle on GPUs.
#
#   ./run-tests.sh LIST...     device lists, such as cuda:0x4 cuda:0-3
#
# Each case has a time limit; a list whose first device is no GPU here fails.
set -uo pipefail
cd "$(dirname "$0")"
[ $# -gt 0 ] || { echo "usage: $0 LIST..." >&2; exit 2; }
[ -d real ] && export MILLSTREAM_DATASETS=$PWD/real
export CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER
failed=0
for list in "$@"; do
    cases=$(./whole --list --format terse gpu | sed -n 's/: test$//p')
    for case in $cases; do
        start=$(date +%s%N)
        if output=$(MILLSTREAM_TEST_DEVICES=$list timeout 60 ./whole --exact "$case" --nocapture 2>&1)
        then result=ok
        else result="FAILED ($?)"; failed=$((failed + 1)); echo "$output" | tail -25
        fi
        printf '%-12s %-45s %-12s %6d ms\n' "$list" "$case" "$result" \
            $((($(date +%s%N) - start) / 1000000))
    done
    echo "$list: $failed failed"
done
exit $((failed > 0))
