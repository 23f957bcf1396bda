# shellcheck shell=bash
# What the launchers share; sourced, never run. A launcher has two lives: started by a person it
# submits itself, started by LSF it does the work. ASR_HOME is the checkout that holds lsf/.

set -euo pipefail

say() { printf '%s danish-asr: %s\n' "$(date '+%F %T')" "$*"; }
die() { say "$*" >&2; exit 2; }

ASR_HOME=$(cd "$ASR_HOME" && pwd)
# shellcheck source=lsf/site.env
. "$ASR_HOME/lsf/site.env"

for name in ASR_GPUS ASR_HOSTS ASR_SHARDS ASR_TRIES ASR_WARN ASR_CORES_PER_GPU ASR_CPU_CORES; do
  case ${!name} in
    '' | *[!0-9]*) die "$name must be a whole number, but is '${!name}'" ;;
  esac
done

on_warning=USR2 # the signal that asks a command to save and stop
output=$ASR_RUN # where its work is

dry_run=no
if [ "${1:-}" = --dry-run ]; then
  dry_run=yes
  shift
fi

# An interactive job is a shell: what is started in it is started by a person.
in_job() { [ -n "${LSB_JOBID:-}" ] && [ "${LSB_INTERACTIVE:-N}" != Y ]; }

# A warning that comes at the wrong moment must not end the shell; `work` listens to it.
if in_job; then trap '' USR1 USR2; fi

minutes() { # [HOURS:]MINUTES -> minutes
  case $1 in
    *:*) echo $((10#${1%%:*} * 60 + 10#${1##*:})) ;;
    *) echo $((10#$1)) ;;
  esac
}

# --- submitting -----------------------------------------------------------------------------------

gpu_options() { # WALL: the options of a job on ASR_HOSTS hosts with ASR_GPUS GPUs each
  local cores=$((ASR_GPUS * ASR_CORES_PER_GPU)) span="span[hosts=1]"
  if [ "$ASR_HOSTS" -gt 1 ]; then span="span[ptile=$cores]"; fi
  options=(-q "$ASR_GPU_QUEUE" -n $((ASR_HOSTS * cores)) -R "$span" -R "rusage[mem=$ASR_MEM]"
    -gpu "num=$ASR_GPUS:mode=exclusive_process" -W "$1")
  if [ -n "$ASR_GPU_SELECT" ]; then options+=(-R "select[$ASR_GPU_SELECT]"); fi
}

cpu_options() { # CORES WALL
  options=(-q "$ASR_CPU_QUEUE" -n "$1" -R "span[hosts=1]" -R "rusage[mem=$ASR_MEM]" -W "$2")
}

# submit NAME SCRIPT ARGUMENT...: submit lsf/SCRIPT with `options`; `submitted` is the job's number.
submit() {
  local name=$1 script=$2 body answer index=""
  shift 2
  case $name in *\[*) index="_%I" ;; esac
  options=(-J "$name" -o "$ASR_LOGS/${name%%\[*}-%J$index.log" -wa USR2 -wt "$ASR_WARN"
    "${options[@]}")
  body=$(job_body "$script" "$@")
  if [ $dry_run = yes ]; then
    submitted="<$name>"
    printf '%q ' bsub "${options[@]}"
    printf '<<END\n%s\nEND\n' "$body"
    return
  fi
  command -v bsub >/dev/null ||
    die "there is no bsub on this host; log in to the cluster, or see --dry-run"
  mkdir -p "$ASR_LOGS"
  answer=$(bsub "${options[@]}" <<<"$body") || die "bsub refused the job $name"
  submitted=$(sed -n 's/.*Job <\([0-9][0-9]*\)>.*/\1/p' <<<"$answer")
  [ -n "$submitted" ] || die "bsub did not say a job's number, but: $answer"
  say "job $submitted ($name) is submitted; its log: $ASR_LOGS/${name%%\[*}-$submitted*.log"
}

job_body() { # SCRIPT ARGUMENT...: what LSF will run, with every setting in it
  local script=$1 name
  shift
  echo '#!/bin/bash'
  for name in "${!ASR_@}"; do printf 'export %s=%q\n' "$name" "${!name}"; done
  echo 'export ASR_SUBMITTED=yes'
  printf 'exec bash %q' "$ASR_HOME/lsf/$script"
  if [ $# -gt 0 ]; then printf ' %q' "$@"; fi
  echo
}

# --- working --------------------------------------------------------------------------------------

enter() { # go to the checkout with everything that a job needs
  # shellcheck disable=SC2086 # several modules are several words
  if [ -n "$ASR_MODULES" ]; then module load $ASR_MODULES; fi
  cd "$ASR_HOME"
  PATH=$ASR_VENV/bin:$PATH
  [ -x "$ASR_VENV/bin/danish-asr" ] ||
    die "no danish-asr in $ASR_VENV; run \`make setup\` in $ASR_HOME, or set ASR_VENV"
  export PATH PYTHONUNBUFFERED=1
  mkdir -p "$HF_HOME" "$FAIRSEQ2_CACHE_DIR" "$TMPDIR" "$ASR_LOGS"
  rm -f "$ASR_LOGS/handed-on/$(this_job)" # LSF counts jobs anew some day
}

recipe_config() { # the arguments that both recipes take
  # shellcheck disable=SC2034 # the launchers read it
  recipe_arguments=(--config-file "$ASR_CONFIG" --config "dataset.name=$ASR_DATASET"
    "dataset.mixture_parquet_storage_config.dataset_summary_path=$ASR_DATA/language_distribution_0.tsv")
}

# Which GPUs and hosts the job has is decided when it is submitted, and `bsub < SCRIPT` knows only
# what is written in SCRIPT. If the environment asks for others, the job submits itself again.
holds_what_is_asked() {
  local gpus hosts
  gpus=$(tr ',' '\n' <<<"${CUDA_VISIBLE_DEVICES:-}" | grep -c . || true)
  hosts=$(sort -u "${LSB_DJOB_HOSTFILE:-/dev/null}" | grep -c . || true)
  if [ "$gpus" -eq 0 ]; then gpus=$ASR_GPUS; fi   # this site does not say
  if [ "$hosts" -eq 0 ]; then hosts=1; fi
  [ "$gpus" -eq "$ASR_GPUS" ] && [ "$hosts" -eq "$ASR_HOSTS" ] && return
  [ -z "${ASR_SUBMITTED:-}" ] ||
    die "asked for $ASR_GPUS GPUs on $ASR_HOSTS hosts, but this job has $gpus on $hosts"
  say "this job has $gpus GPUs on $hosts hosts; asked for $ASR_GPUS on $ASR_HOSTS: submitting again"
  return 1
}

# work COMMAND...: run it, pass LSF's warning on as `on_warning`, and say how it ended in `outcome`:
# finished, stopped (by a warning or its time budget; the same command continues), ended (by bkill) or
# failed, with the exit status in `status`.
work() {
  local child ended signalled=yes warned=no
  outcome=failed
  "$@" & # ignores warnings as this shell does, until it has handlers of its own
  child=$!
  trap 'signalled=yes warned=yes; kill -$on_warning $child 2>/dev/null || true' USR1 USR2
  trap 'signalled=yes outcome=ended; kill -TERM $child 2>/dev/null || true' INT TERM
  status=127
  while [ $signalled = yes ]; do # a trap ends `wait` before the command has ended
    signalled=no
    wait $child && ended=0 || ended=$?
    if [ $ended -ne 127 ]; then status=$ended; fi # 127: there is nothing more to wait for
  done
  trap '' USR1 USR2
  trap - INT TERM
  if [ "$outcome" = ended ]; then return; fi
  case $status in
    0) outcome=finished ;;
    75) outcome=stopped ;;
    *) if [ $on_warning != USR2 ] && [ $warned = yes ]; then outcome=stopped; fi ;;
  esac
}

