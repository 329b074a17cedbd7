#!/bin/sh
# probe.sh NAME: looks at $TARGET once and keeps `up`, `down` or `unknown` with the reason. Always succeeds: that a
# line is down is an answer, and the decision waits for it. `unknown` means that this machine cannot tell.
. ./scripts/common.sh
name=$1
# Elsewhere only for trying this script out.
proc=${PROC_DIR:-/proc}
sys=${SYS_DIR:-/sys}

# Interface and gateway of the default route. /proc/net/route has addresses as numbers of this machine: the mask of
# any network shows which end comes first.
default_route() {
  [ -r "$proc/net/route" ] || return 0
  awk '
    NR > 1 && $8 != "00000000" { if (substr($8, 1, 2) == "FF" && substr($8, 7, 2) != "FF") big = 1 }
    NR > 1 && $2 == "00000000" && $8 == "00000000" && !found { found = 1; interface = $1; gateway = $3 }
    END {
      if (!found) exit
      printf "%s", interface
      for (i = 1; i <= 4; i++) {
        at = big ? 2 * i - 1 : 9 - 2 * i
        high = index("0123456789ABCDEF", substr(gateway, at, 1)) - 1
        low = index("0123456789ABCDEF", substr(gateway, at + 1, 1)) - 1
        printf "%s%d", i == 1 ? " " : ".", 16 * high + low
      }
      printf "\n"
    }' "$proc/net/route"
}

answer() {
  printf '%s %s\n' "$1" "$2" >"$work/$name.new"
  mv "$work/$name.new" "$work/$name.probe"
  echo "$name: $1 ($2)"
  exit 0
}

probe_link() {
  route=$(default_route)
  interface=${route%% *}
  interface=${interface:-lo}
  [ -d "$sys/class/net/$interface" ] || answer unknown "no interface $interface in $sys/class/net"
  # `carrier` cannot be read while an interface is switched off.
  carrier=$(cat "$sys/class/net/$interface/carrier" 2>/dev/null) || answer down "$interface is switched off"
  [ "$carrier" = 1 ] || answer down "$interface has no carrier"
  answer up "$interface has a carrier"
}

# Neighbours that answered lately are in the ARP table with flag 0x2: for where nobody may ping. An entry outlives its
# neighbour by a while, so a ping without an answer is never outvoted by it.
in_arp_table() {
  [ -r "$proc/net/arp" ] || return 1
  awk -v address="$1" '$1 == address && $3 == "0x2" { yes = 1 } END { exit !yes }' "$proc/net/arp"
}

probe_address() {
  if [ "${PING:-yes}" != yes ]; then
    why='ping is switched off'
  elif command -v ping >/dev/null 2>&1; then
    said=$(ping -c 1 -W 3 "$1" 2>&1) && answer up "$1 answers a ping"
    case $said in
      *ermitted* | *ermission* | *'are you root'*) why='ping is not permitted' ;;
      *) answer down "$1 does not answer a ping" ;;
    esac
  else
    why='there is no ping'
  fi
  if in_arp_table "$1"; then answer up "$1 answered lately, says the ARP table"; fi
  case $1 in
    127.*) [ "$(cat "$sys/class/net/lo/carrier" 2>/dev/null)" != 1 ] || answer up "$1 is this machine, lo is up" ;;
  esac
  answer unknown "$why, and $1 is not in the ARP table"
}

probe_port() {
  address=${1%:*}
  port=${1##*:}
  command -v nc >/dev/null 2>&1 || answer unknown 'there is no nc'
  if said=$(nc -w 3 "$address" "$port" </dev/null 2>&1); then
    answer up "$1 accepts connections"
  fi
  # The smallest nc of BusyBox knows no -w, and would wait for minutes without it.
  case $said in
    *[Uu]sage* | *option*) answer unknown 'this nc has no option -w' ;;
  esac
  answer down "$1 accepts no connection"
}

case ${TARGET:-gateway} in
  link) probe_link ;;
  gateway)
    route=$(default_route)
    [ -n "$route" ] || answer down 'there is no default route for IPv4'
    # A point-to-point line has no gateway address; its route says only where it goes.
    [ "${route#* }" != 0.0.0.0 ] || answer unknown 'the default route has no gateway address'
    probe_address "${route#* }"
    ;;
  *.*.*.*:*) probe_port "$TARGET" ;;
  *) probe_address "$TARGET" ;;
esac
