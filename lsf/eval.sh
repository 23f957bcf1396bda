#!/bin/bash
# Score the best checkpoint of ASR_RUN on the test split and write the report:
#
#   bsub < lsf/eval.sh          one A100
#   lsf/eval.sh [ARGUMENTS]     with arguments for the recipe, such as --config evaluator.checkpoint=last
#   lsf/eval.sh --dry-run       print what would be submitted
#
# Settings: lsf/site.env. The lines below are its defaults, for `bsub <`; lsf/eval.sh overrides them.
#BSUB -J eval
#BSUB -o eval-%J.log
#BSUB -q gpua100
#BSUB -n 4
#BSUB -R "span[hosts=1]"
#BSUB -R "rusage[mem=8GB]"
#BSUB -gpu "num=1:mode=exclusive_process"
#BSUB -W 2:00
#BSUB -wa USR2
#BSUB -wt 10

for ASR_HOME in "${ASR_HOME:-}" "$(dirname "$0")/.." "${LS_SUBCWD:-$PWD}"; do
  if [ -f "$ASR_HOME/lsf/job.sh" ]; then break; fi
done
# shellcheck source=lsf/job.sh
. "$ASR_HOME/lsf/job.sh" || { echo "submit this from the checkout, or set ASR_HOME to it" >&2; exit 2; }

gpu_options "$ASR_EVAL_WALL"
if ! in_job; then
  submit eval eval.sh "$@"
  exit
fi
if ! holds_what_is_asked; then
  submit eval eval.sh "$@"
  handed_on_to "$submitted"
  exit
fi
wait_for_successors eval eval.sh "$@"

enter
recipe_config
say "evaluating $ASR_RUN"
started=$(mktemp)
work python -m danish_asr.launch --processes "$ASR_GPUS" --trace "$ASR_RUN/trace" \
  workflows.recipes.wav2vec2.asr.eval.recipe "$ASR_RUN" "${recipe_arguments[@]}" "$@"
if [ "$outcome" != finished ]; then give_up; fi
find "$ASR_RUN/eval" -name predictions.jsonl -newer "$started" | while read -r predictions; do
  danish-asr score "$predictions" --run "$ASR_RUN" --dataset "$ASR_DATA"
  say "done: the report is ${predictions%/*}/report.html"
done
rm "$started"
