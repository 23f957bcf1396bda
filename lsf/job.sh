# shellcheck shell=bash
# What the launchers share; sourced, never run. A launcher has two lives: started by a person it
# submits itself, started by LSF it does the work. ASR_HOME is the checkout that holds lsf/.

set -euo pipefail

say() { printf '%s danish-asr: %s\n' "$(date '+%F %T')" "$*"; }
die() { say "$*" >&2; exit 2; }

# --- settings -------------------------------------------------------------------------------------

ASR_HOME=$(cd "$ASR_HOME" && pwd)
settings=$ASR_HOME/lsf/site.env
[ -f "$settings" ] || die "$settings is missing; git checkout lsf/site.env brings it back"
if grep -q $'\r' "$settings"; then
  die "$settings has DOS line ends; mend it with: sed -i 's/\\r\$//' '$settings'"
fi
# A path that is given counts from where it is given, and the job may run elsewhere.
for name in ASR_SCRATCH ASR_VENV ASR_DATA ASR_CONFIG ASR_RUN ASR_LOGS ASR_CACHE; do
  case ${!name:-/} in /*) ;; *) printf -v "$name" %s "$PWD/${!name}" ;; esac
done
case ${ASR_SOURCE:-} in
  *:/*) ;;
  *:*) if [ -e "${ASR_SOURCE#*:}" ]; then ASR_SOURCE=${ASR_SOURCE%%:*}:$PWD/${ASR_SOURCE#*:}; fi ;;
esac
# shellcheck source=lsf/site.env
. "$settings"

minutes() { echo $((10#${1%%:*} * 60 + 10#${1##*:})); } # HOURS:MINUTES

for name in ASR_GPUS ASR_HOSTS ASR_SHARDS ASR_TRIES ASR_WARN ASR_CORES_PER_GPU ASR_CPU_CORES; do
  [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$name must be a whole number from 1, but is '${!name}'"
done
for name in ASR_WALL ASR_EVAL_WALL ASR_CPU_WALL; do
  [[ ${!name} =~ ^[0-9]+:[0-5][0-9]$ ]] ||
    die "$name must be hours:minutes, such as 24:00, but is '${!name}'"
  [ "$(minutes "${!name}")" -gt "$ASR_WARN" ] ||
    die "$name=${!name} must be longer than ASR_WARN=$ASR_WARN, the minutes to save and stop in"
done
[[ $ASR_MEM =~ ^[0-9]+[KMGT]B?$ ]] || # LSF would take a bare number for KB or MB
  die "ASR_MEM must be a size with its unit, such as 8GB, but is '$ASR_MEM'"

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

after() { # JOB...: make `options` wait until these jobs are done
  export ASR_AFTER=$*
  local job condition=""
  for job in "$@"; do condition+="${condition:+ && }done($job)"; done
  if [ -n "$condition" ]; then options+=(-w "$condition"); fi
}

# submit NAME SCRIPT ARGUMENT...: submit lsf/SCRIPT with `options`; `submitted` is the job's number.
# Fails, and says why, if LSF takes no job.
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
  check_before_submission
  mkdir -p "$ASR_LOGS" || die "ASR_LOGS, or ASR_SCRATCH around it, must be where you may write"
  answer=$(env -u BSUB_QUIET bsub "${options[@]}" <<<"$body") || {
    say "bsub refused the job $name" >&2
    return 2
  }
  submitted=$(sed -n 's/.*Job <\([0-9][0-9]*\)>.*/\1/p' <<<"$answer")
  [ -n "$submitted" ] || die "bsub did not say a job's number, but: $answer"
  say "job $submitted ($name) is submitted; its log: $ASR_LOGS/${name%%\[*}-$submitted*.log"
}

check_before_submission() { # what a job would die of after its time in the queue
  command -v bsub >/dev/null ||
    die "there is no bsub on this host; log in to the cluster, or see --dry-run"
  [ -x "$ASR_VENV/bin/danish-asr" ] ||
    die "no danish-asr in $ASR_VENV; run \`make setup\` in $ASR_HOME, or set ASR_VENV"
  [ -f "$ASR_CONFIG" ] || die "ASR_CONFIG is $ASR_CONFIG, where there is no file"
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

# --- who has the work -----------------------------------------------------------------------------

# A job that handed its work on ends well, so that LSF releases what waits for it with -w "done(..)".
# So each job leaves a note: the number of the job that goes on, `done`, or `unfinished`. LSF forgets
# a job an hour after its end; the notes stay.
leave_note() {
  mkdir -p "$ASR_LOGS/handed-on"
  echo "$1" >"$ASR_LOGS/handed-on/${LSB_JOBID}_${LSB_JOBINDEX:-0}"
}

notes() { cat "$ASR_LOGS/handed-on/${1}_"* 2>/dev/null; } # JOB: its note, or its elements'

heirs() { # JOB...: the jobs that have the work of these and are not done, or `unfinished`
  local job next
  for job in "$@"; do
    for next in $(notes "$job"); do
      case $next in
        done) ;;
        unfinished) echo "$next" ;;
        *) if notes "$next" >/dev/null; then heirs "$next"; else echo "$next"; fi ;;
      esac
    done
  done
}

