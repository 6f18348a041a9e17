#!/usr/bin/env bash
# Runs a command on emulated GPUs: emulator/README.md.
#
#   scripts/emulate.sh COMMAND [ARGUMENT...]
#
# such as: scripts/emulate.sh millstream bfs road.mill --devices cuda:0-7 --verify
# CARGO_TARGET_DIR is where the emulator is built. g++ compiles the kernels.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
[ $# -gt 0 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p millstream-emulator
folder=$target/emulator
mkdir -p "$folder"
for name in libcuda.so libnvrtc.so.13; do
    ln -sf ../release/libmillstream_emulator.so "$folder/$name"
done
# Cases of tests are smaller then.
export MILLSTREAM_EMULATED=1
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} MILLSTREAM_NVRTC=$folder
exec "$@"
