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

for ASR_HOME in "${ASR_HOME:-}" "$(dirname "$0")/.." "${LS_SUBCWD:-$PWD}" "${LS_SUBCWD:-$PWD}/.."; do
  if [ -f "$ASR_HOME/lsf/job.sh" ]; then break; fi
done
if [ ! -f "$ASR_HOME/lsf/job.sh" ]; then echo "submit this from the checkout, or set ASR_HOME to it" >&2; exit 2; fi
# shellcheck source=lsf/job.sh
. "$ASR_HOME/lsf/job.sh"

begin_on_gpus eval eval.sh "$ASR_EVAL_WALL" "$@"
say "evaluating $ASR_RUN"
started=$(mktemp)
trap 'rm -f "$started"' EXIT
# An evaluation keeps nothing before its end, and the same time would be too short again.
on_warning=TERM
work python -m danish_asr.cluster --processes "$ASR_GPUS" --trace "$ASR_RUN/trace" \
  workflows.recipes.wav2vec2.asr.eval.recipe "$ASR_RUN" "${recipe_arguments[@]}" "$@"
case $outcome in
  finished) ;;
  stopped)
    leave_note unfinished || true
    say "out of time and not submitted again; give it more: ASR_EVAL_WALL=4:00, not $ASR_EVAL_WALL"
    exit 75
    ;;
  *) give_up ;;
esac

mapfile -t found < <(find "$ASR_RUN/eval" -name predictions.jsonl -newer "$started")
if [ ${#found[@]} -eq 0 ]; then
  leave_note unfinished || true
  die "the evaluation wrote no predictions.jsonl below $ASR_RUN/eval"
fi
for predictions in "${found[@]}"; do
  work danish-asr score "$predictions" --run "$ASR_RUN" --dataset "$ASR_DATA"
  if [ "$outcome" != finished ]; then give_up; fi
  finish "the report is ${predictions%/*}/report.html"
done
