#!/bin/bash
# Convert ASR_SOURCE to the dataset ASR_DATA on a CPU queue:
#
#   bsub < lsf/convert.sh               one job
#   ASR_SHARDS=16 lsf/convert.sh        an array of 16, then a job that completes the dataset
#   lsf/convert.sh [ARGUMENTS]          with arguments for `danish-asr convert`
#   lsf/convert.sh --dry-run            print what would be submitted
#
# Settings: lsf/site.env. The lines below are its defaults, for `bsub <`; lsf/convert.sh overrides them.
#BSUB -J convert
#BSUB -o convert-%J.log
#BSUB -q hpc
#BSUB -n 8
#BSUB -R "span[hosts=1]"
#BSUB -R "rusage[mem=8GB]"
#BSUB -W 12:00
#BSUB -wa USR2
#BSUB -wt 10

for ASR_HOME in "${ASR_HOME:-}" "$(dirname "$0")/.." "${LS_SUBCWD:-$PWD}" "${LS_SUBCWD:-$PWD}/.."; do
  if [ -f "$ASR_HOME/lsf/job.sh" ]; then break; fi
done
if [ ! -f "$ASR_HOME/lsf/job.sh" ]; then echo "submit this from the checkout, or set ASR_HOME to it" >&2; exit 2; fi
# shellcheck source=lsf/job.sh
. "$ASR_HOME/lsf/job.sh"

# A job that `bsub <` started alone for an array's work submits the array.
if ! in_job || { [ "$ASR_SHARDS" -gt 1 ] && [ -z "${ASR_PART:-}" ] && [ "${LSB_JOBINDEX:-0}" = 0 ]; }; then
  submit_conversion "$@"
  if in_job; then leave_note "$submitted"; fi
  exit
fi

cpu_options "$ASR_CPU_CORES" "$ASR_CPU_WALL"
# ASR_PART: `finish`, or the shard that another job had begun; else the array's index says it.
part=${ASR_PART:-${LSB_JOBINDEX:-0}}
arguments=("$ASR_SOURCE" --name "$ASR_DATASET" --out "$ASR_DATA")
name=convert
case $part in
  finish)
    name=convert-finish
    cpu_options 1 "$ASR_CPU_WALL"
    wait_for_heirs "$name" convert.sh "$@"
    arguments+=(--finish)
    ;;
  0) ;;
  *)
    name=convert-$part
    arguments+=(--shard "$part/$ASR_SHARDS")
    ;;
esac

output=$ASR_DATA
enter
say "converting $ASR_SOURCE to $ASR_DATA, part $part of $ASR_SHARDS"
# Conversion has nothing to save: it is killed, and what it finished is not done again.
on_warning=TERM
work danish-asr convert "${arguments[@]}" "$@"

case $outcome in
  finished) finish "part $part of $ASR_DATA" ;;
  stopped)
    export ASR_PART=$part
    submit_again "$name" convert.sh "$@"
    ;;
  *) give_up ;;
esac
