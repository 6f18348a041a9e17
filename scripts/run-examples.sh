#!/usr/bin/env bash
# Runs every example on lists of devices, each for EXAMPLE_SECONDS (60) at most.
#
#   ./run-examples.sh [LIST...]   device lists, such as cuda:0x4 cuda:0,host:1 host:2
#
# Without lists: on what MILLSTREAM_DEVICES names, else every GPU, else four host
# devices. The examples are those of the bundle, or of the folder EXAMPLES. Exits
# with 1 when one fails, and shows what it said.
set -uo pipefail
folder=${EXAMPLES:-$(dirname "$0")/examples}
export CUDA_DEVICE_MAX_CONNECTIONS=12 CUDA_MODULE_LOADING=EAGER
[ $# -gt 0 ] || set -- ""
shopt -s nullglob
examples=()
for file in "$folder"/[0-9][0-9]-*; do
    [ -x "$file" ] && examples+=("$file")
done
[ ${#examples[@]} -gt 0 ] || { echo "no examples in $folder" >&2; exit 2; }

failed=0
for list in "$@"; do
    [ -z "$list" ] || export MILLSTREAM_DEVICES=$list
    for example in "${examples[@]}"; do
        start=$(date +%s%N)
        output=$(timeout -k 5 "${EXAMPLE_SECONDS:-60}" "$example" 2>&1)
        code=$?
        result=ok
        if [ "$code" -ne 0 ]; then
            result="FAILED ($code)"
            failed=$((failed + 1))
        fi
        printf '%-18s %-22s %-12s %6d ms\n' "${MILLSTREAM_DEVICES:-default}" "$(basename "$example")" \
            "$result" $((($(date +%s%N) - start) / 1000000))
        [ "$code" -eq 0 ] || tail -20 <<< "$output"
    done
done
exit $((failed > 0))
