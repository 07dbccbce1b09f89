# shellcheck shell=bash
# Roots of Debian for test-packages.sh and test-slurm.sh, which source it: $roots is where, and
# say, fail and cannot are theirs, too.

# tools installs what of command:package is missing on this machine.
tools() {
	local tool
	for tool in "$@"; do
		command -v "${tool%:*}" >/dev/null || { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${tool#*:}" debian-archive-keyring >/dev/null; } ||
			cannot "${tool%:*} is missing, and apt-get does not install it"
	done
}

# mirror is Debian's as this machine's own apt has it. MIRROR=URL is another.
mirror() {
	echo "${MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }')}"
}

# base makes the root of release $1 with Slurm and systemd, once.
base() {
	local stamp=$roots/$1/burst-stamp-3
	[ -e "$stamp" ] && return
	rm -rf --one-file-system "${roots:?}/$1"
	mkdir -p "$roots"
	say "$1: making a root with Slurm: some minutes"
	# shellcheck disable=SC2046 # no word, or one
	debootstrap --variant=minbase --include=munge,slurmctld,slurmd,slurm-client,systemd,iproute2,patch "$1" "$roots/$1" $(mirror) >"$roots/$1.log" 2>&1 ||
		{ tail -n 20 "$roots/$1.log" >&2; cannot "debootstrap of $1 has failed: it needs a mirror of Debian (MIRROR=URL)"; }
	rm -rf "$roots/$1"/var/cache/apt/archives/*.deb
	printf 'b%.0s' {1..32} >"$roots/$1/etc/machine-id"
	chroot "$roots/$1" systemd-tmpfiles --create --boot >/dev/null 2>&1 || : # not all of it can be, in a chroot
	touch "$stamp"
}
