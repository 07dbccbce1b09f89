#!/bin/bash
# Builds the packages burst and burst-node, deb and rpm, for amd64 and arm64, into the folder
# named, with SHA256SUMS and an SBOM. The same commit gives the same bits, in whatever folder.
# libburst is in C: it is in the packages of this host's architecture alone.
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC0
PATH=$PATH:/usr/sbin:/sbin

if [ $# != 1 ]; then
	echo "packages: error: which folder? packaging/packages.sh FOLDER, --version or --commit" >&2
	exit 2
fi
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.0

# Whoever gives packages to others says who answers for them: BURST_MAINTAINER="Name <address>".
maintainer=${BURST_MAINTAINER:-Burst maintainers <burst-hpc@users.noreply.github.com>}

# version is git's description as packages sort it: a release over what comes before it, and
# under what comes after. BURST_VERSION is another one, for tests of upgrades.
version() {
	local said
	if [ -n "${BURST_VERSION:-}" ]; then
		echo "$BURST_VERSION"
	elif said=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null); then
		# v1.2.0-rc1-3-gabc-dirty: 1.2.0~rc1+3.gabc.dirty; v1.2.0-dirty: 1.2.0+0.dirty, below the next commit
		sed -E 's/^v//; s/-([0-9]+)-(g[0-9a-f]+)(-dirty)?$/+\1.\2\3/; s/^([^+]*)-dirty$/\1+0.dirty/; s/-dirty$/.dirty/; s/-/~/; s/-/./g' <<<"$said"
	elif said=$(git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S 2>/dev/null); then
		# Of the commits of one second the number of those before it decides, which a shallow clone does not have: 0.
		local before=0
		if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
			echo "packages: warning: a shallow clone gives versions of its own: git fetch --unshallow, or BURST_VERSION says which this is" >&2
		else
			before=$(git rev-list --count HEAD)
		fi
		said=$said.$before.g$(git rev-parse --short=12 HEAD)
		[ -z "$(git status --porcelain)" ] || said=$said.dirty
		echo "0.0.0~git$said"
	else
		echo "0.0.0~dev"
	fi
}

# commit is its full hash, with -dirty where files were changed. BURST_COMMIT is another one, for
# a copy without git.
commit() {
	local hash
	if [ -n "${BURST_COMMIT:-}" ]; then
		echo "$BURST_COMMIT"
	elif hash=$(git rev-parse --verify -q HEAD 2>/dev/null); then
		[ -z "$(git status --porcelain)" ] || hash=$hash-dirty
		echo "$hash"
	fi
}

case $1 in --version | --commit) # of the folder that it is called in
	"${1#--}"
	exit ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
