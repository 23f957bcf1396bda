#!/bin/bash
# Try the scripts on a Slurm of this machine's own: lsf/try_slurm.sh [FOLDER]
#
# It needs root, as in a container, and `apt install slurm-wlm munge`, and takes some minutes on CPUs.
# The daemons' files and the work lie in FOLDER, by default a new one. It submits the demo's jobs, whose
# first one starts twice, then a training that reaches its time limit, and prints how each has ended.

cd "$(dirname "$0")/.." || exit 2
for program in munged slurmctld slurmd; do
  command -v $program >/dev/null || { echo "no $program: apt install slurm-wlm munge" >&2; exit 2; }
done
root=${1:-$(mktemp -d)}
mkdir -p "$root/state" "$root/spool" || exit 2
host=$(hostname -s)
export SLURM_CONF=$root/slurm.conf
cat >"$SLURM_CONF" <<END
ClusterName=try
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$root/munge.sock,cred_expire=5
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool
SlurmctldPidFile=$root/slurmctld.pid
SlurmdPidFile=$root/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=5,bf_interval=5
JobAcctGatherType=jobacct_gather/none
MinJobAge=7200
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=debug Nodes=$host Default=YES MaxTime=60 State=UP
END
head -c 128 /dev/urandom >"$root/munge.key"
chmod 600 "$root/munge.key"
munged --foreground --force --socket="$root/munge.sock" --key-file="$root/munge.key" \
  --log-file="$root/munge.log" --pid-file="$root/munge.pid" --seed-file="$root/munge.seed" 2>"$root/munged.log" &
daemons=$!
trap 'scancel --user=root; sleep 2; kill $daemons' EXIT
until [ -S "$root/munge.sock" ]; do sleep 0.2; done
for daemon in slurmctld slurmd; do
  $daemon -D >"$root/$daemon.log" 2>&1 &
  daemons+=" $!"
done
until sinfo --noheader --format=%t 2>/dev/null | grep -q idle; do sleep 0.5; done

field() { scontrol -o show job "$1" | sed -n "s/.* $2=\([^ ]*\).*/\1/p"; }

# wait_for REGEX JOB: wait until the job's state and restarts match, at most 20 minutes.
wait_for() {
  local state
  for _ in {1..600}; do
    state="$(field "$2" JobState), restarts: $(field "$2" Restarts)"
    [[ ! $state =~ $1 ]] || break
    sleep 2
  done
  echo "job $2: $state"
}

export ASR_SCHEDULER=slurm ASR_SCRATCH=$root/scratch ASR_GPUS=0 ASR_CPUS=1 ASR_CONVERT_CPUS=1
export ASR_MEMORY='' ASR_CONVERT_MEMORY='' FAIRSEQ2_DEVICE=cpu
export ASR_ARGS='regime.num_steps=50 regime.validate_every_n_steps=50 regime.checkpoint_every_n_steps=50'
echo "expected: COMPLETED, with 1, 0 and 0 restarts"
for job in $(lsf/submit.sh demo | sed -n 's/^job \([0-9]*\):.*/\1/p'); do
  wait_for "COMPLETED|FAILED|CANCELLED" "$job"
done
echo "expected: restarts: 1, as the time limit comes first"
export ASR_DATASET=danish_asr_demo ASR_DATA=$ASR_SCRATCH/demo/dataset ASR_RUN=$ASR_SCRATCH/long
export ASR_CONFIG=$PWD/configs/demo.yaml ASR_TIME=0:02 ASR_SAVE_MINUTES=0
export ASR_ARGS='regime.num_steps=100000'
job=$(lsf/submit.sh train | sed -n 's/^job \([0-9]*\):.*/\1/p')
wait_for "restarts: 1|COMPLETED|FAILED" "$job"
grep -h "danish-asr: \|received" "$ASR_SCRATCH"/logs/*.log