# wait_for_heirs NAME SCRIPT ARGUMENT...: if a job in ASR_AFTER handed its work on and that is not
# done, submit this one again behind the job that has it now, and end.
wait_for_heirs() {
  local heirs
  # shellcheck disable=SC2086 # numbers of jobs
  read -ra heirs <<<"$(heirs ${ASR_AFTER:-} | paste -sd ' ')"
  if [ ${#heirs[@]} -eq 0 ]; then return; fi
  case " ${heirs[*]} " in *' unfinished '*)
    outcome=waited
    give_up
    ;;
  esac
  after "${heirs[@]}"
  submit "$@"
  leave_note "$submitted"
  say "what this job waited for goes on in job ${heirs[*]}; job $submitted waits for that"
  exit 0
}

# submit_again NAME SCRIPT ARGUMENT...: another job goes on where this one stopped, if it may.
submit_again() {
  local try=${ASR_TRY:-1} what="$output is safe, and the same command continues it"
  if [ "$try" -ge "$ASR_TRIES" ]; then
    leave_note unfinished || true
    say "stopped at try $try of $ASR_TRIES and not submitted again; $what"
    exit 75
  fi
  export ASR_TRY=$((try + 1))
  unset ASR_AFTER # what this one waited for is done
  if ! submit "$@"; then
    leave_note unfinished || true
    say "stopped before the wall time, and LSF takes no other job now; $what"
    exit 75
  fi
  leave_note "$submitted"
  say "stopped before the wall time; $output is safe, and job $submitted continues it" \
    "(try $ASR_TRY of $ASR_TRIES)"
}

# --- working --------------------------------------------------------------------------------------

# begin_on_gpus NAME SCRIPT WALL ARGUMENT...: submit lsf/SCRIPT and end, unless this is the job that
# was asked for and what it waits for is done.
begin_on_gpus() {
  local name=$1 script=$2
  gpu_options "$3"
  shift 3
  if ! in_job; then
    [ -f "$ASR_DATA/manifest.json" ] ||
      say "note: $ASR_DATA holds no complete dataset; lsf/convert.sh makes it" >&2
    submit "$name" "$script" "$@"
    exit
  fi
  if ! holds_what_is_asked; then
    submit "$name" "$script" "$@"
    leave_note "$submitted"
    exit
  fi
  wait_for_heirs "$name" "$script" "$@"
  enter
  # shellcheck disable=SC2034 # the launchers read it
  recipe_arguments=(--config-file "$ASR_CONFIG" --config "dataset.name=$ASR_DATASET"
    "dataset.mixture_parquet_storage_config.dataset_summary_path=$ASR_DATA/language_distribution_0.tsv")
}

# Which GPUs and hosts the job has is decided when it is submitted, and `bsub < SCRIPT` knows only
# what is written in SCRIPT. If the environment asks for others, the job submits itself again.
holds_what_is_asked() {
  local gpus hosts
  gpus=$(tr ',' '\n' <<<"${CUDA_VISIBLE_DEVICES:-}" | grep -c . || true)
  hosts=$({
    cat "${LSB_DJOB_HOSTFILE:-/dev/null}"
    tr ' ' '\n' <<<"${LSB_HOSTS:-}"
    xargs -n 2 <<<"${LSB_MCPU_HOSTS:-}" | cut -d ' ' -f 1
  } | sort -u | grep -c . || true)
  if [ "$gpus" -eq 0 ]; then gpus=$ASR_GPUS; fi # this site does not say
  if [ "$hosts" -eq 0 ]; then hosts=1; fi
  [ "$gpus" -eq "$ASR_GPUS" ] && [ "$hosts" -eq "$ASR_HOSTS" ] && return
  [ -z "${ASR_SUBMITTED:-}" ] ||
    die "asked for $ASR_GPUS GPUs on $ASR_HOSTS hosts, but this job has $gpus on $hosts"
  say "this job has $gpus GPUs on each of $hosts hosts, but ASR_GPUS=$ASR_GPUS and" \
    "ASR_HOSTS=$ASR_HOSTS: submitting again"
  return 1
}

enter() { # go to the checkout with everything that a job needs
  # shellcheck disable=SC2086 # several modules are several words
  if [ -n "$ASR_MODULES" ]; then module load $ASR_MODULES; fi
  cd "$ASR_HOME"
  [ -x "$ASR_VENV/bin/danish-asr" ] ||
    die "no danish-asr in $ASR_VENV; run \`make setup\` in $ASR_HOME, or set ASR_VENV"
  export PATH="$ASR_VENV/bin:$PATH" PYTHONUNBUFFERED=1
  mkdir -p "$HF_HOME" "$FAIRSEQ2_CACHE_DIR" "$TMPDIR" "$ASR_LOGS"
  rm -f "$ASR_LOGS/handed-on/${LSB_JOBID}_${LSB_JOBINDEX:-0}" # LSF counts jobs anew some day
}

# work COMMAND...: run it, pass LSF's warning on as `on_warning`, and say how it ended in `outcome`:
# finished, stopped (by a warning or its time budget), ended (by bkill) or failed, with the exit
# status in `status`.
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
    143) if [ $on_warning = TERM ] && [ $warned = yes ]; then outcome=stopped; fi ;;
  esac
}

finish() { # WORDS: say that the work is done
  leave_note 'done' || true # a full disk hides no success
  say "done: $*"
}

give_up() { # say how the work ended, and end the job with its status
  leave_note unfinished || true
  case $outcome in
    ended)
      say "ended by a signal, not submitted again; what was saved is in $output"
      exit 143
      ;;
    waited)
      say "not begun: what it waited for (job $ASR_AFTER) did not finish; see its log in $ASR_LOGS"
      exit 2
      ;;
    *)
      say "failed with status $status, not submitted again; the reason stands above, and what was" \
        "saved is in $output"
      exit "$status"
      ;;
  esac
}
