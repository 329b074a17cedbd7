#!/bin/sh
# Decides from the answers of this run's probes: up, degraded, down or unknown.
. ./scripts/common.sh
quorum=${QUORUM:-2}

up=0 down=0 unknown=0
for probe in "$work"/*.probe; do
  [ -f "$probe" ] || fail 'no probe has left an answer'
  read -r answer reason <"$probe"
  name=${probe##*/}
  echo "  ${name%.probe}: $answer ($reason)"
  case $answer in
    up) up=$((up + 1)) ;;
    down) down=$((down + 1)) ;;
    *) unknown=$((unknown + 1)) ;;
  esac
done

if [ "$up" -ge "$quorum" ]; then
  state=up
elif [ "$up" -gt 0 ]; then
  state=degraded
elif [ "$down" -gt 0 ]; then
  state=down
else
  state=unknown
fi
echo "$state $up of $((up + down + unknown)) up, $down down, $unknown unknown" >"$work/decision.new"
mv "$work/decision.new" "$work/decision"
echo "decision: $state ($up up, $down down, $unknown unknown; quorum $quorum)"
