# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- an image: nothing that two instances of it must not share

# cloud-init writes down how it has ended: it must have ended before its state
# is cleaned. If it runs this script, another unit goes on after it.
step_clean() {
	if [ "$GIVEN" ] || ! systemd; then
		# Whoever follows the output, which is removed too, is to see first that it has come so far.
		[ -z "$GIVEN" ] || sleep 5
		! have cloud-init || timeout 600 cloud-init status --wait || :
		step_finish
		return
	fi
	systemd-run --collect --no-block --unit=burst-finish -p After=cloud-final.service -p StandardOutput=journal+console \
		-E BURST_STEPS=finish /bin/bash "$SBIN/burst-bootstrap" 3>&- 9>&-
}

step_finish() {
	local home unit
	if systemd; then
		for unit in munge slurmd burst-agent burst-bootstrap; do
			systemctl stop "$unit" || :
			[ "$unit" = munge ] || systemctl disable "$unit" || : # the next bootstrap enables what it needs
		done
		put "$R/etc/systemd/system/burst-hostkeys.service" 0644 <<-'END'
			[Unit]
			Description=Burst: host keys of its own for an instance of an image without any
			ConditionPathExistsGlob=!/etc/ssh/ssh_host_*_key
			After=cloud-init.service
			Before=ssh.service sshd.service
			[Service]
			Type=oneshot
			ExecStart=/usr/bin/ssh-keygen -A
			[Install]
			WantedBy=multi-user.target
		END
		systemctl daemon-reload
		systemctl enable burst-hostkeys
	fi
	[ "$MUNGE_KEY" = image ] || rm -f "$R/etc/munge/munge.key" "$R/etc/munge/munge.key.new"
	rm -f "$R"/etc/ssh/ssh_host_* "$R/etc/burst/agent.env" "$R/etc/cloud/cloud.cfg.d/99-burst.cfg" "$R/etc/systemd/system/burst-bootstrap.service"
	# Homes on other file systems are the site's, not the image's.
	for home in "$R/root" "$R"/home/*; do
		[ -d "$home" ] && [ "$(stat -c %d "$home")" = "$(stat -c %d "$R/")" ] || continue
		rm -f "$home/.ssh/authorized_keys" "$home/.bash_history"
	done
	! have cloud-init || cloud-init clean --logs
	rm -rf "$R"/var/lib/cloud/{instance,instances,data,sem,seed} "$R/var/lib/systemd/random-seed" "$R/var/lib/systemd/credential.secret" \
		"$R"/var/lib/dhcp/* "$R"/var/lib/dhclient/* "$R"/var/lib/NetworkManager/{*.lease,secret_key} "$R"/var/lib/amazon/ssm/* \
		"$R"/var/spool/slurmd/* "$R"/var/lib/burst-agent "$R"/var/log/journal/*
	if [ -e "$R/etc/machine-id" ]; then : >"$R/etc/machine-id"; fi
	[ -L "$R/var/lib/dbus/machine-id" ] || rm -f "$R/var/lib/dbus/machine-id"
	echo localhost | put "$R/etc/hostname" 0644
	mkdir -p "$R/etc/burst"
	date -u +%FT%TZ | put "$R/etc/burst/image" 0644 # by it a setup command knows that it runs on a node of an image
	# Of a setup over SSH stays what its end is known by.
	find "$LIB" -mindepth 1 ! -path "$LIB/setup" ! -path "$LIB/setup/$INSTANCE" \
		! -path "$LIB/setup/$INSTANCE/status" ! -path "$LIB/setup/$INSTANCE/lock" ! -path "$LIB/setup/$INSTANCE/turn" -delete
	[ "$GIVEN" ] || rm -rf "$LIB"
	find "$R/tmp" "$R/var/tmp" -xdev -mindepth 1 -delete 2>/dev/null || : # what is in use goes with the instance
	rm -f "$SBIN/burst-bootstrap" "$SBIN/burst-slurmd"
	find "$R/var/log" -xdev -type f -delete
	sync
	# By force: no service is stopped, which might write what has been removed, but all file systems are unmounted.
	if [ "$POWER_OFF" = 1 ] && systemd; then
		systemd-run --collect --no-block --unit=burst-off /bin/sh -c 'sleep 30; exec systemctl poweroff --force' 3>&- 9>&- ||
			say 'this instance cannot shut itself down: the cloud stops it'
	fi
	say 'image ready'
}
