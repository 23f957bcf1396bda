#!/bin/bash
# Train, or continue training, until it is complete. Submit it in the checkout:
#
#   bsub < lsf/train.sh                                                      one A100
#   bsub -n 8 -gpu num=2:mode=exclusive_process < lsf/train.sh               two A100
#   bsub -W 12:00 -R "select[gpu80gb]" < lsf/train.sh                        other requests
#   ASR_ARGS='--config optimizer.config.lr=2e-5' bsub < lsf/train.sh         arguments for the recipe
#
# Settings: lsf/site.env. Options of bsub win over these lines:
#BSUB -J train
#BSUB -o train-%J.out
#BSUB -q gpua100
#BSUB -n 4
#BSUB -R "span[hosts=1]"
#BSUB -R "rusage[mem=8GB]"
#BSUB -gpu "num=1:mode=exclusive_process"
#BSUB -W 24:00
#BSUB -wa USR2
#BSUB -wt 10
#BSUB -Q 75
#BSUB -r

cd "${ASR_HOME:-${LS_SUBCWD:-.}}" || exit 2
# shellcheck source=lsf/job.sh
. lsf/job.sh || { echo "submit this in the checkout, or set ASR_HOME to it" >&2; exit 2; }

begin train "$ASR_RUN"
recipe danish_asr.recipe
end $?
