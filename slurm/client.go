package slurm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrNoJob says that Slurm does not know the job, or no longer.
	ErrNoJob = errors.New("no such job")
	// ErrNoNode says that Slurm does not know a node.
	ErrNoNode = errors.New("no such node")
	// ErrNotPending says that a change which only a pending job takes came too late.
	ErrNotPending = errors.New("job is no longer pending")
)

// Client talks to one Slurm controller. Its methods may be called
// concurrently; every one runs at least one command.
type Client struct {
	runner Runner
	mark   func() string // a new mark for each reading of jobs
}

// New returns a client that runs its commands with r.
func New(r Runner) *Client {
	// A digit first would be read as a field's width.
	return &Client{runner: r, mark: func() string { return "m" + rand.Text()[:16] }}
}

// Ping asks whether a controller, primary or backup, answers.
func (c *Client) Ping(ctx context.Context) error {
	out, errOut, err := c.runner.Run(ctx, "scontrol", "ping")
	if bytes.Contains(out, []byte(" is UP")) {
		return nil
	}
	if err == nil || exited(err) {
		return fmt.Errorf("slurmctld does not answer: %s", oneLine(append(out, errOut...)))
	}
	return fmt.Errorf("scontrol ping: %w", err)
}

// Snapshot reads all nodes and all jobs. Slurm that shows no node at all is
// taken for one that lost its state: that is an error, never a Snapshot.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{Taken: time.Now(), Nodes: map[string]Node{}, Jobs: map[uint32]Job{}}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, errors.New("reading nodes: Slurm shows none")
	}
	jobs, err := c.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		s.Nodes[n.Name] = n
	}
	for _, j := range jobs {
		s.Jobs[j.ID] = j
	}
	return s, nil
}

// Nodes reads the named nodes, or all when none is named. A name that Slurm
// does not know is ErrNoNode.
func (c *Client) Nodes(ctx context.Context, names ...string) ([]Node, error) {
	if len(names) == 0 {
		return c.readNodes(ctx, "")
	}
	var nodes []Node
	lists, err := cut(NodeUpdate{Nodes: names})
	if err != nil {
		return nil, err
	}
	for _, l := range lists {
		part, err := c.readNodes(ctx, strings.Join(l.Nodes, ","))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, part...)
	}
	return nodes, nil
}

func (c *Client) readNodes(ctx context.Context, list string) ([]Node, error) {
	args := []string{"-o", "show", "nodes"}
	if list != "" {
		args = append(args, list)
	}
	out, err := c.run(ctx, "scontrol", args...)
	if err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	nodes, err := parseNodes(out)
	if err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	return nodes, nil
}

// Jobs reads all jobs, finished ones for as long as slurmctld keeps them (MinJobAge).
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	jobs, err := c.readJobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading jobs: %w", err)
	}
	return jobs, nil
}

// Job reads one job; ErrNoJob when Slurm does not know it.
func (c *Client) Job(ctx context.Context, id uint32) (Job, error) {
	jobs, err := c.JobsOf(ctx, id)
	if err != nil {
		return Job{}, err
	}
	for _, j := range jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return Job{}, fmt.Errorf("reading job %d: %w", id, ErrNoJob)
}

// JobsOf reads one job; of an array's or a heterogeneous job's first id also the
// others. There are none when Slurm does not know it.
func (c *Client) JobsOf(ctx context.Context, id uint32) ([]Job, error) {
	jobs, err := c.readJobs(ctx, "-j", decimal(id))
	if errors.Is(err, ErrNoJob) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading job %d: %w", id, err)
	}
	return jobs, nil
}

func (c *Client) readJobs(ctx context.Context, filter ...string) ([]Job, error) {
	mark := c.mark()
	args := append([]string{"-h", "-a", "--local", "-t", "all", "-O", jobFormat(mark)}, filter...)
	out, err := c.run(ctx, "squeue", args...)
	if err != nil {
		return nil, err
	}
	return parseJobs(out, mark)
}

// BatchScript returns the job's script; ErrNoJob also for a job without one.
func (c *Client) BatchScript(ctx context.Context, id uint32) (string, error) {
	out, err := c.run(ctx, "scontrol", "write", "batch_script", decimal(id), "-")
	if err != nil {
		return "", fmt.Errorf("reading the script of job %d: %w", id, err)
	}
	return string(out), nil
}

