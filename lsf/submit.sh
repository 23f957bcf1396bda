#!/bin/bash
# Submit jobs to LSF or Slurm: lsf/submit.sh [--dry-run] WHAT [OPTION...]
#
#   --dry-run        print what would be submitted, and submit nothing; here or among the OPTIONs
#
#   demo             a first job of minutes: the pipeline with synthetic speech; its first job starts twice
#   pipeline         convert, train and evaluate; each job waits for the one before
#   convert          convert the corpus to a dataset
#   train            train, or continue, the run ASR_RUN
#   evaluate         score its best checkpoint and write the report
#   sweep N          the sweep ASR_SWEEP of N runs, each in an element of an array; N%2: 2 at a time
#
# OPTIONs are those of bsub or sbatch, for the training if there are several jobs. Settings: lsf/site.env

set -f # no `*` in options
cd "$(dirname "$0")/.." || exit 2
dry_run='' words=()
for word; do
  if [ "$word" = --dry-run ]; then dry_run=yes; else words+=("$word"); fi
done
set -- "${words[@]}"
what=${1:-} after='' submitted=()
shift
set -a # the settings go to the jobs
# shellcheck source=lsf/site.env
. lsf/site.env
if [ "$what" = demo ]; then
  ASR_DATASET=danish_asr_demo ASR_CONFIG=$ASR_HOME/configs/demo.yaml
  ASR_TIME=1:00 ASR_EVALUATE_TIME=0:30 ASR_CONVERT_TIME=0:30 ASR_CONVERT_ARGS=
  ASR_SOURCE=synthetic:$ASR_SCRATCH/demo/source ASR_DATA=$ASR_SCRATCH/demo/dataset
  ASR_RUN=$ASR_SCRATCH/demo/run
  . lsf/site.env
fi
set +a

