#!/bin/sh
# Keeps the KEEP newest generations of each log and removes the others, counting the lines that go.
. ./scripts/common.sh
keep=${KEEP:-3}

removed=0
for log in "$logs"/*.log; do
  [ -f "$log" ] || continue
  generations_of "$log" >"$work/generations"
  total=$(awk 'END { print NR }' "$work/generations")
  while read -r number file; do
    [ "$total" -gt "$keep" ] || break
    lines=$(gzip -dc "$file" | awk 'END { print NR }')
    # Counted before it is removed: a step that is killed in between is found out by the check, not passed over.
    echo $(($(cat "$work/pruned") + lines)) >"$work/pruned.new"
    mv "$work/pruned.new" "$work/pruned"
    rm "$file"
    echo "  ${file##*/} removed ($lines lines)"
    total=$((total - 1))
    removed=$((removed + 1))
  done <"$work/generations"
done
echo "pruned: $removed generations, $keep of each log are kept"