VERSION=$(version)
[[ $VERSION =~ ^[0-9][A-Za-z0-9.+~]*$ ]] || { echo "packages: error: no version of a package: $VERSION" >&2; exit 1; }
[[ $maintainer != *[[:cntrl:]]* && $maintainer =~ ^[^\<\>\|\&\\\"]+\ \<[^\ @\<\>\|\&\\\"]+@[^\ @\<\>\|\&\\\"]+\>$ ]] || { echo "packages: error: no maintainer, as in \"Name <address>\": $maintainer" >&2; exit 2; }
# Where there is no git: the newest file's time would be another one with each copy.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export VERSION SOURCE_DATE_EPOCH
host=$(go env GOHOSTARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "packages: error: $1" >&2
	exit 1
}

# compile builds the programs for architecture $1 into $work/$1, and the agent of the other beside them.
compile() {
	local other=arm64
	[ "$1" != arm64 ] || other=amd64
	mkdir -p "$work/$1/bin" "$work/$1/lib/burst"
	# BURST_GOCACHE, for a test: a cache in which none of the programs of this host's architecture is yet.
	(
		if [ "$1" = "$host" ] && [ -n "${BURST_GOCACHE:-}" ]; then
			export GOCACHE=$BURST_GOCACHE
		fi
		CGO_ENABLED=0 GOARCH=$1 go build -trimpath -buildvcs=false -ldflags "$flags" -o "$work/$1/bin/" ./cmd/burst*
	)
	CGO_ENABLED=0 GOARCH=$other go build -trimpath -buildvcs=false -ldflags "$flags" -o "$work/$1/lib/burst/burst-agent-$other" ./cmd/burst-agent
}
cli=github.com/burst-hpc/burst/cmd/internal/cli
flags="-s -w -X $cli.Version=$VERSION -X $cli.Commit=$(commit) -X $cli.Epoch=$SOURCE_DATE_EPOCH"

# move gives files of the tree of all to that of burst-node.
move() {
	for path; do
		[ -e "$1" ] || [ -L "$1" ] || fail "make install has no $path any more"
		mkdir -p "$node/$(dirname "$path")"
		mv "$path" "$node/$path"
		shift
	done
}

# document puts into tree $1 of package $2 what Debian asks of each package.
document() {
	local doc=$1/usr/share/doc/$2
	mkdir -p "$doc"
	{
		echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
		echo "Upstream-Name: Burst"
		echo "Source: https://github.com/burst-hpc/burst"
		echo
		echo "Files: *"
		echo "Copyright: 2026 the authors of Burst"
		echo "License: Apache-2.0"
		echo " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0,"
		echo " elsewhere at https://www.apache.org/licenses/LICENSE-2.0."
	} >"$doc/copyright"
	gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
	gzip -9n >"$doc/changelog.Debian.gz" <<-EOF
		$2 ($VERSION-1) unstable; urgency=medium

		  * What has changed is in changelog.gz.

		 -- $maintainer  $(date -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')
	EOF
}

# stage makes the trees of both packages for architecture $1 and kind $2, as $all and $node.
stage() {
	all=$work/$1-$2/burst node=$work/$1-$2/burst-node libdir=
	mkdir -p "$all" "$node"
	make -s --no-print-directory install-files BUILD="$work/$1" DESTDIR="$all" >/dev/null
	if [ "$1" = "$host" ]; then
		libdir=/usr/lib64
		[ "$2" = rpm ] || libdir=/usr/lib/$("${CC:-cc}" -print-multiarch)
		make -s --no-print-directory -C contrib/libburst install OUT="$work/libburst" PREFIX=/usr LIBDIR="$libdir" DESTDIR="$all" >/dev/null
		strip --strip-unneeded "$all$libdir"/libburst.so.*.*
		chmod 0644 "$all$libdir"/libburst.so.*.*
	fi
	(
		cd "$all"
		move usr/bin/burst usr/bin/burst-srun usr/sbin/burst-agent usr/lib/burst/shim usr/lib/systemd/system/burst-agent.service \
			usr/lib/tmpfiles.d/burst-node.conf usr/share/man/man1 usr/share/man/man8/burst-agent.8 \
			usr/share/doc/burst/taskprolog.sh usr/share/doc/burst/examples
		[ -z "$libdir" ] || move "${libdir#/}" usr/include usr/share/man/man3 usr/share/doc/burst/libburst
	)
	mkdir -p "$node"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
	"$work/$host/bin/burst" completion bash >"$node/usr/share/bash-completion/completions/burst"
	"$work/$host/bin/burst" completion zsh >"$node/usr/share/zsh/vendor-completions/_burst"
	"$work/$host/bin/burst" completion fish >"$node/usr/share/fish/vendor_completions.d/burst.fish"
	if [ "$2" = rpm ]; then
		mv "$node/usr/share/zsh/vendor-completions" "$node/usr/share/zsh/site-functions"
	fi
	document "$all" burst
	document "$node" burst-node
	find "$work/$1-$2" -path '*/share/man/*' -type f -exec gzip -9n {} +
	find "$work/$1-$2" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# pack makes package $3 of kind $2 for architecture $1.
pack() {
	local libc='' triggers='' glibc
	if [ "$1" = "$host" ] && [ "$3" = burst-node ]; then
		glibc=$(objdump -T "$work/$1-$2/burst-node$libdir"/libburst.so.*.* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
		libc=", \"libc6 (>= ${glibc#GLIBC_})\""
		triggers='deb: { triggers: { activate_noawait: [ldconfig] }, compression: gzip }'
		[ "$2" = deb ] || libc=", \"libc.so.6($glibc)(64bit)\""
	fi
	sed -e "s|@ARCH@|$1|; s|@VERSION@|$VERSION|; s|@TREE@|$work/$1-$2/$3|; s|@CONF@|$work/burst.toml|; s|@NEEDRESTART@|$work/needrestart.conf|; s|@LIBC@|$libc|; s|@MAINTAINER@|$maintainer|" \
		-e "s|@MTIME@|$(date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)|" \
		${triggers:+-e "s|^deb: .*|$triggers|"} "packaging/nfpm/$3.yaml" >"$work/nfpm.yaml"
	go run "$nfpm" package --config "$work/nfpm.yaml" --packager "$2" --target "$work/out/" >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; fail "nfpm: $3, $2, $1"; }
}

mkdir -p "$work/out"
cp cmd/burst/burst.toml "$work/burst.toml"
cp packaging/needrestart/burst.conf "$work/needrestart.conf"
touch -d "@$SOURCE_DATE_EPOCH" "$work/burst.toml" "$work/needrestart.conf"
make -s --no-print-directory -C contrib/libburst OUT="$work/libburst" >/dev/null
for arch in amd64 arm64; do
	compile "$arch"
done
for arch in amd64 arm64; do
	for kind in deb rpm; do
		stage "$arch" "$kind"
		pack "$arch" "$kind" burst
		pack "$arch" "$kind" burst-node
	done
done
go run -buildvcs=false ./packaging/sbom "$VERSION" "$work"/{amd64,arm64}/bin/* "$work"/libburst/libburst.so.*.* >"$work/out/burst-$VERSION.cdx.json"
(cd "$work/out" && sha256sum -- * >SHA256SUMS)
touch -d "@$SOURCE_DATE_EPOCH" "$work"/out/*

# All or nothing, and none of an earlier build beside them.
rm -f "$out"/burst*.deb "$out"/burst*.rpm "$out"/burst*.cdx.json "$out"/SHA256SUMS*
mv "$work"/out/* "$out"
echo "packages: $VERSION is in $out; libburst is in those for $host alone"
