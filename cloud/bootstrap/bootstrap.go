// Package bootstrap writes what a new cloud node runs at its first boot: user
// data for cloud-init, one script that sets the clock, fetches the MUNGE key,
// asks burstd which node it is, mounts, runs the site's commands and starts
// slurmd. The script is in node/; it knows Amazon Linux 2023, RHEL and Rocky
// 8 and 9, Ubuntu 22.04 and 24.04, and Debian 12.
package bootstrap

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the parts of the script
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Limit is how many bytes of user data a cloud takes (EC2: 16 KiB before its base64).
const Limit = 16 << 10

//go:embed node/tools.sh
var tools string

//go:embed node/machine.sh
var machine string

//go:embed node/key.py
var key string

//go:embed node/slurm.sh
var slurm string

//go:embed node/site.sh
var site string

//go:embed node/firewall.sh
var firewall string

//go:embed node/export.sh
var export string

//go:embed node/start.sh
var start string

//go:embed node/image.sh
var clean string

//go:embed node/main.sh
var last string

// UserData returns the script for c, at most Limit bytes of text. It is the
// same for the same c, and for all instances of a pool. A script that is too long as
// it is comes packed: it unpacks itself on the node.
func UserData(c Config) (string, error) {
	if c.Sent() != "" && !c.image {
		return "", errors.New("the MUNGE key is sent over SSH only: user data holds no secret")
	}
	script, err := Script(c)
	if err != nil || len(script) <= Limit {
		return script, err
	}
	packed, err := pack(write(c, func(part string) string { return comments.ReplaceAllString(part, "") }))
	if err != nil {
		return "", fmt.Errorf("packing the user data: %w", err)
	}
	if over := len(packed) - Limit; over > 0 {
		return "", fmt.Errorf("the user data is %d bytes too long, packed, for the cloud's %d: move setup commands into a script that a mount or the image has",
			over, Limit)
	}
	return packed, nil
}

// Script returns the script unpacked, of any length, for an admin to read.
func Script(c Config) (string, error) {
	if err := c.Validate(); err != nil {
		return "", err
	}
	return write(c, func(part string) string { return part }), nil
}

// ForHost returns the script for one instance that is set up over SSH, where it
// asks no metadata service. KeyFile is in /var/lib/burst/setup/INSTANCE, if c has Sent.
func ForHost(c Config, instance string, addr netip.Addr) (string, error) {
	c.given = instance + " " + addr.String()
	return Script(c)
}

// KeyFile is the name, in the instance's folder, of the MUNGE key that is sent with the script of ForHost.
const KeyFile = "munge.key"

// Sent is the file of the controller that has the MUNGE key to be sent over SSH; empty: none is.
func (c Config) Sent() string {
	file, ok := strings.CutPrefix(c.MungeKey, "ssh:")
	if !ok {
		return ""
	}
	return file
}

// comments of our own parts are left out of what is packed; their lines stay,
// empty, so that what fails has the number of the line that an admin reads.
var comments = regexp.MustCompile(`(?m)^[ \t]*# .*$`)

func write(c Config, edit func(part string) string) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n# Made by Burst.\n")
	c.withDefaults().header(&b)
	parts := []string{tools, strings.Replace(machine, "@key.py@\n", key, 1), slurm, site} // and what this one needs, as user data has a limit
	if c.Export.Folder != "" {
		parts = append(parts, export)
	}
	if c.image {
		parts = append(parts, clean)
	} else {
		parts = append(parts, firewall, start)
	}
	for _, part := range append(parts, last) {
		_, text, _ := strings.Cut(part, "\n") // without its line for shellcheck
		b.WriteByte('\n')
		b.WriteString(edit(text))
	}
	return b.String()
}

const unpack = `#!/bin/bash
# Made by Burst: its bootstrap, packed, which this unpacks into /usr/local/sbin/burst-bootstrap and runs.
set -eu
to=${BURST_ROOT:-}/usr/local/sbin/burst-bootstrap
mkdir -p "${to%/*}"
base64 -d <<'END' | gzip -d >"$to.new"
@
END
chmod 0755 "$to.new"
mv "$to.new" "$to"
exec /bin/bash "$to"
`

func pack(script string) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write([]byte(script)); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	text := base64.StdEncoding.EncodeToString(b.Bytes())
	return strings.Replace(unpack, "@", text, 1), nil
}
