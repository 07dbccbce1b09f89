#!/bin/bash
# Tries the packages of the folder named in roots of their own: releases of Debian by debootstrap,
# which their own systemd boots, and rpm's --root. Each is installed, bursts jobs, is upgraded from
# an earlier schema while they run, boot and wait, refuses to be removed while an instance lives, is
# removed and purged; and the tutorial is done, on bookworm. Needs root. Nothing of it touches this machine's packages or daemons: what
# starts in a root has namespaces of its own, and ends with them.
# RELEASES="bookworm trixie" are those tried; MIRROR=URL is another mirror; OLDER=COMMIT is the
# version before; AGAIN= leaves out the second build, AGAIN=warm takes Go's cache for it; RPM= leaves out rpm's. Exit code 3: it cannot be tried here.
set -euo pipefail
umask 022
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

if [ $# != 1 ] || ! [ -e "$1/SHA256SUMS" ]; then
	echo "test-packages: error: which folder of packages? packaging/test-packages.sh FOLDER" >&2
	exit 2
fi
packages=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
roots=$here/../build/roots
arch=$(dpkg --print-architecture)
releases=${RELEASES:-bookworm trixie}
commit=${OLDER:-e0e7363f4c733b1ed206b7057d12720d0619e248} # the last one of schema 12
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

say() { echo "== $*"; }
fail() {
	echo "test-packages: error: $*" >&2
	exit 1
}

# cannot is for what this host lacks, which says nothing of the packages.
cannot() {
	echo "test-packages: error: NOT TESTED here: $*" >&2
	exit 3
}
[ "$(id -u)" = 0 ] || cannot "roots of Debian need root"
cgroup=$(findmnt -t cgroup2 -no TARGET | head -n 1)/burst-packages-$$
{ mkdir "$cgroup" && rmdir "$cgroup" && unshare --mount --pid --net --uts --ipc --cgroup --fork true; } || cannot "no cgroup2, or no namespaces, which a root's systemd needs"

. "$here/roots.sh"
tools debootstrap:debootstrap rpm:rpm unshare:util-linux
(cd "$packages" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS does not hold"

# listing is every path of root $1, but for what dpkg and rpm note about themselves.
listing() {
	find "$1" -xdev \( -path "$1/var/lib/dpkg" -o -path "$1/var/lib/rpm" -o -path "$1/usr/lib/sysimage" -o -path "$1/var/log" \
		-o -path "$1/var/cache" -o -path "$1/var/lib/systemd" -o -path "$1/tmp" -o -path "$1/run" -o -path "$1/proc" -o -path "$1/dev" \) -prune -o -printf '%P %M %u:%g\n' | sort
}

# has fails unless path $2 of root $1 has mode and owner $3.
has() {
	local is
	is=$(chroot "$1" stat -c '%a %U:%G' "$2") || fail "$2 is missing"
	[ "$is" = "$3" ] || fail "$2 is $is, not $3"
}

# built makes the programs of the version before, once, and says where; nowhere if the clone has no such commit.
built() {
	local to=$roots/$commit-$arch
	if [ ! -e "$to/done" ]; then
		git -C "$here" cat-file -e "$commit^{commit}" 2>/dev/null || return 0
		rm -rf "$to"
		mkdir -p "$to/src"
		git -C "$here/.." archive "$commit" | tar -x -C "$to/src"
		(cd "$to/src" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X github.com/burst-hpc/burst/cmd/internal/cli.Version=0.0.0~a" -o "$to/bin/" ./cmd/burst*) >&2
		cp "$to/src/cmd/burst/burst.toml" "$to/src"/packaging/systemd/*.service "$to"
		rm -rf "$to/src"
		touch "$to/done"
	fi
	echo "$to"
}

# older puts the programs and units of the version before, in $from, into the tree $1 in place of today's; $from empty: it stays.
older() {
	local file
	[ -n "$from" ] || return 0
	for file in "$1"/usr/bin/* "$1"/usr/sbin/*; do
		[ ! -e "$file" ] || cp "$from/bin/${file##*/}" "$file" 2>/dev/null || rm "$file" # it had no such program yet
	done
	for file in "$1"/usr/lib/systemd/system/*; do
		cp "$from/${file##*/}" "$file" 2>/dev/null || rm "$file"
	done
	for file in "$1"/etc/burst/burst.toml "$1"/usr/share/burst/burst.toml; do
		[ ! -e "$file" ] || cp "$from/burst.toml" "$file"
	done
}

# older_debs makes packages of the version before, into $1: its programs, units and burst.toml, the scripts of today.
older_debs() {
	local deb name
	for deb in "$packages"/burst*_"$arch".deb; do
		name=$(basename "$deb")
		dpkg-deb -R "$deb" "$work/deb"
		sed -i -E 's/^Version: .*/Version: 0.0.0~a-1/; s/burst-node \(= [^)]*\)/burst-node (= 0.0.0~a-1)/' "$work/deb/DEBIAN/control"
		older "$work/deb"
		if [ -e "$work/deb/usr/share/burst/burst.toml" ]; then # it was a conffile, about which dpkg asks
			rm -rf "$work/deb/etc" # what it had not yet
			mkdir -p "$work/deb/etc/burst"
			mv "$work/deb/usr/share/burst/burst.toml" "$work/deb/etc/burst/"
			echo /etc/burst/burst.toml >"$work/deb/DEBIAN/conffiles"
		fi
		dpkg-deb -b --root-owner-group -Znone "$work/deb" "$1/${name%%_*}_old.deb" >/dev/null
		rm -rf "$work/deb"
	done
}

# older_rpms does so in rpm's world.
older_rpms() {
	local name tree=$work/tree nfpm
	nfpm=$(sed -n 's/^nfpm=//p' "$here/packages.sh")
	for name in burst burst-node; do
		mkdir "$tree"
		rpm --root "$tree" --nodeps --noscripts --ignorearch -i "$packages/$name"-[0-9]*."$(uname -m)".rpm >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "rpm: a tree of $name"; }
		find "$tree" -mindepth 1 -maxdepth 1 ! -name usr ! -name etc -exec rm -rf {} + # its own database, wherever rpm has it
		rm -rf "$tree/usr/lib/sysimage"
		older "$tree"
		if [ -e "$tree/etc" ]; then
			mv "$tree/etc/burst/burst.toml" "$work/old.toml"
			rm -r "$tree/etc"
		fi
		sed "s|@ARCH@|$arch|; s|@VERSION@|0.0.0~a|; s|@TREE@|$tree|; s|@CONF@|$work/old.toml|; s|@LIBC@||; s|@MTIME@|2026-01-01T00:00:00Z|; s|@MAINTAINER@|of before|" \
			"$here/nfpm/$name.yaml" >"$work/nfpm.yaml"
		(cd "$here/.." && go run "$nfpm" package --config "$work/nfpm.yaml" --packager rpm --target "$1/") >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "nfpm: $name of before"; }
		rm -rf "$tree"
	done
}

