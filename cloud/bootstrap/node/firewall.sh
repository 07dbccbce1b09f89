# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- a firewall that the image has switched on, as Vultr's have ufw

# step_firewall: Slurm and MPI use any port between the nodes of a network, and slurmctld reaches slurmd from
# its own addresses. Whom else it lets in is the site's affair.
step_firewall() {
	local server one to=() open=()
	with_ufw || with_firewalld || return 0
	if own_network; then to=("$NETWORK"); else say "note: a firewall is on here, and the network of the other nodes is not known, which it keeps out: $NETWORK open it in setup"; fi
	for server in ${CONF_SERVERS//,/ }; do
		server=${server#[} server=${server%]*}
		[[ $server == *:*:* ]] || server=${server%:*}
		for one in $(getent ahosts "$server" | sed -n 's/ *STREAM.*//p'); do to+=("$one"); done
	done
	for one in "${to[@]}"; do
		if open_to "$one"; then
			open+=("$one")
		elif [[ $one == *:*:* ]]; then # as with IPV6=no in /etc/default/ufw
			say "note: the firewall here takes no IPv6 address, and $one is not let in"
		else
			die "the firewall here does not take $one"
		fi
	done
	say "the firewall here lets in ${open[*]}"
}
with_ufw() { have ufw && [[ $(ufw status) == *'Status: active'* ]]; }
with_firewalld() { have firewall-cmd && firewall-cmd -q --state; }

# own_network: NETWORK is that of this node's address, never the world, or else why there is none.
own_network() {
	case $ADDRESS in
		10.* | 192.168.* | 172.1[6-9].* | 172.2[0-9].* | 172.3[01].* | 100.6[4-9].* | 100.[7-9][0-9].* | 100.1[01][0-9].* | 100.12[0-7].*) ;;
		*) NETWORK="this node's address, $ADDRESS, is public: put the pool into a private network, or" && return 1 ;;
	esac
	NETWORK=$(ip -o -4 route show scope link src "$ADDRESS" | sed -n 's|^\([0-9.]*/[0-9]*\) .*|\1|p' | head -n 1)
	[ "$NETWORK" ] || { NETWORK="no network of this node's address, $ADDRESS, is in its routes:" && return 1; }
}

# open_to ADDRESS: for all that it asks for, now and after a reboot.
open_to() {
	local family=ipv4 rule
	[[ $1 != *:* ]] || family=ipv6
	if with_ufw; then ufw allow from "$1" || return; fi
	if with_firewalld; then
		rule="--add-rich-rule=rule family=$family source address=$1 accept"
		firewall-cmd -q "$rule" && firewall-cmd -q --permanent "$rule"
	fi
}
