#!/bin/sh
# Makes a sample where no LOG_DIR is set, and counts what there is before anything is touched.
. ./scripts/common.sh

if [ -z "${LOG_DIR:-}" ]; then
  own_directory "$logs"
  for log in system firewall 'guest wifi'; do
    awk -v log_name="$log" 'BEGIN {
      for (i = 1; i <= 400; i++) printf "%05d %s: sample line, as a router writes it all day long\n", i, log_name
    }' >>"$logs/$log.log"
  done
  echo "no LOG_DIR is set: 3 sample logs of 400 more lines each in $logs"
fi
[ -d "$logs" ] || fail "LOG_DIR $logs is no directory"

lines=$(count_all_lines)
echo "$lines" >"$work/lines.new"
mv "$work/lines.new" "$work/lines"
echo 0 >"$work/pruned"
echo "before: $lines lines in $logs, $(du -sk "$logs" | cut -f 1) KiB on disk"
