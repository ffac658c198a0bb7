#!/bin/sh
# Slurm prolog (runs as root on each node of a job): says which job now holds which GPU.
#
#   slurm.conf:  Prolog=/etc/slurm/prolog.d/*  Epilog=/etc/slurm/epilog.d/*
#
# One file per GPU, a job id per line: steward's collector `job-map` reads it, and so does
# dcgm-exporter (--hpc-job-mapping-dir). A prolog that fails drains its node, so this never does.

folder="${STEWARD_JOBS:-/run/steward-jobs}"
job="${SLURM_JOB_ID:-}"
gpus="${SLURM_JOB_GPUS:-${GPU_DEVICE_ORDINAL:-${CUDA_VISIBLE_DEVICES:-}}}"

# 0,2-4 becomes 0 2 3 4; what is no number (a UUID, a MIG slice) is left out
numbers() {
  printf '%s\n' "$1" | tr ',' '\n' | while IFS=- read -r first last; do
    case "$first" in '' | *[!0-9]*) continue ;; esac
    case "${last:-$first}" in *[!0-9]*) continue ;; esac
    seq "$first" "${last:-$first}"
  done
}

main() {
  umask 022
  mkdir -p "$folder" || return
  for gpu in $(numbers "$gpus"); do
    (
      flock -w 5 9 || exit
      grep -qxF "$job" "$folder/$gpu" 2>/dev/null || printf '%s\n' "$job" >>"$folder/$gpu"
    ) 9>"$folder/.lock"
  done
}

[ -n "$job" ] && [ -n "$gpus" ] && main >/dev/null 2>&1
exit 0
