# From here on: the shell that steward puts around a job. See docs/slurm.md, "Submitting". Its own
# variables are named so that they hide none of the job's.
trap : USR2 # until there is something to ask
steward_signalled=
steward_got= # the signals that came, to be looked at
steward_name=$SLURM_JOB_ID
[ -z "$SLURM_ARRAY_JOB_ID" ] || steward_name=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
# Inside another job of the same user (`loan_run.py`) it keeps its own number; jobs that it submits do not inherit that.
steward_inside=
if [ -n "$STEWARD_LENT_TO" ] && [ "$STEWARD_LENT_STEP" = "$SLURM_JOB_ID.$SLURM_STEP_ID" ]; then
  steward_inside=$SLURM_JOB_ID steward_name=$STEWARD_LENT_TO
else
  unset STEWARD_LENT_TO STEWARD_LENT_STEP STEWARD_LENT_LOG
fi
export STEWARD_JOB_ID=$steward_name STEWARD_RESTART_COUNT=${SLURM_RESTART_COUNT:-0}
steward_own=$PWD/.steward-$(id -un)
export STEWARD_JOB_FOLDER=$steward_own/$steward_token
if [ -n "$SLURM_ARRAY_TASK_ID" ]; then
  export STEWARD_ARRAY_TASK_ID=$SLURM_ARRAY_TASK_ID
  STEWARD_JOB_FOLDER=$STEWARD_JOB_FOLDER/$SLURM_ARRAY_TASK_ID
fi
# What lies there is run: a folder that somebody else has made is not used.
if (umask 077 && mkdir -p "$STEWARD_JOB_FOLDER") 2>/dev/null && [ -O "$steward_own" ] && [ ! -L "$steward_own" ]; then
  steward_script=$STEWARD_JOB_FOLDER/script
  steward_log=${STEWARD_LENT_LOG:-$(readlink "/proc/$$/fd/1")} # a name with %N is another file on another node
  [ "$(tail -n 1 "$STEWARD_JOB_FOLDER/output" 2>/dev/null)" = "$steward_log" ] ||
    echo "$steward_log" >>"$STEWARD_JOB_FOLDER/output"
else # it cannot save on request, and runs all the same
  echo "steward: no folder can be made in $PWD: this job has no checkpoints on request" >&2
  unset STEWARD_JOB_FOLDER
  steward_script=$(mktemp)
fi

# Whole or not at all: half a script that ends with 0 would count as done.
keep_script() {
  cat >"$steward_script.new" && mv -f "$steward_script.new" "$steward_script" && return
  echo "steward: the script cannot be written to $steward_script: is the disk full?" >&2
  exit 75
}

# Once the job says that it can save, note that where everybody sees it. Ends by any signal that
# reaches all processes of a job, so that its absence tells those from signals to this shell alone.
watch() {
  exec 9<> <(:) # a pipe into which nothing is ever written: waiting without a child process
  steward_pause=1 # of seconds, more and more: thousands of jobs look at one file system
  until grep -q '"can": *true' "$STEWARD_JOB_FOLDER/can_save.json" 2>/dev/null; do
    read -r -t "$steward_pause" -u 9
    [ "$steward_pause" -ge 30 ] || steward_pause=$((steward_pause * 2))
  done
  steward_comment=$(squeue --noheader --jobs="$steward_name" --format=%k) || steward_comment=steward:saves=
  case $steward_comment in
  *steward:saves=*) ;;
  "(null)") scontrol update "JobId=$steward_name" "Comment=steward:job=$steward_token steward:saves=$steward_save_s" ;;
  *) scontrol update "JobId=$steward_name" "Comment=$steward_comment steward:saves=$steward_save_s" ;;
  esac
  while :; do read -r -u 9; done
}

start_watch() {
  steward_watcher=
  [ -n "$STEWARD_JOB_FOLDER" ] || return 0
  watch >/dev/null 2>&1 &
  steward_watcher=$!
  disown "$steward_watcher" # else this shell reports its end
}

# USR2: a request that a training sees by its file. The script itself gets the signal only if it has
# a handler (bit 12 of SigCgt): without one, it would end.
asked() {
  if [ -n "$STEWARD_JOB_FOLDER" ]; then
    steward_id=usr2-$steward_name-$STEWARD_RESTART_COUNT-$(date +%s%N)
    printf '{"id": "%s", "do": "save", "reason": "USR2 to the batch shell"}\n' "$steward_id" \
      >"$STEWARD_JOB_FOLDER/.request.tmp" &&
      mv -f "$STEWARD_JOB_FOLDER/.request.tmp" "$STEWARD_JOB_FOLDER/request.json"
  fi
  case $(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/${steward_child:-$!}/status" 2>/dev/null) in
  *[89abcdef]??) steward_signalled=1 && kill -USR2 "${steward_child:-$!}" ;;
  esac
}

# Any other signal is handed on, unless all processes have it already.
hand_on() {
  steward_signalled=1
  sleep 0.2
  if [ -z "$steward_watcher" ] || kill -0 "$steward_watcher" 2>/dev/null; then
    kill "-$1" "${steward_child:-$!}" 2>/dev/null
  else
    start_watch
  fi
}

