# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# Makes a new instance a node of the cluster. cloud-init runs it as root at the
# first boot, burst-bootstrap.service at each later one. It may be run again at
# any time: what is done is not done twice. Log: /var/log/burst-bootstrap.log.
# The values above are Burst's; no secret is among them.
set -Eeuo pipefail
trap '' PIPE
R=${BURST_ROOT:-} # tests put another root folder, PATH, clock and metadata service
export PATH=${BURST_PATH:-$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export LC_ALL=C HOME="${HOME:-/root}" DEBIAN_FRONTEND=noninteractive
IMDS=${BURST_IMDS:-http://169.254.169.254}
UPTIME=${BURST_UPTIME:-/proc/uptime}
LIB=$R/var/lib/burst RUN=$R/run/burst LOG=$R/var/log/burst-bootstrap.log SBIN=$R/usr/local/sbin
STEP=begin WHY='' ERROR='' NETWORK='' INSTANCE='' TOKEN='' NODE='' CLUSTER='' SERVERS='' AT='' CMD='' FROM=0 TOLD='' CODE=''
mkdir -p "$LIB" "$RUN" "$SBIN" "${LOG%/*}" "$R/etc/systemd/system"
chmod 0700 "$RUN"
exec 3>&1 >>"$LOG" 2>&1 9>"$RUN/lock"

# ---- words, waits, files

say() {
	printf '%s burst-bootstrap: %s\n' "$(date -u +%FT%TZ)" "$*"
	printf 'burst-bootstrap: %s\n' "$*" >&3 || :
}
die() {
	WHY=$*
	exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
systemd() { [ -d "$R/run/systemd/system" ]; }
is_done() { [ -e "$STATE/$1" ]; }
mark() { : >"$STATE/$1"; }
sha() { sha256sum | cut -d' ' -f1; }
output_from_here() { FROM=$(wc -c <"$LOG"); }
last_output() { tail -c "+$((FROM + 1))" "$LOG" | tail -n 12 | tail -c 1500; }
# uptime does not jump when the clock is set.
uptime() {
	local up
	read -r up _ <"$UPTIME" && echo "${up%%.*}"
}

# retry SECONDS COMMAND…: until it succeeds, with growing pauses and jitter.
retry() {
	local end pause=1
	end=$(($(uptime) + $1))
	shift
	until "$@"; do
		[ "$(uptime)" -lt "$end" ] || return 1
		sleep "$((pause - 1)).$((RANDOM % 900 + 100))"
		pause=$((pause < 16 ? pause * 2 : 16))
	done
}

# put FILE MODE: stdin becomes FILE, whole or not at all.
put() { cat >"$1.new" && chmod "$2" "$1.new" && mv "$1.new" "$1"; }

# packages WHAT DEBIAN-NAMES REDHAT-NAMES: installs what the image lacks.
packages() {
	[ "$PACKAGES" = 1 ] || die "$1 is missing on this image: install it there, or set packages = true"
	say "installing $1"
	# shellcheck disable=SC2086 # one word for each package
	if have apt-get; then retry 300 apt_install $2; else retry 300 timeout 900 "$(command -v dnf || echo yum)" -y -q install $3; fi ||
		die "$1 could not be installed: see the package manager's words, or put it on the image"
}
apt_install() {
	timeout 300 apt-get -q update && timeout 900 apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "$@"
}

# ---- burstd

# post PATH BODY: one request under a MUNGE credential, to the first burstd
# that gives an answer to trust, which is then in $RUN/answer.
post() {
	local url credential sum
	CODE=''
	sum=$(printf %s "$2" | sha)
	for url in "${URLS[@]}"; do
		credential=$(printf 'POST %s %s' "$1" "$sum" | munge) || { ERROR='munge makes no credential' && return 1; }
		if ! CODE=$(curl -sS --noproxy '*' --connect-timeout 5 --max-time "${ANSWER_TIME:-30}" -y 60 -H 'Content-Type: application/json' \
			-D "$RUN/head" -o "$RUN/answer" -w '%{http_code}' --data-binary "$2" -K - "$url$1" \
			<<<"header = \"Authorization: MUNGE $credential\"" 2>"$RUN/curl"); then
			ERROR="$url: $(tail -n 1 "$RUN/curl")"
		elif [ "$CODE" != 200 ]; then
			ERROR="$url answers $CODE: $(head -c 300 "$RUN/answer")"
		elif trusted; then
			return 0
		fi
	done
	return 1
}

# trusted: the answer is from burstd, which vouches for it by MUNGE.
trusted() {
	local theirs uid
	theirs=$(tr -d '\r' <"$RUN/head" | sed -n 's/^[Bb]urst-[Cc]redential: *//p')
	if ! printf %s "$theirs" | unmunge -m "$RUN/meta" -o "$RUN/payload"; then
		ERROR="$url: the answer carries no credential under our MUNGE key"
		return 1
	fi
	uid=$(sed -n 's/^UID:.*[^0-9]\([0-9][0-9]*\))*$/\1/p' "$RUN/meta")
	if [ "$uid" != 0 ] && [ "$uid" != "$DAEMON_UID" ]; then
		ERROR="$url: the answer is signed by uid $uid, not by burstd's ($DAEMON_UID) or root"
		return 1
	fi
	if [ "$(cat "$RUN/payload")" != "$(sha <"$RUN/answer")" ]; then
		ERROR="$url: the answer is not what its credential says"
		return 1
	fi
}

# report STAGE TEXT: one line of printable ASCII, cut to what burstd keeps.
report() {
	local text
	text=$(printf %s "$2" | tr '\n' '|' | tr -c '[:print:]' ' ')
	text=${text:0:3500}
	text=${text//\\/\\\\}
	post /v1/node/report "{\"instance\":\"$INSTANCE\",\"stage\":\"$1\",\"text\":\"${text//\"/\\\"}\"}"
}
tell() { report "$@" || say "burstd was not told \"$1\": $ERROR"; }
answer() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" "$RUN/answer"; }
