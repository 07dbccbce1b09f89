#!/bin/bash
# Runs in a root that its own systemd has booted, with the older packages installed: the hour of
# an admin, jobs that run, boot and wait while the packages are upgraded, what a removal refuses,
# and the removal. Everything that it starts ends with its namespaces.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive HOME=/root

fail() {
	echo "job: error: $*" >&2
	journalctl --no-pager -u burstd -n 25 >&2 || :
	tail -n 15 /var/log/slurm/*.log >&2 || :
	scontrol show job >&2 || :
	exit 1
}
trap 'fail "line $LINENO"' ERR

# wait_for SECONDS COMMAND polls.
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "in vain: $*"
		sleep 0.3
	done
}
schema() { od -An -tu4 --endian=big -j60 -N4 /var/lib/burst/burst.db | tr -d ' '; } # where no burstd runs: what its log held is in it
state() { systemctl show -P "$1" burstd; }
packages() { dpkg "$@" </dev/null >/tmp/dpkg.log 2>&1; } # as where nobody is there to answer

printf "127.0.0.1 localhost\n192.0.2.1 head\n" >/etc/hosts # Slurm resolves nothing where all addresses are 127.0.0.1
[ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2>/dev/null; chown munge: /etc/munge/munge.key; chmod 0400 /etc/munge/munge.key; }
mkdir -p /etc/slurm /var/lib/slurm/ctld /var/spool/slurmd /var/log/slurm
chown -R slurm: /var/lib/slurm /var/log/slurm
cat >/etc/slurm/slurm.conf <<EOF
ClusterName=site
SlurmctldHost=head
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/ctld
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdSpoolDir=/var/spool/slurmd/%n
SlurmdPidFile=/run/slurmd-%n.pid
SlurmdLogFile=/var/log/slurm/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName=own NodeHostname=head NodeAddr=head Port=17000 CPUs=1 RealMemory=100
PartitionName=own Nodes=own Default=YES
Include burst.conf
EOF
if [ "$(slurmctld -V | tr -dc '0-9. ' | awk '{ print ($1 >= 24.05) }')" = 1 ]; then
	echo CgroupPlugin=disabled >/etc/slurm/cgroup.conf
else
	echo CgroupPlugin=cgroup/v1 >/etc/slurm/cgroup.conf
fi

# The hour of an admin. A node's slurmd comes up when /run/go is there.
cmp <(burst init --stdout) /etc/burst/burst.toml || fail "burst.toml is not what burst init writes"
cat >/usr/local/sbin/slow-slurmd <<'EOF'
#!/bin/sh
until [ -e /run/go ]; do sleep 0.2; done
exec /usr/sbin/slurmd "$@"
EOF
chmod +x /usr/local/sbin/slow-slurmd
sed -i -e '$a# the site was here' -e '0,/^#slurmd = /s|^#slurmd = .*|slurmd = "/usr/local/sbin/slow-slurmd"|' -e 's|^#listen = .*|listen = "127.0.0.1:9811"|' /etc/burst/burst.toml
echo BURST_URLS=http://127.0.0.1:9811 >/etc/burst/agent.env
touch /etc/slurm/burst.conf /run/go
burst genconf -o /etc/slurm/burst.conf
systemctl restart munge slurmctld
wait_for 30 scontrol ping

systemctl --quiet enable --now burstd
[ "$(state User) $(stat -c %U /run/burst/burstd.sock) $(stat -c %U /var/lib/burst/burst.db)" = "slurm slurm slurm" ] || fail "burstd does not run as slurm: $(stat -c %U /run/burst/burstd.sock /var/lib/burst/burst.db)"
burst status >/dev/null
echo "burstd $(burstd --version | cut -d' ' -f2) runs as $(state User), $(systemd-analyze security --no-pager burstd 2>/dev/null | tail -n 1)"
systemctl stop burstd

# The local provider's nodes run jobs: root's.
mkdir -p /etc/systemd/system/burstd.service.d
cp /usr/share/doc/burst/burstd-local.conf /etc/systemd/system/burstd.service.d/local.conf
printf '[Service]\nTimeoutStopSec=3s\n' >/etc/systemd/system/burstd.service.d/soon.conf
chown -R root: /var/lib/burst
systemctl daemon-reload
systemctl start burstd

mkdir -p /srv/jobs && cd /srv/jobs
cat >count.sh <<'EOF'
n=$(cat state 2>/dev/null || echo 0)
echo "from $n"
until [ -e end ]; do n=$((n + 1)); echo $n >state.new; mv state.new state; sleep 0.5; done
echo through
EOF
cat >count.sbatch <<'EOF'
#!/bin/bash
#SBATCH -p try -N 2 -t 30 --requeue --open-mode=append -o one.out
#BURST ckpt=command strategy=preemptive dir=/srv/jobs/ckpt
#BURST checkpoint='cp state "$BURST_DIR"'
#BURST restart='cp "$BURST_GENERATION/state" . && exec "$@"'
burst-srun -n 1 sh count.sh
EOF
is() { [ "$(squeue -h -j "$1" -o %T)" = "$2" ]; }
submit() { sbatch --parsable -p try -t 30 --no-requeue -o "$1.out" --wrap "until [ -e soon ]; do sleep 0.3; done; echo through"; }
one=$(sbatch --parsable count.sbatch)
wait_for 120 test -s state
is "$one" RUNNING
echo "job $one runs on $(squeue -h -j "$one" -o %N), and is counting"
rm /run/go
two=$(submit two)
booting() { is "$two" CONFIGURING && [ "$(burstd_living)" = 3 ]; }
burstd_living() { burst nodes --json | tr -d ' \n' | grep -o '"instance":"[^"]' | wc -l; }
wait_for 120 booting
echo "job $two waits for a node that boots"
systemctl kill --kill-whom=main -s STOP burstd # it hangs
three=$(submit three)
in_spool() { ls /var/spool/burst | grep -q . && is "$three" CONFIGURING; }
wait_for 120 in_spool
echo "job $three waits for an order in the spool: burstd hangs"

echo "the upgrade, from schema $(schema)"
packages -i /pkg/burst-node_new.deb /pkg/burst_new.deb || { cat /tmp/dpkg.log >&2; fail "the upgrade"; }
[ "$(state ActiveState)" = active ] || fail "the upgrade has not started burstd again"
[ "$(burst status --json | grep -o '"version": *"[^"]*"' | cut -d'"' -f4)" = "$(burstd --version | cut -d' ' -f2)" ] || fail "the burstd of before runs: $(burst status --json)"
is "$one" RUNNING || fail "the upgrade has ended job $one"

# With a key that the new burstd does not know the one that runs stays, and dpkg says so.
runs=$(state MainPID)
sed -i '1i no_such_key = 1' /etc/burst/burst.toml
! packages -i /pkg/burst_new.deb || fail "an upgrade whose burstd would not start is said to be done"
grep -q '^burst: burstd is NOT STARTED AGAIN' /tmp/dpkg.log && grep no_such_key /tmp/dpkg.log || { cat /tmp/dpkg.log >&2; fail "it does not say why"; }
[ "$(state ActiveState) $(state MainPID)" = "active $runs" ] || fail "the burstd that ran does not: $(state ActiveState)"
sed -i 1d /etc/burst/burst.toml
packages --configure -a && [ "$(state ActiveState)" = active ] && [ "$(state MainPID)" != "$runs" ] || { cat /tmp/dpkg.log >&2; fail "mended, it is not started again"; }
echo "a burst.toml that burstd refuses leaves the one that runs"
burst check >/tmp/check.log 2>&1 || { cat /tmp/check.log >&2; fail "burst check"; }
touch /run/go
wait_for 120 is "$two" RUNNING
wait_for 120 is "$three" RUNNING
[ "$(burstd --unended | grep -c '^instance ')" = 4 ] || fail "the journal has $(burstd --unended)"
[ "$(burst local list | grep -cw running)" = 4 ] || fail "these run: $(burst local list)"
no_restart() { scontrol -o show job "$1" | grep -q ' Restarts=0 ' || fail "job $1 was requeued"; }
done_well() { scontrol -o show job "$1" | grep -q 'JobState=COMPLETED '; }
no_restart "$one"
echo "burstd $(burstd --version | cut -d' ' -f2) watches 4 instances; jobs $two and $three run, job $one runs on"

touch soon # their nodes are those that job one goes on with
for job in "$two" "$three"; do
	wait_for 60 done_well "$job"
	no_restart "$job"
done

# The burst-srun of the job is of the version before, and speaks with the new burstd.
before=$(cat state)
burst evict "$(scontrol show hostnames "$(squeue -h -j "$one" -o %N)" | head -n 1)" --lead 30s --yes >/dev/null
again() { [ "$(grep -c '^from' one.out)" = 2 ]; }
wait_for 180 again
from=$(grep '^from' one.out | tail -n 1 | cut -d' ' -f2)
[ "$from" -ge "$before" ] || fail "job $one began at $from again, and had $before"
echo "job $one was evicted under a burst-srun of before, and goes on from $from"

# Whoever removes the packages now would have nobody watch what lives.
! packages -r burst burst-node || fail "the packages were removed although instances live"
grep -q '^burst: NOT REMOVED' /tmp/dpkg.log || { cat /tmp/dpkg.log >&2; fail "a removal that says nothing"; }
grep '^\(burst: \|instance \)' /tmp/dpkg.log
[ "$(state ActiveState)" = active ] && [ -x /usr/bin/burst ] || fail "the removal that was refused has stopped burstd"
touch end
wait_for 120 done_well "$one"
[ "$(cat ./*.out | grep -c '^through$')" = 3 ] || fail "the jobs' outputs: $(cat ./*.out)"
cp /var/lib/burst/burst.db* /pkg/ # a journal with instances, for what else is tried
burst stop-all --yes >/dev/null 2>&1 || fail "burst stop-all"
none() { [ -z "$(burst local list | grep -w running)" ] && [ -z "$(burstd --unended)" ]; }
wait_for 60 none

# A journal of a burstd to come.
systemctl stop burstd
was=$(schema)
printf '\0\0\0\143' | dd of=/var/lib/burst/burst.db bs=1 seek=60 conv=notrunc 2>/dev/null
! systemctl start burstd 2>/dev/null || fail "burstd runs with schema $(schema)"
sleep 5 # RestartSec is 2 s
[ "$(state ActiveState) $(state ExecMainStatus) $(state NRestarts)" = "failed 2 0" ] || fail "a burstd that is too old: $(state ActiveState), exit code $(state ExecMainStatus), $(state NRestarts) restarts"
[ "$(schema)" = 99 ] || fail "it has changed the journal"
journalctl --no-pager -o cat -u burstd | grep '^burstd: ' | tail -n 2
printf "\\0\\0\\0\\$(printf %o "$was")" | dd of=/var/lib/burst/burst.db bs=1 seek=60 conv=notrunc 2>/dev/null
systemctl reset-failed burstd
systemctl start burstd
echo "it was not tried again; with schema $was burstd runs"

packages -r burst burst-node || { cat /tmp/dpkg.log >&2; fail "the removal"; }
[ "$(systemctl is-active burstd || :)" = inactive ] || fail "burstd runs on: $(systemctl is-active burstd)"
[ ! -L /etc/systemd/system/multi-user.target.wants/burstd.service ] || fail "burstd is enabled still"
rm -rf /etc/hosts /srv/jobs /usr/local/sbin/slow-slurmd /etc/systemd/system/burstd.service.d
systemctl stop slurmctld munge
echo "removed when nothing lived"
