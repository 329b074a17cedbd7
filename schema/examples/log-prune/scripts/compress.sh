#!/bin/sh
# Compresses the generations that are not yet. The plain file goes only when its compressed one reads back the same.
. ./scripts/common.sh

compressed=0 before=0 after=0
for log in "$logs"/*.log; do
  [ -f "$log" ] || continue
  generations_of "$log" >"$work/generations"
  while read -r number file; do
    case $file in *.gz) continue ;; esac
    gzip -c "$file" >"$file.gz.new"
    gzip -dc "$file.gz.new" | cmp -s - "$file" || fail "$file.gz.new does not hold what $file does"
    before=$((before + $(size_of "$file")))
    after=$((after + $(size_of "$file.gz.new")))
    mv -f "$file.gz.new" "$file.gz"
    rm "$file"
    compressed=$((compressed + 1))
  done <"$work/generations"
done
echo "compressed: $compressed files, $before -> $after bytes"
