#!/bin/sh
# Slurm epilog (runs as root on each node of a job): the job holds no GPU any more. See prolog.sh.
# It looks into every file, so that it also undoes what it is not told about.

folder="${STEWARD_JOBS:-/run/steward-jobs}"
job="${SLURM_JOB_ID:-}"

main() {
  for file in "$folder"/[0-9]*; do
    [ -f "$file" ] || continue
    (
      flock -w 5 9 || exit
      grep -qxF "$job" "$file" || exit
      grep -vxF "$job" "$file" >"$folder/.new"
      if [ -s "$folder/.new" ]; then
        touch -r "$file" "$folder/.new" # the others hold it since then
        mv "$folder/.new" "$file"
      else
        rm -f "$file" "$folder/.new"
      fi
    ) 9>"$folder/.lock"
  done
}

[ -n "$job" ] && [ -d "$folder" ] && main >/dev/null 2>&1
exit 0
