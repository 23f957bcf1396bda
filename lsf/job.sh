# shellcheck shell=bash
# Shared by the scripts that run as jobs. They source this in the checkout.

# shellcheck source=lsf/site.env
. lsf/site.env

say() { printf '%s danish-asr: %s\n' "$(date '+%F %T')" "$*"; }

# split TEXT: set `arguments` to its words. Quotes are a shell's; nothing is expanded.
split() {
  mapfile -d '' -t arguments < <(xargs -r printf '%s\0' <<<"$1")
  wait $! || { say "expected arguments with each quote closed on its line, found: $1"; end 2; }
}

# begin NAME DIRECTORY: prepare the job, log to ASR_LOGS and count the starts of this job in DIRECTORY.
begin() {
  id=${LSB_JOBID:-${SLURM_JOB_ID:-local}}
  if [ "${LSB_JOBINDEX:-0}" != 0 ]; then id+=_$LSB_JOBINDEX; fi
  mkdir -p "$HF_HOME" "$FAIRSEQ2_CACHE_DIR" "$TMPDIR" "$ASR_LOGS" "$2" || exit 2
  # LSF keeps the output of the last start only.
  exec >>"$ASR_LOGS/$1-$id.log" 2>&1
  # shellcheck disable=SC2086 # several modules are several words
  if [ -n "$ASR_MODULES" ]; then module load $ASR_MODULES; fi
  [ -x "$ASR_VENV/bin/danish-asr" ] ||
    { say "no danish-asr in $ASR_VENV; run \`make setup\` in $ASR_HOME, or set ASR_VENV"; exit 2; }
  export PATH="$ASR_VENV/bin:$PATH" PYTHONUNBUFFERED=1
  # After bkill the command saves and ends with 75; another status keeps LSF from starting it again.
  trap 'exit 130' INT
  trap 'exit 143' TERM
  tries=$2/.tries-$id
  try=$(($(cat "$tries" 2>/dev/null || echo 0) + 1))
  echo $try >"$tries"
  # Minutes until the job must stop; empty if its wall time is not known.
  if [ -n "${SLURM_JOB_ID:-}" ]; then # Slurm before 23.02 has no SLURM_JOB_END_TIME
    ends=${SLURM_JOB_END_TIME:-$(scontrol show job "$SLURM_JOB_ID" |
      sed -n 's/.* EndTime=\([0-9T:-]*\) .*/\1/p' | date +%s -f -)}
    budget=${ends:+$(((ends - $(date +%s)) / 60))}
  else
    budget=$(bjobs -noheader -o runtimelimit "${LSB_JOBID:-}" 2>/dev/null |
      sed -n '1s/^ *\([0-9][0-9]*\).*/\1/p')
  fi
  budget=${budget:+$((budget > 2 * ASR_SAVE_MINUTES ? budget - ASR_SAVE_MINUTES : budget / 2))}
  settings=("dataset.name=$ASR_DATASET"
    "dataset.mixture_parquet_storage_config.dataset_summary_path=$ASR_DATA/language_distribution_0.tsv"
    "trainer.max_wall_minutes=${budget:-null}")
  split "$ASR_ARGS"
  arguments=(--config-file "$ASR_CONFIG" --config "${settings[@]}" "${arguments[@]}")
  say "job $id on $(hostname): $1, start $try of $ASR_TRIES, ${budget:-unknown} minutes"
}

# recipe MODULE: run a recipe with one process per GPU of the job.
recipe() {
  local gpus hosts
  set -- "$1" "$ASR_RUN" "${arguments[@]}"
  gpus=$(tr , '\n' <<<"${CUDA_VISIBLE_DEVICES:-}" | grep -c .)
  hosts=$(sort -u "${LSB_DJOB_HOSTFILE:-/dev/null}" | paste -sd ' ')
  # Ignored until the recipe, or its launcher, has a handler.
  trap '' USR2
  if [[ $hosts == *' '* ]]; then # several hosts: untested
    blaunch -z "$hosts" "$ASR_VENV/bin/python" -m danish_asr.base.cluster --nnodes "$(wc -w <<<"$hosts")" \
      --nproc-per-node "$gpus" --rdzv-backend c10d --rdzv-id "$LSB_JOBID" \
      --rdzv-endpoint "$(hostname):$((20000 + LSB_JOBID % 40000))" -m "$@"
  elif [ "$gpus" -gt 1 ]; then
    python -m danish_asr.base.cluster --standalone --nproc-per-node "$gpus" -m "$@"
  else
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-${LSB_DJOB_NUMPROC:-$(nproc)}} python -m "$@"
  fi
}

# end STATUS: end the job. LSF starts a job that ends with 75 again (bsub -Q 75).
end() {
  case $1 in
    0) say "done" ;;
    75)
      if [ "$try" -lt "$ASR_TRIES" ]; then
        say "saved and stopped before the wall time; this job starts again"
        exit 75
      fi
      say "saved and stopped at start $try of $ASR_TRIES (ASR_TRIES); submit it again to continue"
      set -- 76
      ;;
    *) say "failed with status $1; see above" ;;
  esac
  rm -f "$tries"
  exit "$1"
}
