#!/usr/bin/env bash
# Packs what a GPU node needs to run Millstream without a Rust toolchain: the
# whole-system test binary, the benches, the command and the examples, stripped,
# with the graphs of MILLSTREAM_DATASETS and of datasets/.
#
#   scripts/gpu-bundle.sh FOLDER      writes FOLDER/millstream-gpu.tar.xz
#
# On the node: tar -xf millstream-gpu.tar.xz (without xz: python3 -m tarfile -e) &&
# ./run-tests.sh cuda:0x4, and
# ./run-examples.sh cuda:0x4, and ./bench-links --bench; beside NCCL, where PyTorch is:
#   NCCL_NVLS_ENABLE=0 ./bench-collectives --nccl "$(python3 -c 'import glob, site
#   print(*glob.glob(site.getsitepackages()[0] + "/nvidia/**/libnccl.so.2", recursive=True))')"
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: scripts/gpu-bundle.sh FOLDER}
mkdir -p "$folder"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/datasets" "$stage/examples"

# The path of the one executable that cargo builds for these arguments.
executable() {
    cargo "$@" --message-format=json |
        python3 -c 'import json, sys
paths = [m.get("executable") for m in map(json.loads, sys.stdin) if m.get("executable")]
print(paths[-1])'
}

cp "$(executable test --release --no-run -p millstream-tests --test whole)" "$stage/whole"
cp "$(executable build --release -p millstream-cli)" "$stage/millstream"
for bench in $(cd benches/benches && ls *.rs); do
    name=${bench%.rs}
    cp "$(executable bench --no-run -p millstream-benches --bench "$name")" "$stage/bench-$name"
done
for example in $(ls examples/examples); do
    name=${example%.rs}
    cp "$(executable build --release -p millstream-examples --example "$name")" "$stage/examples/$name"
done
find "$stage" -type f -exec strip {} +
cp datasets/*.mtx datasets/*.el datasets/*.gz "$stage/datasets/"
if [ -d "${MILLSTREAM_DATASETS:-}" ]; then
    cp -r "$MILLSTREAM_DATASETS" "$stage/real"
fi
cp scripts/{run-{tests,at-once,large,examples},compile-kernels,sanitize}.sh scripts/random-runs.py "$stage/"
# The programs are much alike: a dictionary as large as all of them finds that.
tar -C "$stage" -cf - . | xz --lzma2=preset=6,dict=128MiB > "$folder/millstream-gpu.tar.xz"
size=$(stat -c %s "$folder/millstream-gpu.tar.xz")
echo "$folder/millstream-gpu.tar.xz: $((size >> 10)) KiB"
[ "$size" -le $((40 << 20)) ] || { echo "larger than 40 MiB" >&2; exit 1; }
