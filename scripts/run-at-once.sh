#!/usr/bin/env bash
# Runs the case list on several device lists at once, each on GPUs of its own.
#
#   ./run-at-once.sh [GPUS=LIST...]   such as 0=cuda:0x4 1=cuda:0 2,3=cuda:0-1
#
# LIST counts from the first of its GPUS, as `run-tests.sh` has it, whose variables hold
# here too. What a list says comes when it is over. Times of cases are those of a busy
# node: measure by `run-tests.sh LIST` alone.
#
# Without arguments: those of DEFAULT_LISTS below that the GPUs here allow, each as soon as
# enough GPUs are free, those that need all of them last. TOTAL_SECONDS (350) limits all of
# them together: a list that does not end in time fails.
set -uo pipefail
cd "$(dirname "$0")"

# Those that take longest first: several GPUs, virtual devices, mixed with host devices.
DEFAULT_LISTS="cuda:0-7 cuda:0-3 cuda:0-1 cuda:0x4 cuda:0,host:1 cuda:0x2,host:2 cuda:0"

# Of all lists together, if they are the default ones.
end=$(($(date +%s) + ${TOTAL_SECONDS:-350}))
[ -n "${CASES:-}" ] || ./compile-kernels.sh > /dev/null 2>&1
export KERNELS_ARE_COMPILED=1

failed=0
# Of each list's process, its GPUs; and those that no list has.
declare -A gpus_of=()
free=()

# Begins a list: GPUS LIST SECONDS.
begin() {
    {
        said=$(CUDA_VISIBLE_DEVICES=$1 LIST_SECONDS=$3 ./run-tests.sh "$2" 2>&1)
        code=$?
        printf '%s\n' "$said"
        exit $code
    } &
    gpus_of[$!]=$1
}

# Waits for so many free GPUs, or with `all` until no list runs.
await() {
    local process
    while [ ${#gpus_of[@]} -gt 0 ]; do
        [ "$1" = all ] || [ ${#free[@]} -lt "$1" ] || return
        for process in "${!gpus_of[@]}"; do
            kill -0 "$process" 2> /dev/null && continue
            wait "$process" || failed=1
            IFS=, read -ra ended <<< "${gpus_of[$process]}"
            free+=("${ended[@]}")
            unset "gpus_of[$process]"
        done
        sleep 0.2
    done
}

# How many GPUs a list needs.
gpus_for() {
    local last
    last=$(sed -n 's/^cuda:[0-9]*-\([0-9]*\)$/\1/p' <<< "$1")
    echo $((${last:-0} + 1))
}

run_default_lists() {
    local some=() all=() list needed left taken
    local number
    number=$(nvidia-smi --list-gpus 2> /dev/null | wc -l)
    mapfile -t free < <(seq 0 $((number - 1)))
    [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || IFS=, read -ra free <<< "$CUDA_VISIBLE_DEVICES"
    number=${#free[@]}
    for list in $DEFAULT_LISTS; do
        needed=$(gpus_for "$list")
        [ "$needed" -ge "$number" ] || some+=("$list")
        [ "$needed" -ne "$number" ] || all+=("$list")
    done
    [ "$number" -gt 0 ] || { echo "no GPU here; usage: run-tests.sh LIST..." >&2; exit 2; }
    for list in "${some[@]}" "${all[@]}"; do
        needed=$(gpus_for "$list")
        await "$needed"
        left=$((end - $(date +%s)))
        if [ "$left" -le 0 ]; then
            echo "$list: FAILED, did not run within ${TOTAL_SECONDS:-350} s"
            failed=1
            continue
        fi
        [ "$left" -lt "${LIST_SECONDS:-345}" ] || left=${LIST_SECONDS:-345}
        taken=$(IFS=,; echo "${free[*]:0:needed}")
        free=("${free[@]:needed}")
        begin "$taken" "$list" "$left"
    done
}

if [ $# -eq 0 ]; then
    run_default_lists
else
    for pair in "$@"; do
        begin "${pair%%=*}" "${pair#*=}" "${LIST_SECONDS:-345}"
    done
fi
await all
exit $failed
