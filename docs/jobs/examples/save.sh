#!/bin/sh
# A job in shell that saves when it is asked to, by docs/jobs/checkpoints.md: it counts to LAST.
#
#   STEWARD_JOB_FOLDER=/path/to/folder sh save.sh [LAST [SECONDS_PER_STEP]]
set -eu
last=${1:-100}
pause=${2:-0.1}
folder=${STEWARD_JOB_FOLDER:?set STEWARD_JOB_FOLDER to the folder of this job}
saved="$folder/checkpoints"
mkdir -p "$saved"

# Nothing happens in a handler but a flag.
signalled=0
trap 'signalled=1' USR2 TERM

# write FILE TEXT: replace a file by rename, so that no reader sees half of it.
write() {
  printf '%s\n' "$2" >"$1.tmp"
  sync "$1.tmp" 2>/dev/null || sync
  mv -f "$1.tmp" "$1"
}

# field FILE NAME: the text of a field of a flat JSON object.
field() {
  sed -n 's/.*"'"$2"'"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' "$1" 2>/dev/null | head -n 1
}

answer() { # ID RESULT WHY
  write "$folder/answer.json" \
    '{"id": "'"$1"'", "result": "'"$2"'", "step": '"$step"', "bytes": 0, "seconds": 0, "why": "'"$3"'"}'
}

# The whole state is one number here, so that its checkpoint is one file.
save() { write "$saved/state" "$step"; }

step=0
[ ! -f "$saved/state" ] || step=$(cat "$saved/state")
rm -f "$folder/done.json"
write "$folder/can_save.json" '{"can": true, "why": "", "signals": ["USR2", "TERM"], "pid": '$$'}'
answered=$(field "$folder/answer.json" id)

while [ "$step" -lt "$last" ]; do
  sleep "$pause" # the work
  step=$((step + 1))
  write "$folder/progress.json" '{"step": '"$step"'}'

  id=$(field "$folder/request.json" id)
  if [ -n "$id" ] && [ "$id" != "$answered" ]; then
    answered=$id
    deadline=$(sed -n 's/.*"deadline_s"[[:space:]]*:[[:space:]]*\([0-9]*\).*/\1/p' "$folder/request.json")
    case $(field "$folder/request.json" do) in
      save | save-and-stop)
        if [ -n "$deadline" ] && [ "$(date +%s)" -gt "$deadline" ]; then
          answer "$id" failed "met after its deadline"
        elif save; then
          answer "$id" saved ""
          [ "$(field "$folder/request.json" do)" = save ] || exit 0
        else
          answer "$id" failed "the state could not be written"
        fi
        ;;
      *) answer "$id" cannot "do is not one of save, save-and-stop" ;;
    esac
  elif [ "$signalled" = 1 ]; then
    save
  fi
  signalled=0
done
write "$folder/done.json" '{"step": '"$step"'}'
echo "counted to $step"
