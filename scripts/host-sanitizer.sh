#!/usr/bin/env bash
# Runs the case list on host devices, or the cases that are named, under ThreadSanitizer: the first data
# race that it reports ends the run.
# Needs a nightly Rust with its sources: rustup toolchain install nightly --component rust-src
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc --version --verbose | sed -n 's/^host: //p')
export RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=target/thread-sanitizer
export MILLSTREAM_TEST_DEVICES=${MILLSTREAM_TEST_DEVICES:-host:4}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

# The standard library, too, or its locks and channels look like races.
checked=(-Zbuild-std --target "$host" --no-default-features)
# Some cases run the command.
cargo +nightly build "${checked[@]}" -p millstream-cli
cargo +nightly test "${checked[@]}" -p millstream-tests --test whole -- --test-threads=1 "$@"
