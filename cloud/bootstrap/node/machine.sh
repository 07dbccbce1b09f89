# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- the machine: clock, metadata, MUNGE key
step_clock() { # MUNGE and AWS refuse who lives at another time
	local conf
	if ! have chronyc; then
		# The image's own service, as systemd-timesyncd, may not have come to it since the boot.
		if [ -z "$NTP" ]; then
			if timed NTPSynchronized || { timed NTP && retry 120 timed NTPSynchronized; }; then return; fi
		fi
		packages chrony chrony chrony
	fi
	if [ -n "$NTP" ] && ! grep -rqsE "^(server|pool) +${NTP//./\\.}( |\$)" "$R"/etc/chrony* "$R/run/chrony.d"; then
		conf=$R/etc/chrony.conf
		[ ! -e "$R/etc/chrony/chrony.conf" ] || conf=$R/etc/chrony/chrony.conf
		echo "server $NTP iburst prefer minpoll 4 maxpoll 4" >>"$conf"
		if systemd; then systemctl restart chronyd || systemctl restart chrony; fi
	fi
	retry 120 in_time || die "the clock is not within 1 s of ${NTP:-its time servers} after 120 s: $(chronyc tracking | tr '\n' '|')"
}
timed() { [ "$(timedatectl show -p "$1" --value)" = yes ]; }
in_time() { timeout 20 chronyc waitsync 1 1 0 1 || { timeout 20 chronyc makestep && false; }; }

