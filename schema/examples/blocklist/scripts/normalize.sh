#!/bin/sh
# normalize.sh NAME FORMAT: reads the list in $SOURCE (a file or an http(s) address) into plain host names, sorted.
# FORMAT: hosts, domains, adblock.
. ./scripts/common.sh
name=$1
format=$2
raw="$work/$name.raw"

case $SOURCE in
  http://* | https://*)
    echo "fetching $SOURCE"
    wget -q -T 30 -O "$raw" "$SOURCE" || fail "$SOURCE could not be fetched"
    ;;
  *)
    cat "$SOURCE" >"$raw" || fail "$SOURCE cannot be read"
    ;;
esac
[ -s "$raw" ] || fail "$SOURCE is empty"

# Both outputs are made under other names first: a step that is killed and tried again finds nothing half-done.
tr -d '\r' <"$raw" | tr 'A-Z' 'a-z' | awk -v format="$format" -v rejected="$work/$name.rejected.new" '
  function is_host(text, count, labels, i) {
    if (length(text) > 253 || text ~ /^[0-9.]+$/) return 0
    count = split(text, labels, ".")
    if (count < 2) return 0
    for (i = 1; i <= count; i++)
      if (length(labels[i]) > 63 || labels[i] !~ /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/) return 0
    return 1
  }
  function take(text) {
    # Names that every hosts file begins with are no entries.
    if (text ~ /^(localhost|broadcasthost|local|ip6-.*|localhost\..*)$/) return
    if (is_host(text)) print text
    else print text >rejected
  }
  BEGIN { printf "" >rejected }
  format == "adblock" {
    if ($0 ~ /^\|\|[^\/*^$]+\^(\$.*)?$/) {
      sub(/^\|\|/, "")
      sub(/\^.*$/, "")
      take($0)
    } else if ($0 !~ /^[ \t]*(!.*|\[.*)?$/) print $0 >rejected
    next
  }
  { sub(/#.*/, "") }
  format == "hosts" { for (i = 2; i <= NF; i++) take($i); next }
  NF == 1 { take($1); next }
  NF > 1 { print $0 >rejected }
' | sort -u >"$work/$name.names.new"
mv "$work/$name.rejected.new" "$work/$name.rejected"
mv "$work/$name.names.new" "$work/$name.names"

names=$(count_lines "$work/$name.names")
echo "$name: $names names, $(count_lines "$work/$name.rejected") entries of $SOURCE not usable"
sed 's/^/  not usable: /; 5q' "$work/$name.rejected"
[ "$names" -gt 0 ] || fail "$SOURCE holds no host name in the format $format"