# submit_again NAME SCRIPT ARGUMENT...: another job goes on where this one stopped, if it may.
submit_again() {
  local try=${ASR_TRY:-1}
  if [ "$try" -ge "$ASR_TRIES" ]; then
    say "stopped at try $try of $ASR_TRIES and not submitted again; $output is safe, and the same" \
      "command continues it"
    exit 75
  fi
  export ASR_TRY=$((try + 1))
  unset ASR_AFTER # what this one waited for is done
  submit "$@"
  handed_on_to "$submitted"
  say "stopped before the wall time; $output is safe, and job $submitted continues it" \
    "(try $ASR_TRY of $ASR_TRIES)"
}

give_up() { # say how the work ended, and end the job with its status
  case $outcome in
    ended) say "ended by a signal, not submitted again; what was saved is in $output" && exit 143 ;;
    *)
      say "failed with status $status, not submitted again; the reason stands above, and what was" \
        "saved is in $output"
      exit "$status"
      ;;
  esac
}

# A job that handed its work on ends well, so that LSF releases what waits for it with -w "done(..)".
# What was released asks here who has the work now, and waits for that one.
this_job() { echo "${LSB_JOBID}_${LSB_JOBINDEX:-0}"; }
handed_on_to() { mkdir -p "$ASR_LOGS/handed-on" && echo "$1" >"$ASR_LOGS/handed-on/$(this_job)"; }
successors() { # JOB...: the jobs that go on with the work of these
  local job
  for job in "$@"; do cat "$ASR_LOGS/handed-on/${job}_"* 2>/dev/null || true; done
}

# wait_for_successors NAME SCRIPT ARGUMENT...: if a job in ASR_AFTER handed its work on, submit this
# one again behind the job that has it now, and end.
wait_for_successors() {
  local job next condition=""
  # shellcheck disable=SC2086 # numbers of jobs
  next=$(successors ${ASR_AFTER:-} | paste -sd ' ')
  if [ -z "$next" ]; then return; fi
  for job in $next; do condition+="${condition:+ && }done($job)"; done
  export ASR_AFTER=$next
  options+=(-w "$condition")
  submit "$@"
  handed_on_to "$submitted"
  say "what this job waited for goes on in job $next; job $submitted waits for that"
  exit 0
}

# submit_conversion ARGUMENT...: one job, or an array and a job that completes what it made.
submit_conversion() {
  cpu_options "$ASR_CPU_CORES" "$ASR_CPU_WALL"
  if [ "$ASR_SHARDS" -eq 1 ]; then
    submit convert convert.sh "$@"
    return
  fi
  submit "convert[1-$ASR_SHARDS]" convert.sh "$@"
  cpu_options 1 "$ASR_CPU_WALL"
  after "$submitted"
  ASR_PART=finish submit convert-finish convert.sh "$@"
}

after() { # JOB...: make `options` wait until these jobs are done
  export ASR_AFTER=$*
  local job condition=""
  for job in "$@"; do condition+="${condition:+ && }done($job)"; done
  if [ -n "$condition" ]; then options+=(-w "$condition"); fi
}
