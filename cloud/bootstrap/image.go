package bootstrap

import (
	"regexp"
	"strings"
)

// ForImage is what an instance is told of which an image is made for nodes of c.
// It does what a node does before it is one: packages, the clients of mounts, the setup
// commands, with BURST_IMAGE=1 in place of BURST_NODE. It gets no MUNGE key, asks burstd
// nothing, mounts nothing and joins no directory; then it removes what two instances
// must not share: keys, machine id, logs, the states of cloud-init and of Burst. A key
// that is on the image already stays if it is where nodes have theirs from.
// Its setup commands run again on nodes of the image, where /etc/burst/image is there.
func (c Config) ForImage() Config {
	c.image = true
	return c
}

// ThenOff has the instance of ForImage shut itself down half a minute after its end, in which
// whoever has set it up over SSH reads the end. For clouds that would unplug it: its file systems
// are whole, and no service writes down anything at its stop.
func (c Config) ThenOff() Config {
	c.off = true
	return c
}

// last words of the script, as they stand in a console among others'.
var words = regexp.MustCompile(`(?m)burst-bootstrap: (image ready|FAILED: (?:step \w+: )?([^\r\n]*))\r?$`)

// ImageEnd reads from a console how a script of ForImage has ended. Of one that
// has failed, why is its failing line and tail what followed it; of one that has ended
// well both are empty.
func ImageEnd(console string) (ended bool, why, tail string) {
	all := words.FindAllStringSubmatchIndex(console, -1)
	if len(all) == 0 {
		return false, "", ""
	}
	m := all[len(all)-1]
	if m[4] < 0 {
		return true, "", ""
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(console[m[1]:], "\r", "")), "\n")
	return true, console[m[4]:m[5]], strings.Join(lines[:min(len(lines), maxTail)], "\n")
}

var cleaning = regexp.MustCompile(`(?m)^burst-bootstrap: step clean$`)

// ImageCleaning says whether the output of a script of ForImage shows that it has got as far as
// cleaning the instance. One of ThenOff shuts itself down then only when that is done.
func ImageCleaning(output []byte) bool { return cleaning.Match(output) }

// maxTail is how many lines of output a failing script prints at most.
const maxTail = 12
