#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after another.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //'); do
		echo "== $dir $target"
		go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=1x "$dir"
	done
done
