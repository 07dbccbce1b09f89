package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// maxInput bounds what hostlist reads, in bytes: the most names of the
// greatest length that a list may hold, and their line ends.
const maxInput = 256 << 20

type hostlistOptions struct {
	args []string
	json bool
}

func hostlistCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hostlist expand|fold|sort [HOSTLIST...]",
		Short: "Expand, fold or sort lists of node names, as Slurm writes them",
		Long: "Expand, fold or sort lists of node names, as `scontrol show hostnames`, `hostlist` and `hostlistsorted` do,\n" +
			"without a slurm.conf. Lists come as arguments or, without any, from standard input: names and lists separated by\n" +
			"commas, blanks or line ends. Unlike scontrol, a broken list such as n[1-2 is an error.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage or a broken list.",
		Example: "  burst hostlist expand 'c[08-10],gpu1'       # c08 c09 c10 gpu1, one a line\n" +
			"  burst hostlist fold c3 c1 c2                # c[3,1-2]\n" +
			"  sinfo -Nho %N | sort -u | burst hostlist sort   # the whole cluster in one line\n" +
			"  burst hostlist expand --json \"$SLURM_JOB_NODELIST\"",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UsageError(fmt.Errorf("hostlist has no command %q", args[0]), "it has expand, fold and sort: see burst hostlist --help")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(errors.New("hostlist needs a command"), "expand, fold or sort: see burst hostlist --help")
		},
	}
	cmd.AddCommand(
		hostlistVerb("expand", "Print the names that lists stand for, one a line", printNames),
		hostlistVerb("fold", "Print names as one list, in their order and with their duplicates", printList),
		hostlistVerb("sort", "Print names as one sorted list, with their duplicates",
			func(w io.Writer, l hostlist.List, json bool) error { return printList(w, l.Sorted(), json) }),
	)
	return cmd
}

// hostlistVerb is one of the commands below hostlist; print writes the result.
func hostlistVerb(name, short string, print func(w io.Writer, l hostlist.List, json bool) error) *cobra.Command {
	var o hostlistOptions
	cmd := &cobra.Command{
		Use:   name + " [HOSTLIST...]",
		Short: short,
		Long:  short + ".\nLists come as arguments or, without any, from standard input.\n\nExit codes: 0 done, 1 failed, 2 wrong usage or a broken list.",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args
			l, err := readList(cmd.InOrStdin(), o)
			if err != nil {
				return err
			}
			return print(cmd.OutOrStdout(), l, o.json)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func readList(in io.Reader, o hostlistOptions) (hostlist.List, error) {
	text := strings.Join(o.args, ",")
	if len(o.args) == 0 {
		b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
		if err != nil {
			return hostlist.List{}, fmt.Errorf("reading names from standard input: %w", err)
		}
		if len(b) > maxInput {
			return hostlist.List{}, fmt.Errorf("reading names from standard input: more than %d MiB", maxInput>>20)
		}
		text = string(b)
	}
	l, err := hostlist.Parse(text)
	if err != nil {
		return hostlist.List{}, cli.UsageError(err, "a list looks like c[01-10,12],gpu1; quote it, the shell reads brackets too")
	}
	return l, nil
}

func printNames(w io.Writer, l hostlist.List, json bool) error {
	names := l.Names()
	if json {
		return writeJSON(w, append([]string{}, names...)) // [] and not null
	}
	buf := bufio.NewWriter(w)
	for _, n := range names {
		buf.WriteString(n) // Flush has the error
		buf.WriteByte('\n')
	}
	return buf.Flush()
}

// foldedList is the output of fold --json and sort --json.
type foldedList struct {
	Hostlist string `json:"hostlist"`
	Names    int    `json:"names"` // how many
}

func printList(w io.Writer, l hostlist.List, json bool) error {
	if json {
		return writeJSON(w, foldedList{l.String(), l.Len()})
	}
	_, err := fmt.Fprintln(w, l)
	return err
}