# refuse TEXT: submit nothing more, and cancel the jobs before it, which would be of no use.
refuse() {
  if [ ${#submitted[@]} -gt 0 ]; then "$cancel" "${submitted[@]}" && echo "cancelled: ${submitted[*]}"; fi
  echo "lsf/submit.sh: $*" >&2
  exit 2
}

# submit TASK ELEMENTS OPTION...: submit lsf/job.sh, an array if there are ELEMENTS, to start when the
# job `after` has succeeded. `after` becomes the new job's number.
submit() {
  local task=$1 elements=$2 queue=$ASR_QUEUE gpus=$ASR_GPUS cpus=$ASR_CPUS
  local memory=$ASR_MEMORY time=$ASR_TIME minutes count=${elements%\%*}
  local log=$ASR_LOGS/$task-% options command number
  shift 2
  case $task in
    train) ;;
    sweep) gpus=$((gpus > 0)) ;;
    evaluate) gpus=$((gpus > 0)) time=$ASR_EVALUATE_TIME ;;
    *) # on CPUs
      queue=$ASR_CPU_QUEUE gpus=0 time=$ASR_CONVERT_TIME
      cpus=$ASR_CONVERT_CPUS memory=$ASR_CONVERT_MEMORY ;;
  esac
  [[ $time =~ ^([0-9]+):([0-9]+)$ ]] || refuse "a time is HOURS:MINUTES, found: $time"
  minutes=$((60 * 10#${BASH_REMATCH[1]} + 10#${BASH_REMATCH[2]}))
  [ $minutes -ge 2 ] || refuse "a job needs 2 minutes or more, found: $time"
  cpus=$((cpus * (gpus > 1 ? gpus : 1)))
  if [ "$ASR_SCHEDULER" = lsf ]; then
    # A warning before the end, and a new start at status 75 or after the failure of a host.
    options=(-J "$task${count:+[1-$count]}${elements#"$count"}" -o "${log}J${elements:+_%I}.log" -Q 75 -r
      -W "$minutes" -wa USR2 -wt $((minutes > 40 ? 10 : (minutes + 3) / 4)) -n "$cpus" -R "span[hosts=1]")
    if [ -n "$memory" ]; then options+=(-R "rusage[mem=${memory}GB]"); fi
    if [ -n "$queue" ]; then options+=(-q "$queue"); fi
    if [ -n "$ASR_ACCOUNT" ]; then options+=(-P "$ASR_ACCOUNT"); fi
    if [ "$gpus" -gt 0 ]; then options+=(-gpu "num=$gpus:mode=exclusive_process"); fi
    if [ -n "$after" ]; then options+=(-w "done($after)" -ti); fi
    command=bsub cancel=bkill number='s/.*Job <\([0-9][0-9]*\)>.*/\1/p'
  else
    options=(--parsable --job-name="$task" --open-mode=append --requeue --time="$minutes"
      --output="$log$([ -n "$elements" ] && echo A_%a || echo j).log"
      --signal=B:USR2@$((minutes > 40 ? 600 : 15 * minutes))
      --nodes=1 --ntasks-per-node=1 --cpus-per-task="$cpus")
    if [ -n "$elements" ]; then options+=(--array="1-$elements"); fi
    if [ -n "$memory" ]; then options+=(--mem-per-cpu="${memory}G"); fi
    if [ -n "$queue" ]; then options+=(--partition="$queue"); fi
    if [ -n "$ASR_ACCOUNT" ]; then options+=(--account="$ASR_ACCOUNT"); fi
    if [ "$gpus" -gt 0 ]; then options+=(--gpus-per-node="$gpus"); fi
    if [ -n "$after" ]; then
      options+=(--dependency="afterok:$after" --kill-on-invalid-dep=yes)
    fi
    command=sbatch cancel=scancel number='s/^\([0-9][0-9]*\).*/\1/p'
  fi
  # shellcheck disable=SC2206 # options are words
  options=($command "${options[@]}" $ASR_OPTIONS "$@" lsf/job.sh $task $count)
  if [ -n "$dry_run" ]; then
    printf '%q ' "${options[@]}"
    echo
    after=JOB_OF_$task
    return
  fi
  after=$(env -u BSUB_QUIET "${options[@]}" | sed -n "$number")
  [ -n "$after" ] || refuse "$task was refused, see above"
  submitted+=("$after")
  echo "job $after: $task${elements:+, $elements elements}"
}

[ -x "$ASR_VENV/bin/danish-asr" ] || refuse "no danish-asr in $ASR_VENV (ASR_VENV): make setup"
[ -f "$ASR_CONFIG" ] || refuse "no file $ASR_CONFIG (ASR_CONFIG)"
[[ $ASR_GPUS =~ ^[0-8]$ ]] || refuse "ASR_GPUS is 1 to 8, or 0 for CPUs, found: $ASR_GPUS"
for setting in ASR_CPUS ASR_CONVERT_CPUS ASR_TRIES ASR_SAVE_MINUTES; do
  [[ ${!setting} =~ ^(0|[1-9][0-9]*)$ ]] || refuse "$setting is a whole number, found: ${!setting}"
done
for setting in ASR_ARGS ASR_CONVERT_ARGS ASR_SWEEP; do
  xargs printf '%s\n' <<<"${!setting}" >/dev/null || refuse "$setting: close each quote on its line: ${!setting}"
done
[ -n "$dry_run" ] || mkdir -p "$ASR_LOGS" "$TMPDIR" || exit 2
case $what in
  demo | pipeline)
    if [ ! -f "$ASR_DATA/manifest.json" ]; then submit convert ""; fi
    submit train "" "$@"
    submit evaluate ""
    ;;
  convert | train | evaluate) submit "$what" "" "$@" ;;
  sweep)
    [[ ${1:-} =~ ^[0-9]+(%[0-9]+)?$ ]] || refuse "sweep needs the number of its runs, as in: sweep 4"
    submit sweep "$@"
    ;;
  *) refuse "demo, pipeline, convert, train, evaluate or sweep? found: $what" ;;
esac
if [ -n "$dry_run" ]; then echo "nothing was submitted"; else echo "logs: $ASR_LOGS"; fi
