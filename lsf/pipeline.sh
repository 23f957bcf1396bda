#!/bin/bash
# Submit conversion, training and evaluation, each behind the one before; a report is the end:
#
#   lsf/pipeline.sh [ARGUMENTS]         ARGUMENTS go to both recipes
#   lsf/pipeline.sh --dry-run           print what would be submitted
#
# Settings: lsf/site.env. Conversion is left out if the dataset is complete.
for ASR_HOME in "${ASR_HOME:-}" "$(dirname "$0")/.." "${LS_SUBCWD:-$PWD}" "${LS_SUBCWD:-$PWD}/.."; do
  if [ -f "$ASR_HOME/lsf/job.sh" ]; then break; fi
done
if [ ! -f "$ASR_HOME/lsf/job.sh" ]; then echo "submit this from the checkout, or set ASR_HOME to it" >&2; exit 2; fi
# shellcheck source=lsf/job.sh
. "$ASR_HOME/lsf/job.sh"

in_job && die "lsf/pipeline.sh submits jobs and is none; run it where you log in"

waits=()
if [ -f "$ASR_DATA/manifest.json" ]; then
  say "$ASR_DATA is complete; nothing to convert"
else
  # shellcheck disable=SC2119 # the arguments are the recipes', not the conversion's
  submit_conversion
  waits=("$submitted")
fi

gpu_options "$ASR_WALL"
after "${waits[@]}"
submit train train.sh "$@"

gpu_options "$ASR_EVAL_WALL"
after "$submitted"
submit eval eval.sh "$@"
