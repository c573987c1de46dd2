#!/bin/sh
# A Slurm of one node on this machine, for the tests of sweeps: slurm.sh start | stop FOLDER
# Needs root and Debian's packages slurm-wlm and munge.
set -eu
folder=$2
if [ "$1" = stop ]; then
  # Jobs that have left their result still end, which takes a moment; nobody ends them later.
  for _ in $(seq 60); do
    if [ -z "$(squeue --noheader)" ]; then break; fi
    sleep 0.5
  done
  for name in slurmd slurmctld munged; do
    if [ -f "$folder/$name.pid" ]; then kill "$(cat "$folder/$name.pid")" 2>/dev/null || true; fi
  done
  exit 0
fi
mkdir -p "$folder/spool" "$folder/state" "$folder/munge"
chmod 755 "$folder"
chmod 700 "$folder/munge"
dd if=/dev/urandom of="$folder/munge/key" bs=128 count=1 2>/dev/null
chmod 400 "$folder/munge/key"
munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
  --pid-file="$folder/munged.pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" --num-threads=2
host=$(hostname -s)
cat >"$folder/slurm.conf" <<CONF
ClusterName=tests
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$3
SlurmdPort=$4
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,sched_interval=1,sched_min_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=30
MinJobAge=300
InactiveLimit=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(getconf _NPROCESSORS_ONLN) State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
SLURM_CONF="$folder/slurm.conf"
export SLURM_CONF
slurmctld -c
slurmd -c
for _ in $(seq 60); do
  case $(sinfo --noheader --format=%T 2>/dev/null) in idle* | mixed* | alloc*) exit 0 ;; esac
  sleep 0.5
done
echo "Slurm did not start; see $folder/slurmctld.log and $folder/slurmd.log" >&2
tail -n 20 "$folder/slurmctld.log" "$folder/slurmd.log" >&2
exit 1
