# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- the site's: users, mounts, commands

step_users() {
	if [ "$SSSD" = 1 ]; then have sssd || packages SSSD 'sssd libnss-sss libpam-sss' sssd; fi
	[ "$IMAGE" = 0 ] || return 0 # to join a directory makes a machine known there
	commands users "${USER_COMMANDS[@]}"
	if [ "$SSSD" = 1 ]; then
		[ -s "$R/etc/sssd/sssd.conf" ] || die "SSSD has no /etc/sssd/sssd.conf: put it on the image, or write it by the users' commands"
		systemctl enable sssd
		systemctl restart sssd
	fi
	[ -z "$CHECK_USER" ] || retry 60 getent passwd "$CHECK_USER" || die "user $CHECK_USER is not known after 60 s"
}

# commands WHAT COMMAND…: each once, in order.
commands() {
	local what=$1 n=0 code id command
	shift
	for command in "$@"; do
		n=$((n + 1)) id=$what-$n-$(printf %s "$command" | sha)
		! is_done "$id" || continue
		say "$what line $n of $#: ${command%%$'\n'*}"
		output_from_here
		code=0
		timeout -k 10 "$SETUP_TIMEOUT" bash -c "$command" </dev/null 3>&- 9>&- || code=$?
		[ "$code" != 124 ] || die "$what line $n: \"${command%%$'\n'*}\": ran longer than $SETUP_TIMEOUT s"
		[ "$code" = 0 ] || die "$what line $n: \"${command%%$'\n'*}\": exit $code"
		mark "$id"
	done
}

step_mounts() {
	local i
	for ((i = 0; i < ${#MOUNTS[@]}; i += 4)); do
		output_from_here
		mount_one "${MOUNTS[@]:i:4}"
	done
}
mount_one() {
	local kind=$1 source=$2 target=$3 options=$4 server='' from
	[ "$kind" = cvmfs ] || ! mountpoint -q "$R$target" || return 0
	case $kind in
		cvmfs)
			cvmfs "$source" "$options"
			return ;;
		efs)
			have mount.efs || nfs_client
			if have mount.efs; then
				options=${options:-tls,noresvport}
			else # the plain client, with what AWS recommends
				[[ ,$options, != *,@(tls|iam|accesspoint=*),* ]] || die "mounting $source with $options needs amazon-efs-utils: put it on the image"
				kind=nfs4 options=${options:-nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport}
				[[ $source == *:* ]] || source=$source:/
				[[ $source == *.*:* ]] || source=${source%%:*}.efs.$REGION.$DOMAIN:${source#*:}
			fi ;;
		fsx)
			have mount.lustre || packages 'the Lustre client' lustre-client-modules-aws lustre-client
			kind=lustre options=${options:-noatime,flock} ;;
		nfs)
			nfs_client
			if [ "$IMAGE" = 0 ] && [[ $source == server:* ]]; then
				server=${source#server:} && server=${server%%:*}
				source=${source#server:*:}
				source=$(server_address "$server"):$source || die "server $server is not up any more: burstd knows no address of it, and $target cannot be mounted"
				options=${options:-nfsvers=4.2,rw,hard,noatime}
			fi
			options=${options:-rw,hard,noatime} ;;
	esac
	[ "$IMAGE" = 0 ] || return 0 # has the client; the servers are the nodes' affair
	from="$source${server:+ (server $server)}"
	mkdir -p "$R$target"
	say "mounting $from on $target"
	retry 180 mounted "$kind" "$options,_netdev" "$source" "$target" || die "$from could not be mounted on $target within 180 s"
}
# server_address NODE: as burstd said it with our name.
server_address() {
	local one
	for one in $SERVERS; do
		[ "${one%%=*}" != "$1" ] || { echo "${one#*=}" && return; }
	done
	return 1
}
nfs_client() { have mount.nfs4 || packages 'the NFS client' nfs-common nfs-utils; }
mounted() { mountpoint -q "$R$4" || timeout -k 5 60 mount -t "$1" -o "$2" "$3" "$R$4"; }

cvmfs() { # REPOSITORY PROXY
	local deb site=https://ecsft.cern.ch/dist/cvmfs/cvmfs-release/cvmfs-release-latest
	local eessi=https://github.com/EESSI/filesystem-layer/releases/download/latest/cvmfs-config-eessi
	if ! have cvmfs_config; then
		if have apt-get; then
			deb=$(download "${site}_all.deb" release.deb)
			packages 'CVMFS, its repository' "lsb-release $deb" ''
			deb=$(download "${eessi}_latest_all.deb" eessi.deb)
			packages CVMFS "cvmfs $deb" ''
		else
			packages 'CVMFS, its repository' '' "$site.noarch.rpm"
			packages CVMFS '' "cvmfs $eessi-latest.noarch.rpm"
		fi
	fi
	[ "$IMAGE" = 0 ] || return 0
	if [ "$2" ]; then echo "CVMFS_HTTP_PROXY='$2'"; else echo 'CVMFS_CLIENT_PROFILE=single'; fi | put "$R/etc/cvmfs/default.d/90-burst.conf" 0644
	timeout 120 cvmfs_config setup
	retry 180 timeout 60 cvmfs_config probe "$1" || die "CVMFS repository $1 could not be reached within 180 s"
}
# download URL FILE: names the file that it wrote.
download() { retry 120 curl -sSfL --max-time 60 -o "$RUN/$2" "$1" && echo "$RUN/$2"; }

step_setup() { commands setup "${SETUP[@]}"; }
