// Package passwd finds users as this host knows them, also those of LDAP or SSSD: without cgo Go
// itself reads /etc/passwd only.
package passwd

import (
	"context"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// patience is how long a directory may take to answer.
var patience = 2 * time.Second

// ByName finds a user by the name.
func ByName(ctx context.Context, name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err == nil || name == "" {
		return u, err
	}
	if u, asked := getent(ctx, name); asked == nil && u.Username == name {
		return u, nil
	}
	return nil, err
}

// ByID finds a user by the uid.
func ByID(ctx context.Context, uid int) (*user.User, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err == nil {
		return u, nil
	}
	if u, asked := getent(ctx, strconv.Itoa(uid)); asked == nil && u.Uid == strconv.Itoa(uid) {
		return u, nil
	}
	return nil, err
}

// getent asks whatever nsswitch.conf names.
func getent(ctx context.Context, key string) (*user.User, error) {
	out, _, err := slurm.Exec{Timeout: patience}.Run(ctx, "getent", "passwd", "--", key)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	f := strings.Split(line, ":") // name, password, uid, gid, gecos, home, shell
	if len(f) < 7 || f[0] == "" {
		return nil, fmt.Errorf("getent passwd %s: %.80q is no user", key, line)
	}
	return &user.User{Username: f[0], Uid: f[2], Gid: f[3], Name: f[4], HomeDir: f[5]}, nil
}

const (
	kept    = 10 * time.Minute // a name
	unknown = time.Minute      // that there is none, or that nobody has answered
)

// Names keeps the names of users for a while. The zero value is ready for use.
type Names struct {
	mu   sync.Mutex
	have map[int]found
}

type found struct {
	name  string
	until time.Time
}

// Of is the name of a user; empty: it is not known.
func (n *Names) Of(ctx context.Context, uid int) string {
	n.mu.Lock()
	f, has := n.have[uid]
	n.mu.Unlock()
	if has && time.Now().Before(f.until) {
		return f.name
	}
	f = found{until: time.Now().Add(unknown)}
	if u, err := ByID(ctx, uid); err == nil {
		f = found{u.Username, time.Now().Add(kept)}
	}
	if ctx.Err() != nil && f.name == "" {
		return "" // who asked has gone: that says nothing of the user
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.have == nil {
		n.have = map[int]found{}
	}
	n.have[uid] = f
	return f.name
}
