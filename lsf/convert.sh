#!/bin/bash
# Convert ASR_SOURCE to the dataset ASR_DATA on CPUs:
#
#   bsub < lsf/convert.sh                          one job
#   bsub -J 'convert[1-12]' < lsf/convert.sh       an array: each job converts its part; after it,
#   bsub -w 'done(ID)' < lsf/convert.sh            one job completes the dataset
#   bsub -J 'convert[1-48]%12' < lsf/convert.sh    48 parts, 12 at a time
#
# lsf/pipeline.sh submits both. Settings: lsf/site.env. Options of bsub win over these lines:
#BSUB -J convert
#BSUB -o convert-%J.out
#BSUB -q hpc
#BSUB -n 8
#BSUB -R "span[hosts=1]"
#BSUB -R "rusage[mem=8GB]"
#BSUB -W 12:00
#BSUB -wa USR2
#BSUB -wt 10
#BSUB -Q 75

cd "${ASR_HOME:-${LS_SUBCWD:-.}}" || exit 2
# shellcheck source=lsf/job.sh
. lsf/job.sh || { echo "submit this in the checkout, or set ASR_HOME to it" >&2; exit 2; }

begin convert "$ASR_LOGS"
split "$ASR_CONVERT_ARGS"
if [ "${LSB_JOBINDEX:-0}" != 0 ]; then arguments+=(--part "$LSB_JOBINDEX/$LSB_JOBINDEX_END"); fi
# USR2, from `timeout` or LSF, ends the conversion; finished shards are not converted again.
trap 'kill -USR2 $!' USR2
trap 'kill $!; exit 143' INT TERM
timeout -s USR2 "${budget:-0}m" \
  danish-asr convert "$ASR_SOURCE" --name "$ASR_DATASET" --out "$ASR_DATA" "${arguments[@]}" &
wait $!
status=$?
case $status in 124 | 140) wait; status=75 ;; esac # 140: ended by USR2
end $status
