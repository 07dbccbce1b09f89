# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- the daemons

step_agent() {
	have burst-agent || { say 'no burst-agent on this image' && return; }
	if systemd; then
		systemctl enable --now burst-agent || tell setup 'burst-agent did not start: notices come by burstd alone'
	elif ! alive agent; then
		setsid burst-agent </dev/null 3>&- 9>&- & echo $! >"$RUN/agent.pid"
	fi
}
alive() { [ -e "$RUN/$1.pid" ] && kill -0 "$(cat "$RUN/$1.pid")" 2>/dev/null; }

step_start() {
	[ -e "$RUN/imds-closed" ] || die 'slurmd would start before the metadata service is closed'
	# -b tells slurmctld of a fresh boot, which it waits for; a slurmd that is
	# only restarted must not say so, or slurmctld takes it for a lost node.
	put "$SBIN/burst-slurmd" 0755 <<-END
		#!/bin/bash
		boot=-b
		[ ! -e '$RUN/slurmd-up' ] || boot=
		exec $(printf '%q ' "$SLURMD" -D --conf-server "$CONF_SERVERS" -N "$NODE" "${SLURMD_OPTIONS[@]}")\$boot
	END
	mkdir -p "$R/var/spool/slurmd" "$R/var/log/slurm"
	if systemd; then
		put "$R/etc/systemd/system/slurmd.service" 0644 <<-'END'
			[Unit]
			Description=Slurm node daemon, started by burst-bootstrap
			After=network-online.target munge.service
			ConditionPathExists=/run/burst/imds-closed
			[Service]
			Type=simple
			EnvironmentFile=-/etc/sysconfig/slurmd
			EnvironmentFile=-/etc/default/slurmd
			ExecStart=/usr/local/sbin/burst-slurmd
			ExecReload=/bin/kill -HUP $MAINPID
			KillMode=process
			LimitNOFILE=131072
			LimitMEMLOCK=infinity
			LimitSTACK=infinity
			Delegate=yes
			TasksMax=infinity
			Restart=on-failure
			RestartSec=5
		END
		systemctl disable slurmd || : # this script starts it, at every boot
		systemctl daemon-reload
		if [ -e "$RUN/slurmd-up" ]; then systemctl start slurmd; else systemctl restart slurmd; fi
	elif ! alive slurmd; then
		setsid "$SBIN/burst-slurmd" </dev/null 3>&- 9>&- & echo $! >"$RUN/slurmd.pid"
	fi
	# Longer than a backup of slurmctld takes to take over (SlurmctldTimeout, 120 s).
	retry 300 slurmd_up || { systemd && journalctl -u slurmd -n 12 --no-pager; die 'slurmd does not stay up: can this node reach and resolve '"$CONF_SERVERS"'?'; }
	: >"$RUN/slurmd-up"
}
slurmd_up() {
	if systemd; then systemctl is-active --quiet slurmd; else alive slurmd; fi && { ! have ss || ss -ltnpH | grep slurmd; }
}
