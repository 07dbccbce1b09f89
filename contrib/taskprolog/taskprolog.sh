#!/bin/sh
# Makes srun burst-srun in every batch script of a partition or a cluster:
#
#	TaskProlog=/etc/burst/taskprolog.sh
#
# in slurm.conf. What it prints as "export NAME=value" is in the environment of
# the task. A job opts out with BURST_SRUN_OFF=1. A site with a TaskProlog of its
# own puts these lines into it; an error of theirs must never fail a task.

shim=/usr/lib/burst/shim
if [ -x "$shim/srun" ]; then
	case ":$PATH:" in
	*":$shim:"*) ;;
	*) echo "export PATH=$shim:$PATH" ;;
	esac
fi
exit 0