step_metadata() {
	if [ "$GIVEN" ]; then # by who set the host up over SSH
		INSTANCE=${GIVEN% *} ADDRESS=${GIVEN#* } DOMAIN=amazonaws.com
	else
		retry 60 token || die "no IMDSv2 token from $IMDS within 60 s: is the instance's metadata service on?"
		INSTANCE=$(retry 60 metadata instance-id) && ADDRESS=$(retry 60 metadata local-ipv4) &&
			DOMAIN=$(retry 60 metadata services/domain) || die "$IMDS does not tell instance-id, local-ipv4 and services/domain"
		REGION=${REGION:-$(retry 60 metadata placement/region)}
	fi
	[[ $INSTANCE =~ ^[A-Za-z0-9-]+$ ]] || die "$INSTANCE is no instance id"
	STATE=$LIB/$INSTANCE
	if [ "${BURST_REBOOT:-}" ] && { [ ! -d "$STATE" ] || [ "$(cat "$STATE/machine")" != "$(machine)" ]; }; then
		say "this image was made of another instance: $INSTANCE waits for its own bootstrap"
		exit 0
	fi
	mkdir -p "$STATE"
	machine | put "$STATE/machine" 0600
	[ "$0" -ef "$SBIN/burst-bootstrap" ] || put "$SBIN/burst-bootstrap" 0755 <"$0"
	systemd && [ "$IMAGE" = 0 ] || return 0
	put "$R/etc/systemd/system/burst-bootstrap.service" 0644 <<-END
		[Unit]
		Description=Burst: make this instance a node again after a reboot
		Wants=network-online.target
		After=network-online.target
		[Service]
		Type=oneshot
		Environment=BURST_REBOOT=1
		ExecStart=/usr/local/sbin/burst-bootstrap
		TimeoutStartSec=infinity
		StandardOutput=journal+console
		[Install]
		WantedBy=multi-user.target
	END
	systemctl daemon-reload
	systemctl enable burst-bootstrap.service
}
# machine tells this one from others that an image makes; "" where nothing does.
machine() { cat "$R/sys/class/dmi/id/product_uuid" 2>/dev/null || echo; }
token() {
	TOKEN=$(curl -sf --noproxy '*' --connect-timeout 2 --max-time 5 -X PUT \
		-H 'X-aws-ec2-metadata-token-ttl-seconds: 3600' "$IMDS/latest/api/token") && [ -n "$TOKEN" ]
}
metadata() {
	curl -sf --noproxy '*' --connect-timeout 2 --max-time 5 -K - "$IMDS/latest/meta-data/$1" \
		<<<"header = \"X-aws-ec2-metadata-token: $TOKEN\""
}

step_munge() {
	local key=$R/etc/munge/munge.key fresh=''
	[ "$IMAGE$MUNGE_KEY" != 1image ] || [ -s "$key" ] || die "/etc/munge/munge.key is missing on the image that this one is made of"
	have munged || packages MUNGE munge munge
	[ "$IMAGE" = 0 ] || return 0 # the key is the nodes'
	if [ "$MUNGE_KEY" != image ] && ! is_done key; then
		retry 60 fetch_key "$key.new" || die "the MUNGE key could not be read from $MUNGE_KEY"
		chown munge:munge "$key.new"
		chmod 0400 "$key.new"
		mv "$key.new" "$key"
		fresh=1
	fi
	[ -s "$key" ] || die "/etc/munge/munge.key is missing on this image: put it there, or name the parameter that has it"
	if systemd; then
		systemctl enable munge
		if [ "$fresh" ]; then systemctl restart munge; else systemctl start munge; fi
	elif [ "$fresh" ] || ! munge_works; then
		munged --stop || :
		install -d -m 0755 -o munge -g munge "$R/run/munge"
		runuser -u munge -- munged 3>&- 9>&-
	fi
	retry 30 munge_works || die "munge -n | unmunge fails: is the key of 32 to 1024 bytes, and does munged run?"
	mark key
	[[ $MUNGE_KEY != ssh:* ]] || rm -f "$(sent_key)"
}
# sent_key is the file that was sent over SSH, wherever this script runs.
sent_key() { echo "$LIB/setup/$INSTANCE/munge.key"; }
munge_works() { munge -n | unmunge >/dev/null; }

# fetch_key FILE: asks SSM or Secrets Manager with the instance's role. Python
# is there: cloud-init runs on it. Neither the key nor the role's is printed.
fetch_key() {
	local python
	if [[ $MUNGE_KEY == ssh:* ]]; then
		(umask 077 && cat "$(sent_key)" >"$1")
		return
	fi
	python=$(command -v python3 || echo /usr/libexec/platform-python)
	IMDS=$IMDS TOKEN=$TOKEN KEY=$MUNGE_KEY REGION=$REGION DOMAIN=$DOMAIN ENDPOINT=$KEY_ENDPOINT \
		timeout 40 "$python" - "$1" <<'END'
@key.py@
END
}

step_imds() { # a job's user must not get the role, and by it the MUNGE key
	local tables address
	TOKEN=''
	have nft || have iptables || packages nftables nftables nftables
	if have nft; then # one transaction; firewalld leaves the table alone
		nft -f - <<-'END'
			add table inet burst
			delete table inet burst
			table inet burst {
				chain output {
					type filter hook output priority 0; policy accept;
					ip daddr 169.254.169.254 meta skuid != 0 reject
					ip6 daddr fd00:ec2::254 meta skuid != 0 reject
				}
			}
		END
	else
		for tables in iptables=169.254.169.254 ip6tables=fd00:ec2::254; do
			address=${tables#*=} tables=${tables%%=*}
			[ "$tables" = iptables ] || [ -e /proc/net/if_inet6 ] || continue
			"$tables" -w -C OUTPUT -d "$address" -m owner ! --uid-owner 0 -j REJECT 2>/dev/null ||
				"$tables" -w -I OUTPUT 1 -d "$address" -m owner ! --uid-owner 0 -j REJECT
		done
	fi
	runuser -u nobody -- true
	! runuser -u nobody -- curl -s --noproxy '*' --max-time 3 -o /dev/null "$IMDS/latest/meta-data/" ||
		die "the metadata service still answers user nobody: does another rule accept it first?"
	: >"$RUN/imds-closed"
}
