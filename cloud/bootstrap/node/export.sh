# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- a server of files: what this node exports

step_export() {
	local to line=''
	[ "$EXPORT" ] || return 0
	have exportfs || packages 'the NFS server' nfs-kernel-server nfs-utils
	[ "${#EXPORT_TO[@]}" != 0 ] || own_network
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
		systemctl enable nfs-server
		# Once, since its package may have started it already; later it would keep the nodes waiting.
		if is_done export; then systemctl start nfs-server; else systemctl restart nfs-server; fi ||
			die 'the NFS server does not start: journalctl -u nfs-server says why'
		mark export
	fi
	exportfs -ra
	exportfs -s | grep "^$EXPORT " || die "exportfs does not show $EXPORT: is it on a file system that NFS can serve?"
	retry 60 serves || die 'nothing listens at port 2049, where NFS is served'
	say "$EXPORT is served to ${EXPORT_TO[*]}"
}
serves() { ! have ss || ss -ltnH 'sport = :2049' | grep .; }

# own_network: that of this node's address, never the world.
own_network() {
	case $ADDRESS in
		10.* | 192.168.* | 172.1[6-9].* | 172.2[0-9].* | 172.3[01].* | 100.6[4-9].* | 100.[7-9][0-9].* | 100.1[01][0-9].* | 100.12[0-7].*) ;;
		*) die "this node's address, $ADDRESS, is public: put the pool into a private network, or say with exports_to to which $EXPORT is served" ;;
	esac
	EXPORT_TO=("$(ip -o -4 route show scope link src "$ADDRESS" | sed -n 's|^\([0-9.]*/[0-9]*\) .*|\1|p' | head -n 1)")
	[ "${EXPORT_TO[0]}" ] || die "no network of this node's address, $ADDRESS, is in its routes: say with exports_to to which $EXPORT is served"
}

# open_nfs NETWORK: where the image has a firewall that is on.
open_nfs() {
	if have ufw && [[ $(ufw status) == *'Status: active'* ]]; then ufw allow proto tcp from "$1" to any port 2049; fi
	if have firewall-cmd && firewall-cmd -q --state; then
		firewall-cmd -q --permanent --add-rich-rule="rule family=ipv4 source address=$1 service name=nfs accept"
		firewall-cmd -q --reload
	fi
}
