#!/bin/sh
# Runs a reduced set of the engine's tests under valgrind's memcheck: `scripts/valgrind.sh [target-dir]`.
#
# Memcheck follows the inline assembly and the cache's own mappings, so it sees reads of bytes nobody wrote
# and accesses outside a mapping, on the stable compiler. It runs 20 to 50 times slower and one thread at a
# time: the races are for the models and tests/history.rs.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] && export CARGO_TARGET_DIR="$1"
binary() {
    cargo test -p thermocline "$@" --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}
check() {
    echo "== $*"
    valgrind --quiet --error-exitcode=9 --fair-sched=yes --num-callers=20 "$@"
}
check "$(binary --lib)" --test-threads=1 item:: segment:: racing:: tags:: region:: extent:: pin::
check "$(binary --test basics)" --test-threads=1 --skip fills_far_over --skip shrinks_and_grows \
    --skip keys_from_one_byte --skip walks_every_key
STEPS=1500 SEED=1 check "$(binary --test model)"
STEPS=1500 SEED=2 check "$(binary --test model)"
