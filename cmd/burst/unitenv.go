package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/hostcheck"
	"github.com/burst-hpc/burst/cmd/internal/passwd"
)

// identity are the variables that say who one is to AWS. They go together: one of the caller's beside others of
// burstd's would be neither's credentials.
var identity = []string{
	"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY",
	"AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
}

// borrowed is what a command has of the environment of burstd's unit.
type borrowed struct {
	asked bool     // systemd knows the unit
	user  string   // as whom it runs burstd
	may   bool     // we are root, or that user
	taken []string // variables
	kept  []string // that are set here, and keep taking others away
	lacks []string // which these are
	shape string   // NAME=VALUE of what the file's providers need
}

// borrow sets, for this process, what burstd's unit sets for the clouds and the caller does not, and says on w what it
// was: the credentials and the proxy of a site are in a drop-in of burstd's, which root's shell knows nothing of.
func borrow(ctx context.Context, h *hostcheck.Host, w io.Writer) borrowed {
	e, asked := h.Environment(ctx)
	b := borrowed{asked: asked, user: e.User}
	if !asked {
		return b
	}
	uid := os.Geteuid()
	if b.may = uid == 0; !b.may {
		u, err := passwd.ByName(ctx, e.User)
		b.may = err == nil && u.Uid == strconv.Itoa(uid)
	}
	if !b.may {
		return b
	}
	for _, err := range e.Unread {
		fmt.Fprintf(w, "burst: warning: %s\n", printable(err.Error()))
	}
	b.kept = slices.DeleteFunc(slices.Clone(identity), func(name string) bool { return os.Getenv(name) == "" })
	from := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(e.Values)) {
		v := e.Values[name]
		switch {
		case v.Value == "" || !ofClouds(name) || isSet(name):
		case slices.Contains(identity, name) && len(b.kept) > 0:
			b.lacks = append(b.lacks, name)
		case os.Setenv(name, v.Value) == nil:
			b.taken, from[v.From] = append(b.taken, name), true
		}
	}
	if len(b.taken) > 0 { // never a value: it may be a secret
		fmt.Fprintf(w, "burst: taken from burstd's environment (%s), as it is not set here: %s\n",
			printable(strings.Join(slices.Sorted(maps.Keys(from)), ", ")), strings.Join(b.taken, ", "))
	}
	return b
}

// ofClouds says whether a provider heeds the variable.
func ofClouds(name string) bool {
	return strings.HasPrefix(name, "AWS_") || name == "VULTR_API_KEY" || isProxy(name)
}

func isProxy(name string) bool { return strings.HasSuffix(strings.ToUpper(name), "_PROXY") }

// isSet says whether the caller has set the variable. A proxy is heeded in both spellings.
func isSet(name string) bool {
	if isProxy(name) {
		return os.Getenv(strings.ToUpper(name)) != "" || os.Getenv(strings.ToLower(name)) != ""
	}
	return os.Getenv(name) != ""
}

// hint says what to do where a cloud does not take this command for burstd, or is not reached.
func (b borrowed) hint() string {
	same := filepath.Base(os.Args[0]) + " " + printable(strings.Join(os.Args[1:], " "))
	again := fmt.Sprintf("env %sHTTPS_PROXY=URL %s", b.shape, same)
	switch {
	case !b.asked:
		return "systemd does not say here what burstd's unit sets: give the command the same variables, as in " + again
	case !b.may:
		return fmt.Sprintf("run it as root or %s, who are given what burstd's unit sets for the clouds; or give your own: %s", printable(b.user), again)
	case len(b.lacks) > 0:
		return fmt.Sprintf("%s is set here, so that %s of burstd's unit is not taken: unset it, or give credentials that do: %s",
			strings.Join(b.kept, ", "), strings.Join(b.lacks, ", "), again)
	case slices.ContainsFunc(b.taken, func(name string) bool { return name == "VULTR_API_KEY" || slices.Contains(identity, name) }):
		return fmt.Sprintf("these are burstd's own credentials and proxy (%s); others go before the command: %s", strings.Join(b.taken, ", "), again)
	}
	return fmt.Sprintf("burstd's unit sets no credentials that are not set here: if burstd has its own in its home, sudo -H -u %s %s; or give others: %s", printable(b.user), same, again)
}

// needsOf is what a command's environment must say for the providers, ready for what follows it.
func needsOf(cfg *config.Config) (shape string) {
	for _, p := range cfg.Providers {
		need := ""
		switch {
		case p.Kind == "aws":
			need = "AWS_CONFIG_FILE=FILE AWS_SHARED_CREDENTIALS_FILE=FILE "
		case p.Kind == "vultr" && p.Vultr.KeyFile == "":
			need = `VULTR_API_KEY="$(cat FILE)" `
		}
		if !strings.Contains(shape, need) {
			shape += need
		}
	}
	return shape
}

// explain adds what to do to a cloud's word that it does not take our credentials.
func (o *opened) explain(err error) error {
	if err == nil || cloud.KindOf(err) != cloud.Auth {
		return err
	}
	return cli.WithHint(err, "%s", o.hint())
}
