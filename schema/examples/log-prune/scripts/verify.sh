#!/bin/sh
# Checks the whole: no line lost, every compressed file readable, no log too large, no more generations than are kept,
# and the total within its bound.
. ./scripts/common.sh
problems="$work/problems"
keep=${KEEP:-3}

lines=$(cat "$work/lines")
pruned=$(cat "$work/pruned")
now=$(count_all_lines)
kib=$(du -sk "$logs" | cut -f 1)
{
  # Logs may have grown meanwhile, never shrunk.
  [ $((now + pruned)) -ge "$lines" ] || echo "$((lines - now - pruned)) of $lines lines are lost"
  for log in "$logs"/*.log; do
    [ -f "$log" ] || continue
    generations_of "$log" >"$work/generations"
    count=$(awk 'END { print NR }' "$work/generations")
    [ "$count" -le "$keep" ] || echo "$log has $count generations, $keep are allowed"
    while read -r number file; do
      gzip -t "$file" 2>/dev/null || echo "$file cannot be read back"
    done <"$work/generations"
  done
  [ "$kib" -le "${MAX_TOTAL_KIB:-1024}" ] || echo "$logs takes $kib KiB, ${MAX_TOTAL_KIB:-1024} are allowed"
} >"$problems"

if [ -s "$problems" ]; then
  sed 's/^/  /' "$problems"
  fail "$(awk 'END { print NR }' "$problems") problems in $logs"
fi
echo "verified: $lines lines before = $now kept + $pruned pruned (or more written since); $kib KiB on disk"
df -k "$logs" | awk 'NR == 2 { print "space left on " $NF ": " $(NF - 2) " KiB" }'

# This run is done; what runs that failed have left is looked at for a day.
rm -rf "$work"
find "$STATE_DIR" -type d -name 'run-*' -mtime +0 -prune -exec rm -rf {} \;
