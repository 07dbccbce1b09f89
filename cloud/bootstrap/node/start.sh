# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
# ---- the daemons

# The agent must never keep slurmd from starting: what fails is said, and no more.
step_agent() {
	local program
	if program=$(agent_program); then start_agent "$program" || say 'burst-agent did not start: notices may come late'; fi
}
agent_program() { command -v burst-agent || { [ -x "$SBIN/burst-agent" ] && echo "$SBIN/burst-agent"; }; }

start_agent() { # PROGRAM
	local dir="$R/etc/systemd/system" env="$R/etc/burst/agent.env" values
	values=("URLS=$(IFS=, && echo "${URLS[*]}")" "DAEMON_UID=$DAEMON_UID")
	if [ "$NO_CHECKPOINTS" = 1 ]; then values+=(CHECKPOINTS=none); fi
	mkdir -p "${env%/*}" && printf 'BURST_%s\n' "${values[@]}" |
		put "$env" 0644 || return 1
	if systemd; then
		[ -e "$R/usr/lib/systemd/system/burst-agent.service" ] || [ -e "$R/lib/systemd/system/burst-agent.service" ] ||
			put "$dir/burst-agent.service" 0644 <<-END || return 1
				[Unit]
				Description=Burst: what the cloud announces for this node, and how it is
				After=network-online.target munge.service
				StartLimitIntervalSec=0
				[Service]
				Type=notify
				TimeoutStartSec=infinity
				WatchdogSec=60
				EnvironmentFile=/etc/burst/agent.env
				StateDirectory=burst-agent
				Environment=STATE_DIRECTORY=/var/lib/burst-agent
				ExecStart=$1
				Restart=always
				RestartSec=5
				OOMScoreAdjust=-900
				NoNewPrivileges=yes
				ProtectSystem=strict
				[Install]
				WantedBy=multi-user.target
			END
		systemctl daemon-reload && systemctl enable burst-agent && systemctl --no-block restart burst-agent
	elif ! alive agent; then
		# shellcheck disable=SC1090 # written above
		(set -a && . "$env" && exec setsid "$1" </dev/null 3>&- 9>&-) & echo $! >"$RUN/agent.pid"
	fi
}

# step_fetch: from burstd, where the image has none. slurmd runs by now: a slow
# line delays nothing.
step_fetch() {
	! agent_program >/dev/null || return 0
	if fetch_agent && start_agent "$SBIN/burst-agent"; then say 'burst-agent was fetched from burstd'; else say "no burst-agent on this node: ${ERROR:-it did not start}"; fi
	rm -f "$RUN/agent" "$RUN/answer"
}
fetch_agent() {
	local arch=amd64
	[ "$(uname -m)" != aarch64 ] || arch=arm64
	ERROR='burstd did not answer'
	ANSWER_TIME=1200 retry 1800 program "$arch" && [ "$CODE" = 200 ] && ERROR='' &&
		gzip -dc "$RUN/answer" >"$RUN/agent" && put "$SBIN/burst-agent" 0755 <"$RUN/agent"
}
# program ARCH: in $RUN/answer, unless burstd has none, which no waiting mends.
program() { post /v1/node/agent "{\"instance\":\"$INSTANCE\",\"arch\":\"$1\"}" || [ "$CODE" = 404 ]; }
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
