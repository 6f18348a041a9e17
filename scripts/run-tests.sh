#!/usr/bin/env bash
# Runs the case list of the bundle on GPUs.
#
#   ./run-tests.sh [LIST...]   device lists, such as cuda:0x4 cuda:0-3 cuda:0,host:1
#
# Without lists: all GPUs here, in under six minutes.
#
# One process a list, which keeps the GPUs' contexts from case to case. A case that says
# nothing for CASE_SECONDS (100) is stopped, and another process goes on with the next, until
# LIST_SECONDS (345) are over. Cases that open the GPUs in processes of their own, which takes
# most of their time, run beside the others on more than four GPUs, or with BESIDE=1 (or not,
# with 0): times of cases are then those of a busy node.
# The list fails when a case fails, was stopped or did not run, or
# says that it was skipped: but in lists with host devices for what needs peers, on one device
# for what needs several, on one GPU for what needs several of them, on other than eight devices
# for what needs as many, and for what needs emulation.
# Cases that were skipped count as such, also those that were so in part. CASES (gpus::) selects
# cases, such as gpus::litmus. Without, all kernels are compiled first, which LIST_SECONDS
# does not count.
# Cases of large graphs need MILLSTREAM_LARGE=1, and a bundle without real graphs may skip theirs.
set -uo pipefail
cd "$(dirname "$0")"

if [ $# -eq 0 ]; then
    last=$(($(nvidia-smi --list-gpus 2> /dev/null | wc -l) - 1))
    # Which of them CUDA shows, it also numbers.
    [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || last=$(tr -cd , <<< "$CUDA_VISIBLE_DEVICES" | wc -c)
    case $last in
    -1) echo "no GPU here; usage: run-tests.sh LIST..." >&2; exit 2 ;;
    0) set -- cuda:0 ;;
    *) set -- "cuda:0-$last" ;;
    esac
fi

[ -d real ] && export MILLSTREAM_DATASETS=$PWD/real
export CUDA_DEVICE_MAX_CONNECTIONS=12 CUDA_MODULE_LOADING=EAGER
export MILLSTREAM_COMMAND=${MILLSTREAM_COMMAND:-$PWD/millstream}
whole=${WHOLE:-./whole}
# Once for lists that run at once. What does not compile fails in the cases.
[ -n "${CASES:-}${KERNELS_ARE_COMPILED:-}" ] || ./compile-kernels.sh > /dev/null 2>&1

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# Runs cases in one process until they are over or one is stopped, and prints a line for each;
# keeps what they say in $log. 124 when one was stopped: $ended holds those that had begun.
run_cases() {
    local line before now case limit process
    before=$(milliseconds)
    exec 3< <(exec setsid "$whole" --exact "$@" --test-threads=1 --show-output \
        ${MILLSTREAM_LARGE:+--include-ignored} 2>&1)
    process=$!
    echo "$process" > "$folder/$part.process"
    while :; do
        limit=$((start / 1000 + ${LIST_SECONDS:-345} - $(date +%s)))
        [ "$limit" -lt "${CASE_SECONDS:-100}" ] || limit=${CASE_SECONDS:-100}
        # As when nothing is said in time.
        line= code=142
        [ "$limit" -le 0 ] || { IFS= read -r -t "$limit" line <&3; code=$?; }
        [ -z "$line" ] || printf '%s\n' "$line" >> "$log"
        if [[ $line =~ ^test\ (gpus::[a-z0-9_:]+)\ \.\.\.\ *(.*)$ ]]; then
            now=$(milliseconds)
            case=${BASH_REMATCH[1]}
            ended+=("$case")
            [ "$code" -le 128 ] || stopped+=("$case")
            printf '%-18s %-52s %-8s %6d ms\n' "$list" "$case" \
                "${BASH_REMATCH[2]:-STOPPED}" $((now - before))
            before=$now
        fi
        [ "$code" -eq 0 ] || break
    done
    # Whoever does not stop on being asked is not asked again.
    [ "$code" -le 128 ] || { kill -- -"$process"; sleep 2; kill -9 -- -"$process"; } 2> /dev/null
    exec 3<&-
    wait "$process"
    process=$?
    rm -f "$folder/$part.process"
    [ "$code" -le 128 ] || return 124
    return "$process"
}

# The cases of "$@" that are not in $ended.
left_of() {
    printf '%s\n' "$@" | grep -vxF -f <(printf '%s\n' "${ended[@]}" '')
}

