#!/bin/sh
# merge.sh ALLOW: merges the lists of this run, without the names in ALLOW and everything below them.
. ./scripts/common.sh
allow=$1

sort -u "$work"/*.names >"$work/all"
awk '
  FILENAME == ARGV[1] { sub(/[#\r].*/, ""); if (NF == 1) allowed[$1] = 1; next }
  {
    name = $0
    while (1) {
      if (name in allowed) { taken++; next }
      dot = index(name, ".")
      if (dot == 0) break
      name = substr(name, dot + 1)
    }
    print
  }
' "$allow" "$work/all" >"$work/merged.new"
mv "$work/merged.new" "$work/merged"

total=$(cat "$work"/*.names | awk 'END { print NR }')
unique=$(count_lines "$work/all")
merged=$(count_lines "$work/merged")
for list in "$work"/*.names; do
  name=${list##*/}
  echo "  ${name%.names}: $(count_lines "$list")"
done
echo "merged: $merged names ($total read, $((total - unique)) twice, $((unique - merged)) allowed)"
