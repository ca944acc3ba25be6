#!/usr/bin/env bash
# All policies on all recorded traces, through the engine: how often each misses. What is counted does not depend on
# the machine, so there are no repeats and no intervals, and the suite of replays runs it instead of `thermolab run`.
#
#   experiments/policies.sh TRACES RESULTS [BASELINES]
#
# TRACES: a folder of traces. RESULTS: a folder to be made: points.jsonl (one point a line) and report.md.
# BASELINES: miss ratios of other policies (CSV); adds the regret. THERMOLAB names another binary.
set -euo pipefail
traces="$1" results="$2" baselines="${3:-}"
lab="${THERMOLAB:-target/release/thermolab}"
mkdir -p "$results"
"$lab" replay-suite "$traces" --unit-size --percents 1,10,40 --policies gen-duel,s3fifo,mglru,lru,fifo --json \
    | grep '^{' >"$results/points.jsonl"
"$lab" replay-suite "$traces" --taken "$results/points.jsonl" ${baselines:+--baselines "$baselines"} >"$results/report.md"
echo "written: $results" >&2