# Runs the cases of a part of a list, in as many processes as it takes: what they say goes into
# the folder, and the worst exit code and which were stopped.
run_part() {
    local part=$1 left=("${@:2}") ended=() stopped=() worst=0 code
    local log=$folder/$part.log
    : > "$log"
    # Whoever does not come to the end of this has failed.
    echo 125 > "$folder/$part.end"
    while [ ${#left[@]} -gt 0 ]; do
        run_cases "${left[@]}"
        code=$?
        [ "$code" -eq 0 ] || worst=$code
        [ "$code" -eq 124 ] || break
        [ $((start / 1000 + ${LIST_SECONDS:-345})) -gt "$(date +%s)" ] || break
        mapfile -t left < <(left_of "${left[@]}")
    done
    printf '%s %s\n' "$worst" "${stopped[*]}" > "$folder/$part.end"
}

failed=0
folder=$(mktemp -d)
# Cases are in sessions of their own, and would go on.
end() {
    local running
    for running in "$folder"/*.process; do
        [ ! -s "$running" ] || kill -9 -- -"$(cat "$running")" 2> /dev/null
    done
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
log=$folder/log
for list in "$@"; do
    start=$(milliseconds)
    case $list in
    *cuda:*) ;;
    *) echo "$list: no GPU in this list" >&2; failed=$((failed + 1)); continue ;;
    esac
    export MILLSTREAM_TEST_DEVICES=$list
    mapfile -t all < <("$whole" --list ${MILLSTREAM_LARGE:+--include-ignored} 2> /dev/null |
        sed -n 's/: test$//p' | grep -F "${CASES:-gpus::}" | grep '^gpus::')
    beside=() are_many=0
    [[ ! $list =~ ^cuda:0-([0-9]+)$ ]] || are_many=$((BASH_REMATCH[1] > 3))
    [ "${BESIDE:-$are_many}" -ne 1 ] ||
        mapfile -t beside < <(printf '%s\n' "${all[@]}" | grep -E '^gpus::(faults|command)::')
    mapfile -t others < <(printf '%s\n' "${all[@]}" | grep -vxF -f <(printf '%s\n' "${beside[@]}" ''))
    rm -f "$folder"/*
    run_part beside "${beside[@]}" &
    run_part others "${others[@]}"
    wait
    cat "$folder"/*.log > "$log"
    worst=$(sort -n "$folder"/*.end | tail -n 1 | cut -d ' ' -f 1)
    stopped=$(cut -d ' ' -f 2- "$folder"/*.end | xargs)
    reasons=$(grep '^skipped' "$log" | grep -v '^skipped, needs emulation: ')
    [ -n "${MILLSTREAM_DATASETS:-}" ] || reasons=$(grep -v MILLSTREAM_DATASETS <<< "$reasons")
    [[ $list =~ ^cuda:(0-7|[0-9]x8)$ ]] ||
        reasons=$(grep -v '^skipped, needs eight: ' <<< "$reasons")
    [[ $list != *host:* ]] || reasons=$(grep -v '^skipped, needs peers: ' <<< "$reasons")
    [[ ! $list =~ ^cuda:[0-9]+$ ]] || reasons=$(grep -v '^skipped, needs several: ' <<< "$reasons")
    [[ ! $list =~ ^cuda:[0-9]+(x[0-9]+)?(,host:.*)?$ ]] ||
        reasons=$(grep -v '^skipped, needs several GPUs: ' <<< "$reasons")
    # What cases say comes after their names.
    skipped=$(awk 'FNR == 1 { name = "" } /^---- gpus::/ { name = $2 } /^skipped/ { print name }' \
        "$folder"/*.log | sort -u)
    # Once each: those that run in processes of their own print theirs too.
    ran=$(sed -n 's/^test \(gpus::.*\) \.\.\. *ok$/\1/p' "$log" | sort -u |
        grep -vcxF -f <(printf '%s\n' "$skipped" ''))
    skipped=$(grep -c . <<< "$skipped")
    ignored=$(grep -c '^test gpus::.* \.\.\. *ignored' "$log")
    # What the cases measured, or why they failed.
    sed -s -n '/^successes:$/,$p;/^failures:$/,$p' "$folder"/*.log | grep -v '^$' | awk '!seen[$0]++'
    if [ "$worst" -eq 0 ] && [ -z "$reasons" ] && [ "$ran" -gt 0 ] &&
        [ $((ran + skipped + ignored)) -eq ${#all[@]} ]; then
        result="$ran cases passed, $skipped skipped"
    else
        failed=$((failed + 1))
        result="FAILED (exit $worst), $ran of ${#all[@]} cases passed, $skipped skipped"
        [ -z "$stopped" ] || result="$result, stopped: $stopped"
        [ -z "$reasons" ] || result="$result, some of them without need"
    fi
    echo "$list: $result, $((($(milliseconds) - start) / 1000)) s"
done
exit $((failed > 0))
