package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
)

// stopped is what burst stop-all --json prints.
type stopped struct {
	Cluster   string            `json:"cluster"`
	Burstd    string            `json:"burstd"` // what it was told, or why not
	Providers []stoppedProvider `json:"providers"`
	Unwatched []string          `json:"unwatched,omitempty"` // what burstd's journal has of providers that are not in burst.toml
}

type stoppedProvider struct {
	Provider string           `json:"provider"`
	Ended    int              `json:"ended"`
	Left     []cloud.Instance `json:"left"`
	Unknown  bool             `json:"unknown,omitempty"` // whether more is left
	Error    string           `json:"error,omitempty"`
}

// tell says what became of the instances; it is an error if any is left.
func (b *button) tell(said string, results []stopall.Result, interrupted error) error {
	out := stopped{Cluster: b.cluster, Burstd: said, Providers: []stoppedProvider{}}
	ended, left := 0, 0
	var unknown []string // providers of which it is not known whether any is left
	rows := [][]string{{"PROVIDER", "LEFT", "POOL", "STATE", "NODE"}}
	for _, r := range results {
		p := stoppedProvider{Provider: r.Provider, Ended: r.Ended, Left: append([]cloud.Instance{}, r.Left...)}
		if r.Err != nil {
			p.Error = r.Err.Error()
			text := "provider " + r.Provider
			if p.Unknown = len(r.Left) == 0; p.Unknown {
				unknown = append(unknown, r.Provider)
				text += " could not be asked to the end: what it has lives on"
				if r.Ended == 0 {
					text = fmt.Sprintf("provider %s could not be asked: its instances live on", r.Provider)
				}
			}
			if !errors.Is(r.Err, context.Canceled) && b.failed[r.Provider] == nil { // that it was interrupted the error says; what failed to open is told
				fmt.Fprintf(b.err, "burst: warning: %s: %s\n", text, printable(p.Error))
			}
		}
		ended, left = ended+r.Ended, left+len(r.Left)
		for _, i := range r.Left {
			rows = append(rows, []string{r.Provider, i.ID, orDash(i.Pool), string(i.State), orDash(i.Node)})
		}
		out.Providers = append(out.Providers, p)
	}
	for _, name := range slices.Sorted(maps.Keys(b.left)) {
		out.Unwatched = append(out.Unwatched, b.left[name])
		fmt.Fprintf(b.err, "burst: warning: %s\n", printable(b.left[name]))
	}
	var err error
	if b.json {
		err = writeJSON(b.out, out)
	} else {
		if left > 0 {
			err = writeTable(b.out, rows)
		}
		said := fmt.Sprintf("%d instances are gone.", ended)
		switch {
		case interrupted == nil && ended == 0 && len(unknown) > 0 && len(unknown) == len(results):
			said = "No instance is gone: no provider could be asked."
		case len(unknown) > 0:
			said = fmt.Sprintf("%d instances are gone; of provider %s it is not known whether any is left.", ended, strings.Join(unknown, ", "))
		}
		if err == nil {
			_, err = fmt.Fprintln(b.out, said)
		}
	}
	if err != nil {
		return err
	}
	var wrong []string
	if left > 0 {
		wrong = append(wrong, fmt.Sprintf("%d instances live, as far as is known", left))
	}
	if len(unknown) > 0 {
		wrong = append(wrong, fmt.Sprintf("of %d providers it is not known whether any is left", len(unknown)))
	}
	if len(b.left) > 0 && b.provider == "" && b.pool == "" { // else it was not meant, as far as is known
		wrong = append(wrong, fmt.Sprintf("of %d providers that are not in burst.toml nothing was ended", len(b.left)))
	}
	if len(wrong) == 0 {
		return nil
	}
	if interrupted != nil {
		wrong = append([]string{"interrupted"}, wrong...)
	}
	hint := "the same command again goes on; the cloud's console ends what Burst may not"
	helps := ""
	if b.open != nil {
		helps = b.open.hint()
	}
	switch {
	case helps == "" || interrupted != nil:
	case slices.ContainsFunc(results, func(r stopall.Result) bool {
		return b.failed[r.Provider] != nil || r.Err != nil && cloud.KindOf(r.Err) == cloud.Auth
	}):
		hint = helps // as it is, the same command never goes on
	case len(unknown) > 0: // perhaps for want of burstd's proxy
		hint = "the same command again goes on when they answer; if they never do: " + helps
	}
	return cli.WithHint(errors.New(strings.Join(wrong, "; ")), "%s", hint)
}
