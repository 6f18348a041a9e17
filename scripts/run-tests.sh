#!/usr/bin/env bash
# Runs the case list of the bundle on GPUs.
#
#   ./run-tests.sh [LIST...]   device lists, such as cuda:0x4 cuda:0-3 cuda:0,host:1
#
# Without lists: those of DEFAULT_LISTS below that the GPUs here allow.
#
# One process a list, which keeps the GPUs' contexts from case to case. The list
# fails when a case fails, says that it was skipped (but in lists with host devices),
# or is still running after LIST_SECONDS (300); that case is named. CASES (gpus::)
# selects cases, such as gpus::litmus. Cases of large graphs need MILLSTREAM_LARGE=1,
# and a bundle without real graphs may skip theirs.
set -uo pipefail
cd "$(dirname "$0")"

# Virtual devices first, then one GPU, several, and mixed with host devices.
DEFAULT_LISTS="cuda:0x4 cuda:0 cuda:0,host:1 cuda:0x2,host:2 cuda:0-1 cuda:0-3 cuda:0-7"

[ -d real ] && export MILLSTREAM_DATASETS=$PWD/real
export CUDA_DEVICE_MAX_CONNECTIONS=12 CUDA_MODULE_LOADING=EAGER
export MILLSTREAM_COMMAND=${MILLSTREAM_COMMAND:-$PWD/millstream}
whole=${WHOLE:-./whole}
if [ $# -eq 0 ]; then
    gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
    for list in $DEFAULT_LISTS; do
        last=$(sed -n 's/^cuda:[0-9]*-\([0-9]*\)$/\1/p' <<< "$list")
        [ "$gpus" -gt "${last:-0}" ] && set -- "$@" "$list"
    done
    [ $# -gt 0 ] || { echo "no GPU here; usage: $0 LIST..." >&2; exit 2; }
fi

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# Reads what the tests say, line by line, and prints a line for each case; keeps
# the whole in $log.
watch_cases() {
    local line before now
    before=$(milliseconds)
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line" >> "$log"
        if [[ $line =~ ^test\ (gpus::[a-z0-9_:]+)\ \.\.\.\ *(.*)$ ]]; then
            now=$(milliseconds)
            printf '%-18s %-52s %-8s %6d ms\n' "$list" "${BASH_REMATCH[1]}" \
                "${BASH_REMATCH[2]:-STOPPED}" $((now - before))
            before=$now
        fi
    done
}

failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for list in "$@"; do
    : > "$log"
    start=$(milliseconds)
    case $list in
    *cuda:*) ;;
    *) echo "$list: no GPU in this list" >&2; failed=$((failed + 1)); continue ;;
    esac
    MILLSTREAM_TEST_DEVICES=$list timeout -k 5 "${LIST_SECONDS:-300}" \
        "$whole" "${CASES:-gpus::}" --test-threads=1 --show-output \
        ${MILLSTREAM_LARGE:+--include-ignored} 2>&1 | watch_cases
    code=${PIPESTATUS[0]}
    reasons=$(grep '^skipped: ' "$log")
    [ -n "${MILLSTREAM_DATASETS:-}" ] || reasons=$(grep -v MILLSTREAM_DATASETS <<< "$reasons")
    # The last: cases that run in processes of their own print theirs before.
    ran=$(sed -n 's/^test result: .* \([0-9]*\) passed; .*/\1/p' "$log" | tail -n 1)
    # What the cases measured, or why they failed.
    sed -n '/^successes:$/,$p;/^failures:$/,$p' "$log" | grep -v '^$' | awk '!seen[$0]++'
    # No kernels of host devices wait for each other.
    [[ $list != *host:* ]] || reasons=
    if [ "$code" -eq 0 ] && [ -z "$reasons" ] && [ "${ran:-0}" -gt 0 ]; then
        result="$ran cases passed"
    else
        failed=$((failed + 1))
        result="FAILED (exit $code)${reasons:+, cases were skipped}"
        [ "$code" -lt 124 ] || result="$result: still running: $(grep '^test ' "$log" | tail -1)"
    fi
    echo "$list: $result, $((($(milliseconds) - start) / 1000)) s"
done
exit $((failed > 0))
