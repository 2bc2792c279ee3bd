#!/usr/bin/env bash
# What only shows when it is done often: kills at random moments, calls that fail, files that are opened again and again, and
# fuzzers: 2,000 of each kind, which takes hours, or as many as are named. Goes on after a failure; the last lines say what
# failed.
set -uo pipefail
cd "$(dirname "$0")/.."
times=${1:-2000}
seed=${KNARR_SEED:-$((RANDOM * 32768 + RANDOM + 1))}
# Of fewer kills of a test it may be that none comes in time.
export KNARR_TIMES=$((times > 30 ? times : 30)) KNARR_SEED=$seed FUZZ_SEED=$seed
python=.venv/bin/python
failed=()
step() {
  echo "== $*, KNARR_SEED=$seed KNARR_TIMES=$KNARR_TIMES"
  "$@" || failed+=("$*")
}
# Tests kill this many times what they kill 30 times for each commit.
step $python -m pytest -q -n auto --dist worksteal -m kill tests
for suite in output_kills node_kills transfer_kills; do
  step $python tests/suites/$suite.py --times "$times" --seed "$seed"
done
# Many lives of a file have the same processes.
step $python tests/suites/life_kills.py --times $((times / 50 + 1)) --seed "$seed"
# Every fault takes 10 hours on two cores; those of distinct calls once, 20 minutes.
step $python tests/suites/faults.py $([ "$times" -lt 2000 ] && echo --distinct) --seed "$seed"
for when in close handed; do
  step $python tests/suites/soak.py --times "$times" --when $when
done
# Schedules of a commit are 100,000, in 5 seconds; these are 10 million.
step env KNARR_SEEDS=$((times * 5000)) cargo test --release --locked -p knarr-decisions --test it schedules
# A fuzzer of a commit runs 10 seconds.
step tools/fuzz.sh $((times * 10 / 30 + 1))
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "nothing failed"
