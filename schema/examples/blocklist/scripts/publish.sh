#!/bin/sh
# Publishes the checked list: the file under its final name is always a whole one. Unchanged, it is not written again.
. ./scripts/common.sh
format=${FORMAT:-hosts}
target="$OUT_DIR/blocklist.$format"

case $format in
  hosts) line='0.0.0.0 &' ;;
  dnsmasq) line='address=\/&\/#' ;;
  domains) line='&' ;;
  *) fail "FORMAT is $format; it may be hosts, dnsmasq or domains" ;;
esac
sed "s/^.*\$/$line/" "$work/merged" >"$work/out"

if [ -f "$OUT_DIR/names" ]; then
  awk 'FILENAME == ARGV[1] { old[$0] = 1; next } { if ($0 in old) delete old[$0]; else added++ }
    END { for (name in old) removed++; print "changes: " added + 0 " added, " removed + 0 " removed" }' \
    "$OUT_DIR/names" "$work/merged"
fi
if [ -f "$target" ] && cmp -s "$work/out" "$target"; then
  echo "unchanged: $target"
else
  mv -f "$work/out" "$target"
  echo "published: $target"
fi
cp "$work/merged" "$work/names"
mv -f "$work/names" "$OUT_DIR/names"
echo "$(count_lines "$OUT_DIR/names") hosts are blocked"

# This run is done; what runs that failed have left is looked at for a day.
rm -rf "$work"
find "$OUT_DIR" -type d -name 'run-*' -mtime +0 -prune -exec rm -rf {} \;
