# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- a server of files: what this node exports

step_export() {
	local to line=''
	have exportfs || packages 'the NFS server' nfs-kernel-server nfs-utils
	if [ "$IMAGE" = 1 ]; then # it has the package now, whose server is not to run on it
		! systemd || systemctl disable --now nfs-server
		return
	fi
	if [ "${#EXPORT_TO[@]}" = 0 ]; then
		own_network || die "$NETWORK say with exports_to to which $EXPORT is served"
		EXPORT_TO=("$NETWORK")
	fi
	# As /tmp: a user makes a folder of his own, since root of a node is nobody here.
	[ -d "$R$EXPORT" ] || { mkdir -p "$R$EXPORT" && chmod 1777 "$R$EXPORT"; }
	for to in "${EXPORT_TO[@]}"; do
		line+=" $to(rw,sync,no_subtree_check,root_squash)"
		open_nfs "$to"
	done
	mkdir -p "$R/etc/exports.d" "$R/etc/nfs.conf.d"
	printf '[nfsd]\nthreads=64\nvers3=n\n' | put "$R/etc/nfs.conf.d/burst.conf" 0644
	echo "$EXPORT$line" | put "$R/etc/exports.d/burst.exports" 0644
	if systemd; then
		if v3_off; then v4_alone; fi
		systemctl enable nfs-server
		# Once, since its package may have started it already; later it would keep the nodes waiting.
		if is_done export; then systemctl start nfs-server; else systemctl restart nfs-server; fi ||
			die 'the NFS server does not start: journalctl -u nfs-server says why'
		mark export
	fi
	exportfs -ra
	exportfs -s | grep "^$EXPORT " || die "exportfs does not show $EXPORT: is it on a file system that NFS can serve?"
	retry 60 serves || die 'nothing listens at port 2049, where NFS is served'
	if grep -qs '+3' "$R/proc/fs/nfsd/versions"; then
		say 'note: NFSv3 is served too, and rpcbind listens: the nfs-utils here are not told by /etc/nfs.conf.d, nor by nfsconf; turn NFSv3 off as they want it'
	elif systemd && ! v3_off && grep -qs 4 "$R/proc/fs/nfsd/versions"; then
		v4_alone
	fi
	say "$EXPORT is served to ${EXPORT_TO[*]}"
}

# v3_off: nfsd is to serve no NFSv3, without doubt: with it, it does not start if rpcbind is masked. nfs-utils before
# 2.5.3 read no /etc/nfs.conf.d, and those before nfsconf perhaps no /etc/nfs.conf.
v3_off() {
	have nfsconf || return
	[ "$(nfsconf --get nfsd vers3)" = n ] || { nfsconf --set nfsd vers3 n && [ "$(nfsconf --get nfsd vers3)" = n ]; }
}

# v4_alone: NFSv4 needs neither rpcbind nor statd, which would listen at all addresses. A mount of the
# site's may be NFSv3, which does.
v4_alone() {
	local units='rpcbind.socket rpcbind.service rpc-statd.service'
	[[ " ${MOUNTS[*]} " != *' nfs '* ]] || return 0
	# shellcheck disable=SC2086 # one word for each
	systemctl mask $units && { systemctl stop $units || :; } # some need not be there
}
serves() { ! have ss || ss -ltnH 'sport = :2049' | grep .; }

# open_nfs NETWORK: where the image has a firewall that is on.
open_nfs() {
	if with_ufw; then ufw allow proto tcp from "$1" to any port 2049; fi
	if with_firewalld; then
		firewall-cmd -q --permanent --add-rich-rule="rule family=ipv4 source address=$1 service name=nfs accept"
		firewall-cmd -q --reload
	fi
}
