# The launcher: runs one attempt's command in a session of its own, so that the command, its output and its result
# outlive the runtime. For dash and BusyBox ash; forks only mkfifo, dd and wc, and execs what `command` says. (A bash
# works too; it adds a variable `_` to the command's environment.)
#
#   sh launcher.sh ATTEMPT-ID ATTEMPT-DIRECTORY SEGMENT-BYTES [START-BY]     current directory = ATTEMPT-DIRECTORY,
#                                                                            stderr = notes
#
# START-BY, in ticks of /proc/uptime: a command that has not taken its start by then never does.
#
# Without SEGMENT-BYTES (0: this system has no mkfifo, dd or wc) there is no pump, and output is thrown away.
#
# Order is what makes it exact. Nothing may be moved across these lines:
#   files that will be written later are preallocated  →  a full disk is met before the command, never after it
#   pump started, `alive` opened, `identity` written   →  whoever comes later can find and watch what runs
#   `taken` created exclusively, by the child          →  from here on the command runs; before, it never did
#   receipt written at the command's own end           →  before the pump and whatever the command left behind end
set -u
umask 077
attempt=$1
home=$2
segment_bytes=$3
start_by=${4:-}
block_bytes=8192

# Signals to the group are for the command: launcher and pump ignore them, its process has the defaults again.
signals='HUP INT QUIT USR1 USR2 ALRM TERM'
trap '' $signals

# Keeps the first segment and the last one to two of what comes in; says in `count` where each of them begins.
# `1<>` overwrites in place: the page was allocated at the start.
say_count() {
  echo "ql-count-1 $attempt $start_1 $start_2 $thrown $1 end" 1<>count
}

# Nothing more can be kept: read on, so that the command does not stand still, and count what is thrown away.
throw_rest() {
  say_count throwing
  thrown=$(wc -c)
  say_count short
  exit 0
}

# The segment that was filled before the last one makes room. Its start is taken out of `count` while its old bytes are
# still there, and the new one is said when they are gone, so that a reader never takes one for the other.
next_segment() {
  start=$((start + size))
  size=0
  if [ "$segment" = 1 ]; then
    segment=2 start_2=-
  else
    segment=1 start_1=-
  fi
  say_count open
  command : >"out.$segment" || throw_rest
  if [ "$segment" = 1 ]; then start_1=$start; else start_2=$start; fi
  say_count open
}

pump() {
  segment=0 start=0 size=0 start_1=- start_2=- thrown=0
  while :; do
    # dd ends after this many reads, however small; fewer are the end of the output. The last count that it says is the
    # final one (USR1 makes it say one between). Without any (a full disk), the end is when nothing more has come.
    reads_max=$(((segment_bytes - size + block_bytes - 1) / block_bytes))
    dd bs=$block_bytes count=$reads_max 2>records >>"out.$segment" || throw_rest
    reads=$reads_max
    while read -r records rest; do
      [ "$rest" != 'records in' ] || reads=$((${records%+*} + ${records#*+}))
    done <records
    [ "$reads" = $reads_max ] || break
    size_before=$size
    size=$(wc -c <"out.$segment") || throw_rest
    [ "$size" != "$size_before" ] || break
    [ "$size" -lt "$segment_bytes" ] || next_segment
  done
  say_count done
}

# Field k of /proc/PID/stat becomes $k: what follows the command name begins with the third.
read -r stat </proc/$$/stat || exit 1
set -- 1 2 ${stat##*) }
[ "$6" = $$ ] || exit 1
start_ticks=${22}
read -r boot_id </proc/sys/kernel/random/boot_id || exit 1
read -r uptime rest </proc/uptime || exit 1

page=' '
for doubling in 1 2 3 4 5 6 7 8 9 10 11 12; do page=$page$page; done
echo "${page#?}" >receipt || exit 1
echo "${page#?}" >count || exit 1

# Both ends of `output` are open before the pump is forked, and neither is open for both afterwards: opening never
# blocks, and a command whose pump was killed gets SIGPIPE. `pumping` has its writer from before the fork on.
# In parentheses: a shell keeps copies of what it redirects for a function.
# Its mode is for a command of another user that opens /dev/stdout; the directory lets no one else come to it.
pump_pid=0
if [ "$segment_bytes" = 0 ]; then
  echo "ql-count-1 $attempt - - - short end" 1<>count
  exec 7>/dev/null
else
  mkfifo -m 622 alive output pumping || exit 1
  exec 8<>output 6<output 7>output 8>&- 5<>pumping
  (pump) <&6 6<&- 7>&- 2>/dev/null &
  pump_pid=$!
  exec 5>&- 6<&- 9<>alive
fi
echo "ql-identity-1 $attempt $$ $start_ticks $boot_id $uptime $pump_pid end" >identity || exit 1

# The shell's own word about a signal goes to `notes` (stderr) after this line; the line allocates the page for it.
echo 'ql-notes-1' >&2 || exit 1
(
  trap - $signals
  read -r pid rest </proc/self/stat || exit 1
  if [ -n "$start_by" ]; then
    read -r uptime rest </proc/uptime || exit 1
    if [ "${uptime%.*}${uptime#*.}" -ge "$start_by" ]; then
      echo 'the lease of its runtime is over' >&2
      exit 1
    fi
  fi
  set -- "$home/taken" "ql-taken-1 $attempt $pid end"
  # Goes to the task's directory and sets its limits, adds to $@ the umask and the words of the command, and may make
  # the shell's variables those of the command: none of the launcher's own is asked for any more.
  . ./command || exit 1
  set -C
  command exec 4>"$1" || exit 1
  echo "$2" >&4 2>/dev/null
  umask "$3"
  shift 3
  exec "$@" >&7 2>&7 4>&- 7>&- 9>&-
)
status=$?
[ -f taken ] && [ ! -h taken ] || exit 1
read -r uptime rest </proc/uptime
echo "ql-receipt-1 $attempt $status $uptime end" 1<>receipt