// Version is what the installed scontrol says of itself, "slurm-wlm 24.11.5"; slurmctld is not asked.
func (c *Client) Version(ctx context.Context) (string, error) {
	out, err := c.run(ctx, "scontrol", "-V")
	if err != nil {
		return "", fmt.Errorf("reading Slurm's version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// ShowConfig returns slurmctld's configuration; what is not set is "".
func (c *Client) ShowConfig(ctx context.Context) (map[string]string, error) {
	out, err := c.run(ctx, "scontrol", "show", "config")
	if err != nil {
		return nil, fmt.Errorf("reading Slurm's configuration: %w", err)
	}
	return parseConfig(out), nil
}

// ShowPartitions returns the partitions, each as the keys and values of
// `scontrol -o show partitions` (PartitionName, Nodes, SuspendTime, …); what is
// not set is "".
func (c *Client) ShowPartitions(ctx context.Context) ([]map[string]string, error) {
	out, err := c.run(ctx, "scontrol", "-o", "show", "partitions")
	if err != nil {
		return nil, fmt.Errorf("reading partitions: %w", err)
	}
	return parsePartitions(out), nil
}

// run runs one command and reads its stderr: some of Slurm's commands fail
// with exit code 0.
func (c *Client) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, errOut, err := c.runner.Run(ctx, name, args...)
	switch {
	case err != nil && !exited(err):
		return nil, fmt.Errorf("%s: %w", name, err)
	case err != nil:
		return nil, refusal(name, errOut, err)
	}
	if complaint := complaints(name, errOut); len(complaint) > 0 {
		return nil, refusal(name, complaint, nil)
	}
	return out, nil
}

// complaints are the lines of stderr that say why the request failed. Lines
// that begin with the command's name are its log, which also holds warnings.
func complaints(name string, errOut []byte) []byte {
	var lines []byte
	for line := range bytes.Lines(errOut) {
		if len(bytes.TrimSpace(line)) > 0 && !bytes.HasPrefix(line, []byte(name+": ")) {
			lines = append(lines, line...)
		}
	}
	return lines
}

// refusal makes an error of what a command printed. Slurm's commands have no
// error codes: their words are all there is to tell the cases apart.
func refusal(name string, errOut []byte, err error) error {
	text := Word(errOut)
	if text == "" && err != nil {
		text = err.Error()
	}
	kind := error(nil)
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(lower, "resource temporarily unavailable"): // of one of several, perhaps
		kind = errAgain
	case strings.Contains(lower, "invalid job id"):
		kind = ErrNoJob
	case strings.Contains(lower, "no longer pending"), strings.Contains(lower, "already finished"):
		kind = ErrNotPending
	case strings.Contains(lower, "job is pending execution"):
		kind = errPending
	case strings.Contains(lower, "invalid node name"), strings.HasPrefix(lower, "node ") && strings.Contains(lower, " not found"):
		kind = ErrNoNode
	case strings.Contains(lower, "invalid node state"):
		kind = errNodeState
	case strings.Contains(lower, "requested reservation is invalid"):
		kind = errNoReservation
	case strings.Contains(lower, "duplicate reservation name"):
		kind = errReserved
	}
	if kind != nil {
		return fmt.Errorf("%s: %w (%s)", name, kind, text)
	}
	for _, away := range []string{"unable to contact", "timed out", "zero bytes", "connection refused", "communication", "connection reset"} {
		if strings.Contains(lower, away) {
			return fmt.Errorf("%s: %s", name, text) // it may have been done
		}
	}
	return refusedError(name + ": " + text)
}

// refusedError are a command's words for what slurmctld has not done.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// Refused says whether Slurm has answered, and refused to do what was asked, for a reason that
// has no error of its own here.
func Refused(err error) bool {
	var refused refusedError
	return errors.As(err, &refused)
}

// oneLine folds what a command printed into one line of at most 500 bytes.
func oneLine(b []byte) string {
	const most = 500
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "?")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// Word is what a command of Slurm's says on stderr of why it ended, in one line: what was fatal, where it says that.
func Word(errOut []byte) string {
	const fatal = ": fatal: "
	for line := range bytes.Lines(errOut) {
		if _, why, ok := bytes.Cut(line, []byte(fatal)); ok {
			return oneLine(why)
		}
	}
	return oneLine(errOut)
}

func decimal(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
