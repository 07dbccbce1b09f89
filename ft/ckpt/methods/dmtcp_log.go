package methods

import (
	"regexp"
	"strconv"
	"strings"
)

// What DMTCP 3 to 5 print, for us to read. Version 4 colours its log and writes
// NAME = value; version 5 writes plainly, NAME=value.

var (
	scriptLine = regexp.MustCompile(`Wrote restart script.*?(?:restartScriptPath = |path=)([^\n]*?\.sh)`)
	countLine  = regexp.MustCompile(`(?m)^# Number of processes in the computation = ([0-9]+)$`)
	peersLine  = regexp.MustCompile(`(?m)^\s*NUM_PEERS=([0-9]+)$`)
	stateLine  = regexp.MustCompile(`(?m)^\s*RUNNING=yes$`)
	clientLine = regexp.MustCompile(`(?m)^[0-9]+, .*\[[0-9]+:([0-9]+)\]@([^,\s]+), `)
)

// parseScript finds the path of the restart script in the coordinator's log: it
// is written when all images are. "": not yet.
func parseScript(log string) string {
	if m := scriptLine.FindStringSubmatch(log); m != nil {
		return m[1]
	}
	return ""
}

// killedByOther says that somebody told the coordinator to end the step. It says
// so too when it leaves after the last client, but then that stands before it.
func killedByOther(log string) bool {
	if strings.Contains(log, "Killing all connected peers") {
		return true
	}
	quit := strings.Index(log, "killing all connected peers and quitting")
	last := strings.Index(log, "last client exited")
	return quit >= 0 && (last < 0 || quit < last)
}

// parseProcesses reads how many processes a restart script starts; 0: it does not say.
func parseProcesses(script string) int {
	m := countLine.FindStringSubmatch(script)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // too many for an int are none
	return n
}

// parseStatus says whether dmtcp_command -s shows at least so many processes, all running.
func parseStatus(out string, processes int) bool {
	m := peersLine.FindStringSubmatch(out)
	if m == nil || !stateLine.MatchString(out) {
		return false
	}
	n, err := strconv.Atoi(m[1])
	return err == nil && n >= processes
}

// parseClients reads the processes' ids of dmtcp_command -l, and says whether
// all of them run on this host.
func parseClients(out, host string) (pids []int, all bool) {
	all = true
	for _, m := range clientLine.FindAllStringSubmatch(out, -1) {
		pid, err := strconv.Atoi(m[1])
		if err != nil || m[2] != host {
			all = false
			continue
		}
		pids = append(pids, pid)
	}
	return pids, all && len(pids) > 0
}
