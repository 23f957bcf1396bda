#!/bin/bash
# Score the best checkpoint of ASR_RUN on the test split, or continue that, and write the report:
#
#   bsub < lsf/eval.sh
#   ASR_ARGS='--config evaluator.checkpoint=last' bsub < lsf/eval.sh         arguments for the recipe
#
#BSUB -J eval
#BSUB -o eval-%J.out
#BSUB -q gpua100
#BSUB -n 4
#BSUB -R "span[hosts=1]"
#BSUB -R "rusage[mem=8GB]"
#BSUB -gpu "num=1:mode=exclusive_process"
#BSUB -W 2:00
#BSUB -wa USR2
#BSUB -wt 10
#BSUB -Q 75

cd "${ASR_HOME:-${LS_SUBCWD:-.}}" || exit 2
# shellcheck source=lsf/job.sh
. lsf/job.sh || { echo "submit this in the checkout, or set ASR_HOME to it" >&2; exit 2; }

begin eval "$ASR_RUN"
recipe danish_asr.recipe.evaluate || end $?
find "$ASR_RUN/eval" -name predictions.jsonl -newer "$tries" -print0 |
  xargs -0 -I '{}' danish-asr score '{}' --run "$ASR_RUN" --dataset "$ASR_DATA"
end $?
