#!/usr/bin/env bash
# Runs the small cases of the bundle under NVIDIA's compute-sanitizer: memcheck,
# initcheck, synccheck, and racecheck for shared memory.
#
#   ./sanitize.sh [LIST...]    device lists of one GPU, such as cuda:0
#
# Without lists each case runs on the devices that it needs. A case that says that it was skipped
# has failed.
# For memcheck and initcheck every buffer is an allocation of its own
# (MILLSTREAM_EXACT_ALLOCATIONS=1), so that an access beside it is seen; racecheck, which has no
# use for that, now and then does not come back from freeing pinned memory. initcheck sees who reads
# what nobody has written of packets, staging, uploads and most of a search's memory
# (Device::buffer_to_overwrite, shared_to_overwrite); all other memory of GPUs is zeroed when it is
# allocated, as its documentation says, and so counts as written. It does not see what copies of one call
# (cuMemcpyBatchAsync) write. Kernels that wait
# for other kernels may hang under the sanitizer: cases of litmus and faults are left out, and
# lists should name each GPU once unless a case needs several devices. TOOLS selects tools, each of which has a GPU of its own as far
# as there are, CASES cases; CASE_SECONDS (240) limits one case under one tool.
set -uo pipefail
cd "$(dirname "$0")"
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || { echo "no compute-sanitizer here; set PATH to CUDA's bin" >&2; exit 2; }

CASES=${CASES:-"
    gpus::device::copies_between_all_endpoints
    gpus::device::fills_of_every_width
    gpus::device::kernels_and_their_mistakes
    gpus::device::events_order_streams_of_all_devices
    gpus::foreign::memory_of_the_program_is_a_buffer
    gpus::filtering_over_two_routers
    gpus::a_message_larger_than_all_buffers
    gpus::packets_are_written_where_they_are_received
    gpus::bfs_of_small_graphs
    gpus::twins::relaxations::breadth_first_search
    gpus::twins::relaxations::shortest_paths
    gpus::twins::push::pushed_residuals
    gpus::twins::routes::items_that_go_everywhere
    gpus::levels::levels_of_awkward_graphs
    gpus::steps::steps_on_awkward_graphs
    gpus::rows::some_rows_of_all_lengths_are_sorted
    gpus::algorithms::pagerank_by_pulling_as_asked
    gpus::algorithms::components_of_awkward_graphs
    gpus::transfers::every_way_by_size
    gpus::collectives::every_collective
    gpus::full_empty::packets_go_through_kernels_of_all_devices
    gpus::near_far::near_and_far_of_long_rows_and_one_way_streets
    gpus::near_far::piles_of_a_few_places
    gpus::fused::fused_runs_of_a_small_graph
    gpus::transfers::a_link_within_a_kernel
    gpus::collectives::resident_kernels
    gpus::twins::filters::the_commands_filter
"}
export CUDA_DEVICE_MAX_CONNECTIONS=12 CUDA_MODULE_LOADING=EAGER
# initcheck remembers every byte of every copy.
export MILLSTREAM_LARGEST_COPY=${MILLSTREAM_LARGEST_COPY:-20003}
# Of resident kernels: every collective in some rounds of each of eight blocks.
export MILLSTREAM_LITMUS_ROUNDS=${MILLSTREAM_LITMUS_ROUNDS:-64}
gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
[ "$gpus" -gt 0 ] || { echo "no GPU here" >&2; exit 2; }

# The devices that a case needs: one GPU, or two where nothing goes from one to itself.
list_of() {
    case $1 in
        gpus::transfers::every_way_by_size | gpus::collectives::every_collective | \
            gpus::packets_are_written_where_they_are_received) echo cuda:0x2 ;;
        gpus::collectives::resident_kernels) echo cuda:0x2 ;;
        *) echo cuda:0 ;;
    esac
}

# All cases under one tool, on these lists if there are any.
check() {
    local tool=$1 failed=0 list case start output code result
    shift
    case $tool in
        memcheck | initcheck) export MILLSTREAM_EXACT_ALLOCATIONS=1 ;;
    esac
    for case in $CASES; do
        for list in "${@:-$(list_of "$case")}"; do
            case "$tool $case" in
                # Hooking is all relaxed loads and stores, which racecheck takes for plain ones.
                "racecheck gpus::algorithms::components_of_awkward_graphs") continue ;;
                # Takes more than three minutes.
                "racecheck gpus::steps::steps_on_awkward_graphs") continue ;;
            esac
            start=$(date +%s)
            # Errors of calls are the cases' own business: some ask for them.
            output=$(MILLSTREAM_TEST_DEVICES=$list timeout -k 5 "${CASE_SECONDS:-240}" \
                "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9 \
                "${WHOLE:-./whole}" --exact "$case" --test-threads=1 --nocapture 2>&1)
            code=$?
            result=ok
            if [ "$code" -ne 0 ] || ! grep -q '^test result: ok. 1 passed' <<< "$output" ||
                grep -q 'skipped, needs' <<< "$output"; then
                result="FAILED ($code)"
                failed=1
                tail -40 <<< "$output"
            fi
            printf '%-10s %-10s %-45s %-12s %4d s\n' "$list" "$tool" "$case" "$result" \
                $(($(date +%s) - start))
        done
    done
    return $failed
}

failed=0 started=0
running=()
for tool in ${TOOLS:-memcheck initcheck synccheck racecheck}; do
    # The one that was on this GPU before.
    if [ $started -ge "$gpus" ]; then
        wait "${running[started - gpus]}" || failed=1
        unset "running[started - gpus]"
    fi
    CUDA_VISIBLE_DEVICES=$((started % gpus)) check "$tool" "$@" &
    running[started]=$!
    started=$((started + 1))
done
for process in "${running[@]}"; do
    wait "$process" || failed=1
done
exit $failed
