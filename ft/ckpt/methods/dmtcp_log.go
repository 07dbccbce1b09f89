package methods

import (
	"regexp"
	"strconv"
	"strings"
)

// What DMTCP 4 and 5 print, for us to read. Version 4 colours its log and writes
// NAME = value; version 5 writes plainly, NAME=value.

// beginLine is written before the coordinator says yes to a checkpoint.
const beginLine = "starting checkpoint"

var (
	scriptLine = regexp.MustCompile(`Wrote restart script.*?(?:restartScriptPath = |path=)([^\n]*?\.sh)`)
	joinedLine = regexp.MustCompile(`(?i)worker connected`)
	execLine   = regexp.MustCompile(`(?i)updating (?:process information|worker identity) after exec`)
	leftLine   = regexp.MustCompile(`(?i)client disconnected`)
	countLine  = regexp.MustCompile(`(?m)^# Number of processes in the computation = ([0-9]+)$`)
	peersLine  = regexp.MustCompile(`(?m)^\s*NUM_PEERS=([0-9]+)$`)
	stateLine  = regexp.MustCompile(`(?m)^\s*RUNNING=yes$`)
	clientLine = regexp.MustCompile(`(?m)^[0-9]+, .*\[[0-9]+:([0-9]+)\]@([^,\s]+), `)
)

// parseScript finds the path of the restart script in the coordinator's log: it
// is written when all images of the checkpoint that began last are. "": not yet.
// The end of an earlier one may stand before.
func parseScript(log string) string {
	at := strings.LastIndex(log, beginLine)
	if at < 0 {
		return ""
	}
	if m := scriptLine.FindStringSubmatch(log[at:]); m != nil {
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
	return countOf(m[1])
}

// parseRunning says whether dmtcp_command -s shows processes, and all running.
func parseRunning(out string) bool {
	return parsePeers(out) > 0 && stateLine.MatchString(out)
}

// parsePeers reads how many processes dmtcp_command -s shows.
func parsePeers(out string) int {
	m := peersLine.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	return countOf(m[1])
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
