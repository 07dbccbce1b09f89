package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds"
)

// Finding is one thing that a check has looked at.
type Finding struct {
	What string `json:"what"`
	Text string `json:"text"`
	OK   bool   `json:"ok"`
}

// ErrCheck: something that the agent needs does not work.
var ErrCheck = errors.New("something that burst-agent needs does not work")

// Check looks once at all that the agent needs, and sends each burstd a beat.
// It tells burstd of no notice: the running agent does. It is ErrCheck if
// anything is wrong; of several burstds, one that answers is enough.
func Check(ctx context.Context, c Config) ([]Finding, error) {
	a := newAgent(c)
	var all []Finding
	bad := false
	add := func(what, text string, err error) {
		if err != nil {
			text, bad = strings.ReplaceAll(err.Error(), "\n", "; "), true
		}
		all = append(all, Finding{what, text, err == nil})
	}
	var err error
	a.instance, err = a.IMDS.InstanceID(ctx)
	add("instance", a.instance, err)
	if err == nil {
		for i, n := range a.announced(ctx) {
			add(string(imds.Topics()[i].Kind), n.text, n.err)
		}
	}
	_, merr := a.Munge.Encode(ctx, []byte("burst-agent"))
	add("munge", "makes credentials", merr)
	serr := a.starts.look(time.Now())
	text := "does not run"
	if times, up := a.starts.within(time.Now()); up {
		text = fmt.Sprintf("runs; %d starts within the hour", len(times))
	}
	add("slurmd", text, serr)
	full, uerr := used(a.spool())
	add("spool", fmt.Sprintf("%s: %.1f%% used", a.spool(), full), uerr)
	if err == nil && merr == nil && serr == nil {
		heard := false
		for _, f := range a.reach(ctx) {
			all = append(all, f)
			heard = heard || f.OK
		}
		bad = bad || !heard
	}
	if bad {
		return all, ErrCheck
	}
	return all, nil
}

// said is what the service announces of one topic.
type said struct {
	text string
	err  error
}

// announced asks for all topics at the same time: each may hang.
func (a *Agent) announced(ctx context.Context) []said {
	topics := imds.Topics()
	all := make([]said, len(topics))
	var wg sync.WaitGroup
	for i, topic := range topics {
		wg.Go(func() {
			notices, err := a.IMDS.Notices(ctx, topic)
			all[i] = said{describe(notices), err}
		})
	}
	wg.Wait()
	return all
}

func describe(all []cloud.Notice) string {
	if len(all) == 0 {
		return "nothing is announced"
	}
	var words []string
	for _, n := range all {
		text := strings.TrimSpace(n.Action + " " + n.Event)
		if !n.Deadline.IsZero() {
			text += " at " + n.Deadline.Format(time.RFC3339)
		}
		if n.Cancelled {
			text += " (off)"
		}
		words = append(words, strings.TrimSpace(text))
	}
	if text := strings.Join(words, ", "); text != "" {
		return text
	}
	return "announced"
}

// reach sends every burstd a beat.
func (a *Agent) reach(ctx context.Context) []Finding {
	spool := newTally(a.Log, "spool")
	urls := a.burstd.urls
	all := make([]Finding, len(urls))
	for i, url := range urls {
		a.burstd.urls = []string{url}
		a.burstd.first.Store(0)
		every, err := a.beat(ctx, spool)
		all[i] = Finding{"burstd", fmt.Sprintf("%s answers; it wants to hear every %g s", url, every), err == nil}
		if err != nil {
			all[i].Text = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	}
	a.burstd.urls = urls
	return all
}

// Print writes findings for an admin.
func Print(w io.Writer, all []Finding) error {
	for _, f := range all {
		mark := "ok "
		if !f.OK {
			mark = "BAD"
		}
		if _, err := fmt.Fprintf(w, "%s  %-18s %s\n", mark, f.What, f.Text); err != nil {
			return err
		}
	}
	return nil
}
