#!/bin/bash
# Train the runs of a sweep below ASR_RUN, one in each element of an array, on a GPU each:
#
#   export ASR_SWEEP='--over optimizer.config.lr=1e-5,2e-5,5e-5'
#   bsub -J 'sweep[1-3]' < lsf/sweep.sh          as many elements as runs
#
# ASR_SWEEP has arguments of `danish-asr sweep`, also KEY=VALUE; ASR_ARGS is not used. Settings:
# lsf/site.env. Submit it again to continue; `danish-asr runs` lists the runs.
#BSUB -J sweep[1]
#BSUB -o sweep-%J-%I.out
#BSUB -q gpua100
#BSUB -n 4
#BSUB -R "span[hosts=1]"
#BSUB -R "rusage[mem=8GB]"
#BSUB -gpu "num=1:mode=exclusive_process"
#BSUB -W 24:00
#BSUB -wa USR2
#BSUB -wt 10
#BSUB -Q 75

cd "${ASR_HOME:-${LS_SUBCWD:-.}}" || exit 2
# shellcheck source=lsf/job.sh
. lsf/job.sh || { echo "submit this in the checkout, or set ASR_HOME to it" >&2; exit 2; }

begin sweep "$ASR_RUN"
split "$ASR_SWEEP"
# Ignored until the sweep has a handler, which passes the warning on to its run.
trap '' USR2
danish-asr sweep "$ASR_RUN" --config "$ASR_CONFIG" "${settings[@]}" "${arguments[@]}" \
  --only "${LSB_JOBINDEX:-1}"
end $?
