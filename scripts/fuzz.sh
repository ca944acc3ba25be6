#!/bin/sh
# Runs every fuzz target for a while: `scripts/fuzz.sh [seconds] [target...]`, 30 seconds each by default.
#
# Needs `cargo install cargo-fuzz`. Works on the stable compiler (no sanitizer, all assertions on);
# `SANITIZER=address TOOLCHAIN=+nightly scripts/fuzz.sh` adds AddressSanitizer, which sees the heap and the
# stack but not inside the cache's own mappings: those are bounds-checked by the engine itself.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-30}
[ $# -gt 0 ] && shift
targets=${*:-engine_ops item_decode coded_value save_file wire_text wire_meta}
sanitizer=${SANITIZER:-none}
# cargo-fuzz passes flags that the stable compiler keeps for the nightly one.
export RUSTC_BOOTSTRAP=1
for target in $targets; do
    echo "== $target"
    # New inputs go to the first directory; the second is the committed seed corpus.
    mkdir -p "fuzz/found/$target" "fuzz/corpus/$target"
    cargo ${TOOLCHAIN:-} fuzz run --sanitizer "$sanitizer" "$target" "fuzz/found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -print_final_stats=1 -rss_limit_mb=2048
done
