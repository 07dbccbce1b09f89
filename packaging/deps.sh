#!/bin/sh
# Installs what the demo and the tests need and this machine lacks: Slurm,
# MUNGE, an MPI with headers, gcc, make, ip, and what checks units and manual
# pages. Instant and silent if all is there.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# command:Debian package
needs="slurmctld:slurmctld slurmd:slurmd scontrol:slurm-client munged:munge
mpirun:openmpi-bin mpicc:libopenmpi-dev gcc:gcc make:make ip:iproute2
systemd-analyze:systemd mandoc:mandoc"

missing=
for need in $needs; do
	command -v "${need%%:*}" >/dev/null 2>&1 || missing="$missing ${need#*:}"
done
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "deps: error: missing here, by their Debian names:$missing" >&2
	echo "deps: hint: install Slurm (slurmctld, slurmd, scontrol), MUNGE, Open MPI with headers, gcc, make and iproute2 with this system's package manager" >&2
	exit 1
fi

# Nobody may be there to type a password.
sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	[ -t 0 ] || sudo="sudo -n"
	if ! command -v sudo >/dev/null 2>&1 || { [ "$sudo" = "sudo -n" ] && ! sudo -n true 2>/dev/null; }; then
		echo "deps: error: missing:$missing, and installing them needs root" >&2
		echo "deps: hint: run once as root: apt-get install$missing" >&2
		exit 1
	fi
fi

echo "deps: installing$missing"
apt="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0"
# shellcheck disable=SC2086 # one word each
if ! said=$({ $apt update && $apt install -y --no-install-recommends $missing; } 2>&1); then
	echo "$said" >&2
	echo "deps: error: apt-get failed, see above" >&2
	exit 1
fi
