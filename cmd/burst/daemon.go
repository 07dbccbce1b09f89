package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

// dial makes a client of the burstd that the configuration names. Users may
// not be allowed to read it: then burstd is looked for where it is by default.
func dial(cmd *cobra.Command) (*api.Client, error) {
	flag := configFlag(cmd)
	cfg, err := endpoint.Load(endpoint.Path(flag))
	denied := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
	if err != nil && (flag != "" || !denied) {
		return nil, cli.UsageError(err, "see burst check")
	}
	return api.NewClient(cfg.Socket), nil
}

// explain adds what to do next to an error of the client.
func explain(err error) error {
	var refused *api.Error
	switch {
	case errors.Is(err, api.ErrAway) && errors.Is(err, fs.ErrPermission):
		return cli.WithHint(err, "the folders above the socket must let users pass")
	case errors.Is(err, api.ErrAway):
		return cli.WithHint(err, "does it run on this host, and with this configuration? systemctl status burstd; journalctl -u burstd")
	case errors.As(err, &refused) && refused.Status >= 500:
		return cli.WithHint(err, "journalctl -u burstd")
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// writeTable lines up the cells of rows in columns.
func writeTable(w io.Writer, rows [][]string) error {
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		for i, cell := range r {
			r[i] = printable(cell)
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	t.Flush() // into memory: neither this nor the printing fails
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

// printable replaces what could steer a terminal: names and reasons may come
// from users.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// stamp is a time in the reader's zone, "-" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
