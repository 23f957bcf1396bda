#!/bin/bash
# Submit conversion, training and evaluation with report. Each waits until the one before is done:
#
#   lsf/pipeline.sh
#   ASR_TRAIN_BSUB='-n 8 -gpu num=2:mode=exclusive_process' lsf/pipeline.sh      train on two GPUs
#
# Settings: lsf/site.env. Conversion is left out if the dataset is complete.

# shellcheck source=lsf/site.env disable=SC2086 # options are words
cd "$(dirname "$0")/.." && . lsf/site.env || exit 2

# submit OPTION...: submit the script on standard input; `job` is its number.
submit() {
  job=$(env -u BSUB_QUIET bsub "$@" | sed -n 's/.*Job <\([0-9][0-9]*\)>.*/\1/p')
  if [ -z "$job" ]; then
    echo "bsub refused a job; see above. Jobs that it took stay in the queue: bjobs, bkill" >&2
    exit 2
  fi
  echo "job $job submitted: bsub $*"
}

after=()
if [ ! -f "$ASR_DATA/manifest.json" ]; then
  finish=()
  if [ "$ASR_SHARDS" -gt 1 ]; then
    submit -J "convert[1-$ASR_SHARDS]" $ASR_CONVERT_BSUB <lsf/convert.sh
    finish=(-J convert-finish -w "done($job)")
  fi
  submit "${finish[@]}" $ASR_CONVERT_BSUB <lsf/convert.sh
  after=(-w "done($job)")
fi
submit "${after[@]}" $ASR_TRAIN_BSUB <lsf/train.sh
submit -w "done($job)" $ASR_EVAL_BSUB <lsf/eval.sh
echo "logs: $ASR_LOGS; the report will be $ASR_RUN/eval/best/test/report.html"
