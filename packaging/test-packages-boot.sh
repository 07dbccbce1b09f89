#!/bin/bash
# Boots the root named under its own systemd, in namespaces and a cgroup of their own, and runs
# /pkg/job.sh there with what it says on our output; it fails as that does. Nothing of it is left.
set -euo pipefail
root=$1
cgroups=$(findmnt -t cgroup2 -no TARGET | head -n 1)
cgroup=$cgroups/burst-packages-$$
mkdir "$cgroup"
# gone removes the cgroups; the kernel takes a moment to let go of what was in them.
gone() {
	for _ in {1..50}; do
		find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null && return
		[ -d "$cgroup" ] || return 0
		sleep 0.2
	done
	echo "boot: error: $cgroup is left" >&2
}
trap gone EXIT
rm -f "$root/pkg/rc" "$root/pkg/out"
touch "$root/pkg/out"

# What it does at its start is not to reach this machine: nothing below /proc/sys may be written.
cat >"$root/pkg/boot.sh" <<'EOF'
set -e
cd "$1"
hostname head
ip link set lo up
ip address add 192.0.2.1/32 dev lo
mount --bind . .
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
	cp -a /dev/$device dev/
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p run/systemd/system
for unit in systemd-firstboot systemd-machine-id-commit systemd-sysctl systemd-modules-load systemd-update-done systemd-remount-fs \
	systemd-binfmt systemd-hwdb-update systemd-journal-catalog-update; do
	ln -s /dev/null run/systemd/system/$unit.service
done
cat >run/systemd/system/job.service <<'UNIT'
[Unit]
Wants=basic.target
After=basic.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=append:/pkg/out
StandardError=inherit
ExecStart=/pkg/job.sh
ExecStopPost=/bin/sh -c 'echo $EXIT_STATUS >/pkg/rc; systemctl --force --no-block exit'
UNIT
printf '[Unit]\nRequires=job.service\n' >run/systemd/system/job.target
ln -s job.target run/systemd/system/default.target
exec chroot . /usr/bin/env -i container=burst PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C /lib/systemd/systemd --system --show-status=0 --log-level=warning
EOF
(
	echo "$BASHPID" >"$cgroup/cgroup.procs"
	exec timeout -k 10 900 unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child sh "$root/pkg/boot.sh" "$root"
) >"$root/pkg/console" 2>&1 </dev/null &
booted=$!
trap 'kill "$booted" 2>/dev/null || :; wait "$booted" || :; gone' EXIT
tail -n +1 -s 0.5 -f --pid="$booted" "$root/pkg/out" || :
wait "$booted" || :
[ -s "$root/pkg/rc" ] || { echo "boot: error: its systemd has not come to an end:" >&2; tail -n 20 "$root/pkg/console" >&2; exit 1; }
[ "$(cat "$root/pkg/rc")" = 0 ]
