#!/usr/bin/env bash
# Compiles the kernels of the bundle for the GPUs here, on all processors at once: the cases find
# them in the cache, where each alone would compile one after the other.
set -uo pipefail
cd "$(dirname "$0")"

MILLSTREAM_ARCHITECTURES=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
    tr -d . | sort -u | paste -sd ,)
export MILLSTREAM_ARCHITECTURES
exec "${WHOLE:-./whole}" compile:: --quiet
