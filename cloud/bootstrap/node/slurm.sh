# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- which slurmd, and which node

step_slurmd() {
	local dir
	slurm_user
	[ "$SLURMD" ] || for dir in ${PATH//:/ } /opt/slurm/sbin /opt/slurm/current/sbin; do
		[ ! -x "$dir/slurmd" ] || { SLURMD=$dir/slurmd && break; }
	done
	if [ -z "$SLURMD" ]; then
		have apt-get || timeout 300 "$(command -v dnf || echo yum)" -y -q install epel-release || :
		packages slurmd slurmd slurm-slurmd
		SLURMD=$(command -v slurmd) || die "the package brought no slurmd: put Slurm ${SLURM_VERSION:-} on the image"
	fi
	[ -x "$SLURMD" ] || die "$SLURMD is not there, or cannot be run"
	[ -z "$SLURM_VERSION" ] || fits "$SLURM_VERSION"
	[ ! -e "$R/etc/slurm/slurm.conf" ] || say "note: commands here prefer the image's /etc/slurm/slurm.conf to what slurmctld serves: remove it"
}

# slurm_user: slurmd obeys root and SlurmUser, by its uid on the controller.
slurm_user() {
	local uid
	[ "$SLURM_UID" != 0 ] || return 0
	uid=$(id -u "$SLURM_USER" 2>/dev/null || :)
	[ "$uid" != "$SLURM_UID" ] || return 0
	if [ -n "$uid" ]; then
		usermod -u "$SLURM_UID" "$SLURM_USER" || die "user $SLURM_USER has uid $uid, the controller's has $SLURM_UID: make them the same on the image"
		return 0
	fi
	getent group "$SLURM_USER" >/dev/null || groupadd -r "$SLURM_USER"
	useradd -r -u "$SLURM_UID" -g "$SLURM_USER" -d /nonexistent -s /sbin/nologin "$SLURM_USER" ||
		die "user $SLURM_USER could not be made with uid $SLURM_UID, which the controller's has"
}

# fits VERSION: Slurm's rule (its upgrade guide): a slurmd is at most as new as
# slurmctld, by two releases older, and by three from slurmctld 24.11 on.
fits() {
	local ours mine theirs window=2
	ours=$("$SLURMD" -V | grep -oEm1 '[0-9]{2}\.[0-9]{2}[0-9.]*') || die "$SLURMD -V tells no version"
	mine=$(release "$ours") theirs=$(release "$1")
	[ "$theirs" -lt 8 ] || window=3
	[ "$mine" -le "$theirs" ] || die "slurmd $ours is newer than slurmctld $1: install slurmd $1 on the image"
	[ "$mine" -ge $((theirs - window)) ] || die "slurmd $ours is more than $window major releases older than slurmctld $1: install slurmd $1 on the image"
}
# release VERSION: the how manieth it is: 20.02 is 1, 24.11 is 8.
release() {
	local y=$((10#${1%%.*})) m
	m=${1#*.} && m=$((10#${m%%.*}))
	case $y.$m in
		20.2) echo 1 ;; 20.11) echo 2 ;; 21.8) echo 3 ;; 22.5) echo 4 ;; 23.2) echo 5 ;;
		*) if [ "$y" -lt 23 ]; then echo 0; else echo $((6 + 2 * (y - 23) - (m < 11))); fi ;;
	esac
}

step_whoami() {
	local left=$((RESUME_TIMEOUT - $(uptime)))
	tell reachable "$(uptime) s after boot"
	retry $((left > 60 ? left : 60)) who || die "burstd did not say which node $INSTANCE is: $ERROR"
	say "this is node $NODE of cluster $CLUSTER"
	TOLD=1
	printf 'BURST_%s\n' "NODE=$NODE" "CLUSTER=$CLUSTER" "INSTANCE=$INSTANCE" "URL=${URLS[*]}" | put "$LIB/node.env" 0644
	export BURST_NODE=$NODE BURST_CLUSTER=$CLUSTER BURST_INSTANCE=$INSTANCE
	[ "$KEEP_HOSTNAME" = 1 ] || name_host
	local version
	version=$(answer slurm)
	[ -z "$version" ] || fits "$version"
}
who() { identity || { say "burstd: $ERROR" && return 1; }; }
identity() {
	local whose
	post /v1/node/whoami "{\"instance\":\"$INSTANCE\"}" || return 1
	whose=$(answer instance)
	[ "$whose" = "$INSTANCE" ] || { ERROR="the answer is for instance $whose, not for $INSTANCE" && return 1; }
	NODE=$(answer node) CLUSTER=$(answer cluster) SERVERS=$(answer servers)
	[[ $NODE =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || { ERROR="no node name in $(head -c 300 "$RUN/answer")" && return 1; }
}
name_host() {
	if [ -d "$R/etc/cloud/cloud.cfg.d" ]; then # cloud-init would undo it at the next boot
		echo 'preserve_hostname: true' | put "$R/etc/cloud/cloud.cfg.d/99-burst.cfg" 0644
	fi
	echo "$NODE" | put "$R/etc/hostname" 0644
	[ "$(uname -n)" = "$NODE" ] || hostname "$NODE"
	grep -qsxF "$ADDRESS $NODE" "$R/etc/hosts" || echo "$ADDRESS $NODE" >>"$R/etc/hosts"
}
