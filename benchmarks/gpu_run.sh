#!/usr/bin/env bash
# Tests and times the TileLang kernels on a GPU machine that has PyTorch but no network.
#
#   benchmarks/gpu_run.sh ARCHIVE OUT [tests|times]
#
# ARCHIVE holds TileLang and pytest for that machine's Python as one folder `site`; OUT receives
# tests.txt, bench.txt, bench.json and bench.html; bench.json goes on where an earlier one ended. With
# a third argument, only that half runs.
set -uo pipefail
archive=${1:?usage: gpu_run.sh ARCHIVE OUT [tests|times]}
out=${2:?usage: gpu_run.sh ARCHIVE OUT [tests|times]}
what=${3:-all}
site=/tmp/gpu
mkdir -p "$site" "$out"
[ -d "$site/site" ] || tar xJf "$archive" -C "$site" || exit 2
commit=$(git rev-parse --short HEAD 2>/dev/null || cat "$(dirname "$archive")/commit" 2>/dev/null)
export PYTHONPATH=$site/site:$PWD/src PYTHONUNBUFFERED=1 TILELANG_CACHE_DIR=$site/cache
export TILELANG_PRINT_ON_COMPILATION=0 OMP_NUM_THREADS=1
status=0
if [ "$what" != times ]; then
  # The machine's own plugins and the warnings of its packages are not what is tested there.
  PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 timeout 280 python3 -m pytest tests/gpu \
    src/tileops/testing/generated/test_gpu*.py \
    -m gpu -v -p xdist -n 12 -W default -p no:cacheprovider -o faulthandler_timeout=90 \
    --continue-on-collection-errors --durations=5 2>&1 | tee "$out/tests.txt"
  status=${PIPESTATUS[0]}
fi
if [ "$what" != tests ]; then
  timeout 280 python3 -m tileops bench --device cuda --tilelang --against torch,cublas,cudnn \
    --graph --jobs 12 --patience 20 --seconds 0.1 --budget 240 --commit "${commit:-unknown}" \
    --json "$out/bench.json" --resume >"$out/bench.txt" 2>&1 || status=1
  tail -5 "$out/bench.txt"
  python3 -m tileops report "$out/bench.json"
fi
exit "$status"
