#!/bin/bash
# Train, or continue training, until it is done:
#
#   bsub < lsf/train.sh                  one A100; ASR_GPUS=2 before it: two
#   ASR_GPUS=2 lsf/train.sh [ARGUMENTS]  the same with arguments for the recipe, such as
#                                        --config optimizer.config.lr=2e-5
#   lsf/train.sh --dry-run               print what would be submitted
#
# Settings: lsf/site.env. The lines below are its defaults, for `bsub <`; lsf/train.sh overrides them.
#BSUB -J train
#BSUB -o train-%J.log
#BSUB -q gpua100
#BSUB -n 4
#BSUB -R "span[hosts=1]"
#BSUB -R "rusage[mem=8GB]"
#BSUB -gpu "num=1:mode=exclusive_process"
#BSUB -W 24:00
#BSUB -wa USR2
#BSUB -wt 10

for ASR_HOME in "${ASR_HOME:-}" "$(dirname "$0")/.." "${LS_SUBCWD:-$PWD}" "${LS_SUBCWD:-$PWD}/.."; do
  if [ -f "$ASR_HOME/lsf/job.sh" ]; then break; fi
done
if [ ! -f "$ASR_HOME/lsf/job.sh" ]; then echo "submit this from the checkout, or set ASR_HOME to it" >&2; exit 2; fi
# shellcheck source=lsf/job.sh
. "$ASR_HOME/lsf/job.sh"

begin_on_gpus train train.sh "$ASR_WALL" "$@"
say "training in $ASR_RUN, try ${ASR_TRY:-1} of $ASR_TRIES"
# The budget stands in for a warning that does not come.
budget=$(($(minutes "$ASR_WALL") - ASR_WARN / 2))
work python -m danish_asr.cluster --processes "$ASR_GPUS" --trace "$ASR_RUN/trace" \
  workflows.recipes.wav2vec2.asr "$ASR_RUN" \
  "${recipe_arguments[@]}" "trainer.max_wall_minutes=$budget" "$@"

case $outcome in
  finished) finish "the model is in $ASR_RUN/checkpoints; next: lsf/eval.sh" ;;
  stopped) submit_again train train.sh "$@" ;;
  *) give_up ;;
esac
