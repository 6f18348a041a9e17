#!/usr/bin/env bash
# Runs the case list on host devices, or the cases that are named, under a sanitizer of the compiler:
# thread (which reports data races), or address with SANITIZER=address. What is reported ends the run.
# Needs a nightly Rust with its sources: rustup toolchain install nightly --component rust-src
set -euo pipefail
cd "$(dirname "$0")/.."

sanitizer=${SANITIZER:-thread}
host=$(rustc --version --verbose | sed -n 's/^host: //p')
export RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR=target/$sanitizer-sanitizer
export MILLSTREAM_TEST_DEVICES=${MILLSTREAM_TEST_DEVICES:-host:4}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1} ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}

# The standard library, too, or its locks and channels look like races.
checked=(-Zbuild-std --target "$host" --no-default-features)
# Some cases run the command.
cargo +nightly build "${checked[@]}" -p millstream-cli
cargo +nightly test "${checked[@]}" -p millstream-tests --test whole -- --test-threads=1 "$@"
