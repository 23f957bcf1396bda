#!/bin/bash
# What runs in a job: lsf/job.sh TASK [ELEMENTS], ELEMENTS if it is an array. lsf/submit.sh submits it;
# its settings come with the environment. TASK: convert, train, evaluate or sweep.

main() { # as a function it is read whole, so that the file may change while a job runs
  begin "$@"
  case $1 in
    convert)
      split "$ASR_CONVERT_ARGS"
      # The warning ends it; finished shards are not converted again.
      run timeout -s USR2 "${seconds:-0}" danish-asr convert "$ASR_SOURCE" --name "$ASR_DATASET" \
        --out "$ASR_DATA" "${arguments[@]}"
      if [ "$status" = 124 ]; then status=75; fi
      # In the demo as if its time had ended: does the site start jobs again?
      if [ "${ASR_SOURCE%%:*}$status$try" = synthetic01 ] && [ "$ASR_TRIES" -gt 1 ]; then status=75; fi
      ;;
    train | evaluate)
      split "$ASR_ARGS"
      run "${launcher[@]}" danish_asr "$1" "$ASR_RUN" --config "$ASR_CONFIG" --dataset "$ASR_DATA" \
        "${values[@]}" "${arguments[@]}"
      # It would begin anew, and stop at the same limit.
      if [ "$1$status" = evaluate75 ]; then say "nothing was kept: raise ASR_EVALUATE_TIME" && status=1; fi
      ;;
    sweep)
      split "$ASR_SWEEP"
      run "${launcher[@]}" danish_asr sweep "$ASR_RUN" --config "$ASR_CONFIG" --dataset "$ASR_DATA" \
        "${values[@]}" "${arguments[@]}" --only "$index/$2"
      ;;
  esac
  end
}

say() { printf '%s danish-asr: %s\n' "$(date '+%F %T')" "$*"; }

# begin TASK [ELEMENTS]: log to ASR_LOGS, count the starts of this job and find its time limit.
begin() {
  local save=$((60 * ASR_SAVE_MINUTES))
  index=${SLURM_ARRAY_TASK_ID:-${LSB_JOBINDEX:-}}
  id=${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-${LSB_JOBID:-}}}${2:+_$index}
  if [ -z "$id" ] || ! cd "${ASR_HOME:-}"; then echo "use lsf/submit.sh" >&2 && exit 2; fi
  mkdir -p "$HF_HOME" "$FAIRSEQ2_CACHE_DIR" "$TMPDIR" "$ASR_LOGS" || exit 2
  exec >>"$ASR_LOGS/$1-$id.log" 2>&1
  # shellcheck disable=SC2086 # several modules are several words
  if [ -n "$ASR_MODULES" ]; then module load $ASR_MODULES; fi
  export PATH="$ASR_VENV/bin:$PATH" PYTHONUNBUFFERED=1
  tries=$ASR_LOGS/.tries-$1-$id
  try=$(($(cat "$tries" 2>/dev/null || echo 0) + 1))
  echo $try >"$tries" || exit 2
  if [ -n "${SLURM_JOB_ID:-}" ]; then # before 23.02 only the warning says when to save
    seconds=${SLURM_JOB_END_TIME:+$((SLURM_JOB_END_TIME - $(date +%s)))}
  else
    seconds=$(bjobs -noheader -o runtimelimit "$LSB_JOBID" 2>/dev/null |
      sed -n '1s/^ *\([0-9][0-9]*\).*/\1*60/p')
    seconds=${seconds:+$((seconds))}
  fi
  # Until it must save; empty if its time limit is not known.
  seconds=${seconds:+$((seconds > 2 * save ? seconds - save : seconds / 2))}
  say "job $id on $(hostname): $1, start $try of $ASR_TRIES${seconds:+, saves in $seconds s}"
  status=2
  # An earlier start may still be saving, or its host is lost.
  if [ "$try" -gt 1 ]; then export DANISH_ASR_LOCK_MINUTES=30; fi
  values=("trainer.max_wall_minutes=$([ -n "$seconds" ] && printf '%d.%02d' $((seconds / 60)) \
      $((seconds % 60 * 100 / 60)) || echo null)")
  # What starts ignores the warning until it has a handler.
  launcher=(bash -c "trap '' USR2; exec \"\$@\"" - python -m danish_asr.base.cluster -m)
}

# split TEXT: set `arguments` to its words. Quotes are a shell's, closed on their line; nothing is expanded.
split() {
  mapfile -t arguments < <(xargs -r printf '%s\n' <<<"$1")
}

# run COMMAND...: set `status`. The warning is passed on, as Slurm gives it to this shell only.
run() {
  local child='' ended='' output
  status=1
  trap 'pkill -USR2 -P $child' USR2
  # bkill and scancel signal each process, or this shell only. A second INT would not let it save.
  trap 'ended=130; pkill -TERM -P $child' INT
  trap 'ended=143; pkill -TERM -P $child' TERM
  # The command's status comes through a pipe. Not `wait`, which loses it if a signal comes as the
  # process ends; `read` ends above 128 at each signal, and is called again.
  exec {output}< <(trap : USR2 INT TERM; "$@" >&2; echo $?)
  child=$!
  until read -r -u "$output" status || [ $? -lt 128 ]; do :; done
  # Without a handler, as in its last moments, the warning kills it. What was saved is kept.
  if [ "$status" = 140 ]; then status=75; fi
  # It was ended, unless it has finished, and is not started again.
  if [ -n "$ended" ] && [ "$status" != 0 ]; then say "ended by a signal" && exit "$ended"; fi
}

# end: end the job with `status`. One that ends with 75 is started again: by bsub -Q 75, or here.
end() {
  if [ "$status" = 0 ]; then
    say "done"
  elif [ "$status" = 137 ]; then
    say "killed, often for lack of memory: raise ASR_MEMORY (ASR_CONVERT_MEMORY); submit it again to continue"
  elif [ "$status" != 75 ]; then
    say "failed with status $status; see above"
  elif [ "$try" -ge "$ASR_TRIES" ]; then
    say "saved and stopped at start $try of $ASR_TRIES (ASR_TRIES); submit it again to continue"
    status=76
  else
    say "saved and stopped before the time limit; this job starts again"
    [ -n "${SLURM_JOB_ID:-}" ] || exit 75
    trap - TERM
    if scontrol requeue "$id"; then sleep 600; fi # until Slurm ends this start
    say "but Slurm refused: see above; submit it again to continue"
    status=76
  fi
  rm -f "$tries"
  exit "$status"
}

main "$@"