installed() {
	local said
	said=$(chroot "$1" sh -c 'for p in burst burstd burst-agent burst-srun; do $p --version || exit; done && burst --help >/dev/null && burst check --help >/dev/null' 2>&1) || fail "the programs: $said"
	[ "$(awk '{ print $NF }' <<<"$said" | sort -u | wc -l)" = 1 ] || fail "programs of several versions: $said"
	has "$1" /etc/burst/burst.toml "644 root:root"
	has "$1" /usr/sbin/burstd "755 root:root"
	has "$1" /usr/sbin/burst-resume "755 root:root"
	has "$1" /usr/lib/systemd/system/burstd.service "644 root:root"
	has "$1" /var/spool/burst "750 slurm:slurm"
	[ "$(chroot "$1" readlink -f /usr/lib/burst/shim/srun)" = /usr/bin/burst-srun ] || fail "the shim is no burst-srun"
}

# What Slurm, munge and systemd leave where they have run.
others='^(etc/slurm|var/lib/slurm|var/spool/slurm|etc/munge|var/lib/munge|pkg|etc/mtab|root/.ssh|var/lib/private|var/tmp)'

debian() {
	local release=$1 root=$work/$1 before name
	cp -a "$roots/$release" "$root"
	mkdir -p "$root/pkg"
	echo head >"$root/etc/hostname"
	older_debs "$root/pkg"
	for name in burst burst-node; do
		cp "$packages/$name"_*_"$arch".deb "$root/pkg/${name}_new.deb"
	done
	before=$(listing "$root")
	dpkg_in() { chroot "$root" env DEBIAN_FRONTEND=noninteractive dpkg "$@" </dev/null >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$release: dpkg $*"; }; }
	as_before() {
		diff <(grep -Ev "$others" <<<"$before") <(listing "$root" | grep -Ev "$others") >&2 || fail "$release: this differs from before"
	}
	both() { echo "/pkg/burst-node_$1.deb /pkg/burst_$1.deb"; }
	# shellcheck disable=SC2046 # two words
	chroot_installs() { dpkg_in -i $(both "$1"); installed "$root"; }

	say "$release: install, each script twice, and installations that are killed"
	chroot_installs new
	for name in burst-node burst; do
		for _ in 1 2; do
			chroot "$root" "/var/lib/dpkg/info/$name.postinst" configure 0.0.0~a-1 || fail "$release: $name.postinst again"
		done
	done
	installed "$root"
	rmdir "$root/var/spool/burst" && mkdir -m 0 "$root/var/spool/burst" # as after a kill within postinst
	for time in 0.1 0.4 0.8 1.2 1.6; do
		set -m # a process group: what dpkg has begun is killed, too
		# shellcheck disable=SC2046
		chroot "$root" dpkg -i $(both new) </dev/null >/dev/null 2>&1 &
		set +m
		sleep "$time"
		kill -KILL -- "-$!" 2>/dev/null || : # it is through
		wait "$!" 2>/dev/null || : # until then it may have dpkg's lock: timeout does not wait for what it kills
		chroot "$root" dpkg --configure -a </dev/null >/dev/null 2>&1 || : # what was killed within its unpacking is to be installed again
	done
	chroot_installs new
	dpkg_in -r burst burst-node
	for name in burst-node burst; do
		chroot "$root" "/var/lib/dpkg/info/$name.postrm" remove || fail "$release: $name.postrm again"
	done
	# shellcheck disable=SC2046
	dpkg_in --unpack $(both new)
	dpkg_in -r burst burst-node
	dpkg_in -P burst burst-node
	as_before

	say "$release: its systemd boots: jobs burst, and run, boot and wait through an upgrade"
	chroot_installs old
	cp "$here/test-packages-job.sh" "$root/pkg/job.sh"
	"$here/test-packages-boot.sh" "$root" || fail "$release: the jobs have not gone as they should"
	grep -q '^# the site was here' "$root/etc/burst/burst.toml" || fail "$release: upgrade or removal have lost what the site has written"
	[ -e "$root/var/lib/burst/burst.db" ] || fail "$release: a removal has lost the journal"
	[ ! -e "$root/usr/sbin/burstd" ] || fail "$release: a removal has left burstd"
	cp "$root"/pkg/burst.db* "$work/"

	say "$release: removed and kept; a purge that is refused keeps what was a conffile; purged and nothing left"
	cp "$root/var/lib/dpkg/info/burst.postrm" "$root/pkg/postrm"
	touch "$root/var/lib/burst/burst.db"
	dpkg_in -P burst
	grep -q 'NOT DELETED' "$work/log" || fail "$release: a purge deletes a journal that somebody has written since"
	grep -q '^# the site was here' "$root/etc/burst/burst.toml" || fail "$release: a purge that was refused has lost what the site has written"
	touch "$root/var/lib/burst/.removed"
	for _ in 1 2; do
		chroot "$root" /pkg/postrm purge || fail "$release: burst.postrm purge again"
	done
	dpkg_in -P burst burst-node
	as_before
	rm -rf --one-file-system "$root"
}

# In rpm's world: the root has a shell, for the scripts, and rpm's database is its own.
rpms() {
	local root=$work/rpm before machine
	machine=$(uname -m)
	cp -a "$roots/${releases%% *}" "$root"
	rpm_in() { rpm --root "$root" --nodeps "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "rpm $*"; }; }
	rpm_as_before() { # but for what the site has, or may have, put into $1
		diff <(echo "$before") <(listing "$root" | grep -Ev "$1") >&2 || fail "rpm: this differs from before"
	}
	rpm --root "$root" --initdb
	# What RHEL's package filesystem has, and is therefore nobody's to remove.
	mkdir -p "$root"/usr/share/{bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
	before=$(listing "$root")
	say "rpm: install, upgrade from the version before, erase"
	mkdir "$work/old"
	older_rpms "$work/old"
	rpm_in -i --ignorearch "$work"/old/burst-*."$machine".rpm
	rpm_in -V burst burst-node
	cp "$root/usr/sbin/burstd" "$work/burstd"
	echo "# the site was here" >>"$root/etc/burst/burst.toml"
	rpm_in -U --ignorearch "$packages"/burst-*."$machine".rpm
	installed "$root"
	rpm_in -V burst-node
	[ "$(rpm --root "$root" -q burst burst-node | wc -l)" = 2 ] && ! rpm --root "$root" -q burst burst-node | grep -q 0.0.0~a || fail "rpm: the version before is there still"
	[ -z "$from" ] || ! cmp -s "$root/usr/sbin/burstd" "$work/burstd" || fail "rpm: the upgrade has left the programs of before"
	# Over itself, which calls the scripts of an upgrade, too.
	rpm_in -U --force --ignorearch "$packages"/burst-*."$machine".rpm
	installed "$root"
	grep -q '^# the site was here' "$root/etc/burst/burst.toml" || fail "rpm: the upgrade has lost what the site has written"
	say "rpm: refused while instances live"
	mkdir "$root/var/lib/burst"
	cp "$work"/burst.db* "$root/var/lib/burst/"
	! rpm --root "$root" --nodeps -e burst burst-node >"$work/log" 2>&1 || fail "rpm: erased although instances live"
	grep -E '^(burst|burst-node|error): ' "$work/log"
	rpm_in -V burst burst-node --nomtime --nosize --nofiledigest
	rm -r "$root/var/lib/burst"
	rpm_in -e burst burst-node
	grep -q '^# the site was here' "$root/etc/burst/burst.toml.rpmsave" || fail "rpm: the erasure has lost what the site has written"
	rpm_as_before '^(etc/burst|etc/burst/burst.toml.rpm(save|new)|var/spool/burst) '
	rm -f "$root"/etc/burst/burst.toml.rpm{save,new}
	rmdir "$root/etc/burst"
	say "rpm: install, and erase what nobody has changed"
	rpm_in -i --ignorearch "$packages"/burst-*."$machine".rpm
	installed "$root"
	rpm_in -e burst burst-node
	rpm_as_before '^var/spool/burst '
	rm -rf --one-file-system "$root"
}

# again builds the same sources in another folder, with the same version, as a user of other habits; the programs
# of this host's architecture without what an earlier build has left in a cache.
again() {
	local copy=$work/copy version
	version=$(cd "$packages" && echo burst-*.cdx.json)
	version=${version#burst-}
	mkdir "$copy"
	umask 077
	export TZ=Pacific/Kiritimati LC_ALL=C.UTF-8
	[ "${AGAIN-cold}" = warm ] || export BURST_GOCACHE=$work/gocache
	(cd "$here/.." && git ls-files -z | tar -c --null -T -) | tar -x --no-same-permissions -C "$copy"
	BURST_COMMIT=$(cd "$here/.." && "$here/packages.sh" --commit) BURST_VERSION=${version%.cdx.json} SOURCE_DATE_EPOCH=$(stat -c %Y "$packages/SHA256SUMS") "$copy/packaging/packages.sh" "$work/again" >"$work/again.log" 2>&1 ||
		{ cat "$work/again.log" >&2; fail "the second build"; }
	diff "$packages/SHA256SUMS" "$work/again/SHA256SUMS" >&2 || fail "two builds of the same sources differ"
	say "built again in another folder: bit by bit the same: $(wc -l <"$packages/SHA256SUMS") files"
}

# While a root boots and waits this machine has time for another thing: beside NAME COMMAND... begins
# it, and joined NAME says what it has said, and fails as it does.
declare -A running
beside() {
	set -m # a process group, which ends with us
	"${@:2}" >"$work/$1.out" 2>&1 </dev/null &
	running[$1]=$!
	set +m
}
joined() {
	local code=0
	wait "${running[$1]}" || code=$?
	unset "running[$1]"
	cat "$work/$1.out"
	return $code
}
end() {
	local pid
	for pid in "${running[@]}"; do
		kill -- -"$pid" 2>/dev/null || :
		wait "$pid" || :
	done
	rm -rf --one-file-system "$work"
}
trap end EXIT

[ -z "${AGAIN-cold}" ] || beside again again
from=$(built) untested=
[ -n "$from" ] || untested="; NOT TESTED: an upgrade from an earlier schema: this clone has no commit $commit"
first=${releases%% *}
further=${releases#"$first"}
base "$first"
for release in $further; do
	beside "$release" env RELEASES="$release" AGAIN= RPM= "$here/test-packages.sh" "$packages"
done
[ "$first" != bookworm ] || beside tutorial env -u UPDATE "$here/test-tutorial.sh" "$packages"
debian "$first"
[ -z "${RPM-yes}" ] || rpms
for job in tutorial $further again; do
	[ -z "${running[$job]:-}" ] || joined "$job" || exit
done
say "$releases: all packages install, burst, upgrade and go$untested"