# A job whose script ends in the moment in which it is requeued runs again: Slurm does not know of
# the end yet. So a script that has ended by itself, and well, leaves a note for the next run.
note_end() {
  [ -z "$steward_inside" ] || return 0 # `note_end_inside` does
  [ -n "$STEWARD_JOB_FOLDER" ] && [ -z "$steward_signalled$steward_got" ] || return 0
  kill -0 "$steward_watcher" 2>/dev/null || return 0 # a signal to all, of which this shell hears in a moment
  echo "$STEWARD_RESTART_COUNT $(date +%s)" >"$STEWARD_JOB_FOLDER/.ended.tmp" &&
    mv -f "$STEWARD_JOB_FOLDER/.ended.tmp" "$STEWARD_JOB_FOLDER/ended"
}

# A script that has ended by itself inside another job has run: Slurm's own start of it only says so.
note_end_inside() {
  [ -n "$steward_inside" ] && [ -n "$STEWARD_JOB_FOLDER" ] && [ -z "$steward_signalled$steward_got" ] || return 0
  [ "$steward_code" -lt 128 ] && kill -0 "$steward_watcher" 2>/dev/null || return 0
  echo "$steward_code" >"$STEWARD_JOB_FOLDER/.inside-status.tmp" &&
    mv -f "$STEWARD_JOB_FOLDER/.inside-status.tmp" "$STEWARD_JOB_FOLDER/inside-status"
}

exit_if_ended_inside() {
  [ -n "$STEWARD_JOB_FOLDER" ] && { read -r steward_code <"$STEWARD_JOB_FOLDER/inside-status"; } 2>/dev/null || return 0
  echo "steward: job $steward_name has run inside another job, and ended with status $steward_code" >&2
  [ -n "$steward_inside" ] || mv -f "$STEWARD_JOB_FOLDER/inside-status" "$STEWARD_JOB_FOLDER/inside-status.told"
  exit "$steward_code"
}

# Somebody released it while it ran inside another job: that run ends first, for at most a minute.
end_inside() {
  for steward_each in "$STEWARD_JOB_FOLDER"/inside-*/step; do
    [ -n "$STEWARD_JOB_FOLDER" ] && [ -e "$steward_each" ] && [ ! -e "${steward_each%/step}/status" ] || continue
    steward_step=$(cat "$steward_each")
    scancel "$steward_step" 2>/dev/null
    for steward_wait in $(seq 60); do
      squeue --noheader --steps --jobs="${steward_step%.*}" --format=%i 2>/dev/null | grep -qx " *$steward_step *" || break
      sleep 1
    done
  done
}

# Not where the requeue came before the end, which it may have caused, nor where it came later than
# Slurm takes to learn of an end: then a person wants another run.
exit_if_ended() {
  [ -n "$STEWARD_JOB_FOLDER" ] && { read -r steward_run steward_end_s <"$STEWARD_JOB_FOLDER/ended"; } 2>/dev/null || return 0
  [ "$steward_run" = $((STEWARD_RESTART_COUNT - 1)) ] || return 0
  steward_requeued_s=$(SLURM_TIME_FORMAT=%s squeue --noheader --jobs="$steward_name" --format=%V) || return 0
  [ "$steward_requeued_s" -ge "$steward_end_s" ] && [ "$steward_requeued_s" -le $((steward_end_s + 60)) ] || return 0
  echo "steward: job $steward_name had ended with status 0 when it was requeued: it does not run again" >&2
  exit 0
}

look_at_signals() {
  for steward_each in $steward_got; do
    steward_got=${steward_got#* "$steward_each"}
    if [ "$steward_each" = USR2 ]; then asked; else hand_on "$steward_each"; fi
  done
}

# Traps only note a signal. `wait` is not used while the job runs: where a signal comes in the moment in which the job
# ends, as at a requeue, bash (5.2) loses the end and waits for ever.
run() {
  exit_if_ended_inside
  [ -n "$steward_inside" ] || exit_if_ended
  [ -n "$steward_inside" ] || end_inside
  for steward_each in HUP INT QUIT USR1 USR2 TERM ALRM URG; do
    trap "steward_got=\"\$steward_got $steward_each\"" "$steward_each"
  done
  exec {steward_quiet}<> <(:) # a pipe into which nothing is ever written: a pause without a child process
  "$@" <&0 {steward_quiet}>&- & # else its input were empty
  steward_child=$!
  start_watch
  while kill -0 "$steward_child" 2>/dev/null; do
    read -r -t 0.2 -u "$steward_quiet"
    [ -z "$steward_got" ] || look_at_signals
  done
  wait "$steward_child"
  steward_code=$?
  [ "$steward_code" -ne 0 ] || note_end
  note_end_inside
  [ -z "$steward_watcher" ] || kill "$steward_watcher" 2>/dev/null
  [ -n "$STEWARD_JOB_FOLDER" ] || rm -f "$steward_script"
  exit "$steward_code"
}
