#!/bin/sh
# Installs what the demo and the tests need and this machine lacks: Slurm,
# MUNGE, an MPI with headers, gcc, make, ip, and what checks units and manual
# pages. With --moto also what only the tests need: curl, Lua, Fortran, sshd, sudo, SQLite, patch, shells, Python, and the
# emulator of AWS in a virtual environment of the build folder. Instant and silent if all is there.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

moto=
case "$*" in
"") ;;
--moto) moto="moto[server]==5.2.4" ;;
*)
	echo "deps: error: unknown arguments: $*" >&2
	echo "deps: hint: packaging/deps.sh [--moto]" >&2
	exit 2
	;;
esac

# command:Debian package
needs="slurmctld:slurmctld slurmd:slurmd scontrol:slurm-client munged:munge
mpirun:openmpi-bin mpicc:libopenmpi-dev gcc:gcc make:make ip:iproute2
systemd-analyze:systemd mandoc:mandoc"
# Debian's choice of mpicc and mpirun stays Open MPI's.
[ -z "$moto" ] || needs="$needs curl:curl python3:python3 gfortran:gfortran pkg-config:pkg-config mpicc.mpich:libmpich-dev mpiexec.hydra:mpich sshd:openssh-server sudo:sudo sqlite3:sqlite3 patch:patch zsh:zsh fish:fish"
# ufw is what images of clouds have switched on.
[ -z "$moto" ] || ! command -v apt-get >/dev/null 2>&1 || needs="$needs ufw:ufw"
# Debian 12's Slurm is built with Lua 5.1, others' with 5.4. A system of another kind has its own name for it.
[ -z "$moto" ] || { command -v lua >/dev/null 2>&1 && ! command -v apt-get >/dev/null 2>&1; } || needs="$needs lua5.1:lua5.1 lua5.4:lua5.4"

missing=
for need in $needs; do
	command -v "${need%%:*}" >/dev/null 2>&1 || missing="$missing ${need#*:}"
done
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"

# The system's own Python: another may lack what python3-venv brings.
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || ! python3=$(command -v python3) || python=$python3
venv=$(cd "$(dirname "$0")/.." && pwd)/build/moto

look="import importlib.util, sys; sys.exit(not importlib.util.find_spec('moto'))"

# has_moto says whether it is there, whole, and works: the stamp is written
# last, and names the folder, as a virtual environment cannot be moved.
has_moto() {
	[ "$(cat "$venv/burst-stamp" 2>/dev/null)" = "$moto in $venv" ] && "$venv/bin/python" -c "$look" 2>/dev/null
}

if [ -n "$moto" ]; then
	if has_moto; then
		moto=
	elif ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
		missing="$missing python3 python3-venv"
		python=/usr/bin/python3
	fi
fi

install_packages() {
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "deps: error: missing here, by their Debian names:$missing" >&2
		echo "deps: hint: install Slurm (slurmctld, slurmd, scontrol), MUNGE, Open MPI with headers, gcc, make, iproute2 and, for tests, Python with its venv module with this system's package manager" >&2
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

	# The tests start an sshd of their own: that one shall not open this machine to the network.
	quiet=
	case "$missing " in *" openssh-server "*) ! command -v systemctl >/dev/null 2>&1 || quiet="ssh.service ssh.socket" ;; esac
	# shellcheck disable=SC2086 # one word each
	[ -z "$quiet" ] || $sudo systemctl --quiet mask $quiet

	echo "deps: installing$missing"
	apt="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0"
	# shellcheck disable=SC2086 # one word each
	if ! said=$({ $apt update && $apt install -y --no-install-recommends $missing; } 2>&1); then
		echo "$said" >&2
		echo "deps: error: apt-get failed, see above" >&2
		exit 1
	fi
}

# What was masked is the admin's to start again, and is off until then.
unmask() {
	# shellcheck disable=SC2086 # one word each
	[ -z "${quiet:-}" ] || { $sudo systemctl --quiet unmask $quiet && $sudo systemctl --quiet disable $quiet; } || true
}

install_moto() {
	echo "deps: installing $moto into build/moto"
	if ! said=$({ rm -rf "$venv" && "$python" -m venv "$venv" &&
		"$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check "$moto"; } 2>&1); then
		echo "$said" >&2
		echo "deps: error: installing $moto into build/moto failed, see above" >&2
		echo "deps: hint: pip needs PyPI or a mirror of it (PIP_INDEX_URL), or a proxy (HTTPS_PROXY); the tests of cloud/aws need moto, the programs do not" >&2
		exit 1
	fi
	echo "$moto in $venv" >"$venv/burst-stamp"
}

trap unmask EXIT
[ -z "$missing" ] || install_packages
[ -z "$moto" ] || install_moto
