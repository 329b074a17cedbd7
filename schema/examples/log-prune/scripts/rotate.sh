#!/bin/sh
# Moves every log that has grown to ROTATE_BYTES or more aside, as its next generation.
. ./scripts/common.sh

rotated=0 left=0
for log in "$logs"/*.log; do
  [ -f "$log" ] || continue
  if [ "$(size_of "$log")" -lt "${ROTATE_BYTES:-16384}" ]; then
    left=$((left + 1))
    continue
  fi
  last=$(generations_of "$log" | tail -n 1)
  next=$((${last%% *} + 1))
  # Whoever writes to the log opens it anew when the name is gone (BusyBox syslogd does within a second).
  mv "$log" "$log.$next"
  : >"$log"
  echo "  ${log##*/} -> ${log##*/}.$next ($(size_of "$log.$next") bytes)"
  rotated=$((rotated + 1))
done
echo "rotated: $rotated logs, $left below ${ROTATE_BYTES:-16384} bytes"
