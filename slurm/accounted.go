package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Accounted is what slurmdbd has on record of a job, of its last attempt.
type Accounted struct {
	ID           string // as sacct writes it: "7", "4_3" a task of an array, "9+1" a part of a heterogeneous job
	Submitted    time.Time
	Ended        time.Time // zero: it has not, or that has not come to slurmdbd
	AdminComment string
}

// errAccounts is of an answer of sacct that is not understood.
var errAccounts = errors.New("sacct's answer is not in our format")

// Accounted reads what slurmdbd has on record of jobs; one that it does not know is left out.
// Without slurmdbd it is an error. Sibling clusters of a federation have jobs of their own.
func (c *Client) Accounted(ctx context.Context, jobs []uint32) (map[uint32]Accounted, error) {
	ids := make([]string, len(jobs))
	for i, id := range jobs {
		ids[i] = decimal(id)
	}
	mark := c.mark()
	out, err := c.run(ctx, "sacct", "--local", "--allusers", "--allocations", "--noheader", "--parsable2", "--delimiter="+mark,
		"--format=JobIDRaw,JobID,Submit,End,AdminComment", "--jobs="+strings.Join(ids, ","))
	if err != nil {
		return nil, fmt.Errorf("reading slurmdbd's records of %d jobs: %w", len(jobs), err)
	}
	all := map[uint32]Accounted{}
	var id uint32
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Split(line, mark)
		var a Accounted
		switch {
		case len(fields) == 1 && id != 0: // of a comment that has several lines
			a = all[id]
			a.AdminComment += "\n" + line
		case len(fields) != 5:
			return nil, fmt.Errorf("%w: %.80q", errAccounts, line)
		default:
			a.ID = fields[1]
			err := errors.Join(parseID(fields[0], &id), parseTime(fields[2], &a.Submitted), parseTime(fields[3], &a.Ended))
			if err != nil || id == 0 || a.ID == "" {
				return nil, fmt.Errorf("%w: %.80q", errAccounts, line)
			}
			a.AdminComment = unset(fields[4])
		}
		all[id] = a
	}
	return all, nil
}

// CommentAccounted sets the AdminComment of the last attempt of a job that slurmdbd has on
// record, by its Accounted.ID: its number alone means a whole array, or all parts of a
// heterogeneous job, where it is theirs too. sacctmgr of Slurm 22.05 makes all letters small
// (not from 23.02 on), and backquotes of quotes.
func (c *Client) CommentAccounted(ctx context.Context, job, text string) error {
	_, err := c.run(ctx, "sacctmgr", "--immediate", "modify", "job", "where", "jobid="+job, "set", "AdminComment="+printable(text))
	if err != nil {
		return fmt.Errorf("setting the comment of job %s in slurmdbd: %w", job, err)
	}
	return nil
}

// AccountParents are the accounts that slurmdbd has, as it writes them, each with its parents: one on each
// cluster, of which those that are the same are one, and none of the root. Without a slurmdbd that is an error.
func (c *Client) AccountParents(ctx context.Context) (map[string][]string, error) {
	out, err := c.run(ctx, "sacctmgr", "--noheader", "--parsable2", "list", "account", "withassoc", "format=account,parentname")
	if err != nil {
		return nil, fmt.Errorf("listing accounts: %w", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		name, parent, _ := strings.Cut(strings.TrimSpace(line), "|")
		if name == "" {
			continue
		}
		parents := all[name]
		if parent != "" && !slices.Contains(parents, parent) { // the lines of its users have none
			parents = append(parents, parent)
		}
		all[name] = parents
	}
	return all, nil
}
