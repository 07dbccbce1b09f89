package srun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/step/container"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

var (
	errNoProgram = errors.New("no such program in the image")
	// errUnread: ranks may run what cannot be looked at.
	errUnread = errors.New("the program cannot be read")
)

// probePlace is where burst-srun is in a container that it looks around in. It needs
// nothing of the image: no shell, and no library.
const probePlace = "/.burst-srun"

// probeTime bounds a look into an image.
// An image on shared storage may be slow.
const probeTime = 5 * time.Minute

// answer is what a probe prints.
type answer struct {
	Found  mpi.Found
	Params map[string]string // of Open MPI's, which files of the image set, and the user's
	Fabric bool              // its ranks have the libfabric that ld.so finds
	UCX    bool              // its library sends by UCX
	Absent string            // why there is no such program
	Unread string            // why it cannot be read
}

// probe says which MPI a program has in the image. What was found is kept beside the
// image: a look costs a container. An error says that it is not known.
func (p *program) probe(ctx context.Context, in inside, program []string) (answer, error) {
	if in.tool.Path == "" {
		return answer{}, fmt.Errorf("%s: this host has no tool to look into it", in.image)
	}
	if len(program) == 0 || in.image.Key != "" && !in.cheap() {
		return answer{}, fmt.Errorf("%s is not on this host yet", in.image)
	}
	word := program[0]
	note := in.note(word, p)
	var a answer
	if !readNote(note, &a) {
		var err error
		if a, err = p.looked(ctx, in, word); err != nil {
			return answer{}, err
		}
		if note != "" && a.Absent == "" && a.Unread == "" && a.Found.Missing == "" {
			keepNote(note, a)
		}
	}
	switch {
	case a.Absent != "":
		return answer{}, fmt.Errorf("container %s: %w: %s", in.image, errNoProgram, a.Absent)
	case a.Unread != "":
		return answer{}, fmt.Errorf("%w: %s", errUnread, a.Unread)
	}
	return a, nil
}

// looked starts a container for a look.
func (p *program) looked(ctx context.Context, in inside, word string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return a, err
	}
	node := container.ThisNode("/")
	run := container.Run{Tool: in.tool, Image: in.path(), Dir: in.dir, Binds: in.binds, Program: []string{probePlace, probeWord, word}}
	line := slices.Insert(run.Line(node), 2, "--bind", self+":"+probePlace+":ro")
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = run.Environ(node, p.environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return a, fmt.Errorf("looking into %s by %s: %w: %.500s", in.image, in.tool.Name, err, strings.TrimSpace(said.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("looking into %s: %w: it printed %.200q", in.image, err, out.String())
	}
	return a, nil
}

// probed is the look, in the container.
func (p *program) probed(words []string) int {
	if len(words) != 1 {
		return p.wrong(fmt.Errorf("%s is not for users: see burst-srun --help", probeWord))
	}
	var a answer
	found, err := mpi.Detect("", words[0], p.env)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.Absent = err.Error()
	case err != nil:
		a.Unread = err.Error()
	}
	a.Found, a.Params = found, mpi.Params(found, p.env)
	a.Fabric, a.UCX = mpi.TakesFabric(found, p.env), mpi.OverUCX(found, p.env)
	if err := json.NewEncoder(p.stdout).Encode(a); err != nil {
		return p.failed(err)
	}
	return cli.OK
}

// note is the file that keeps what was found; "": nothing is kept. Its name says what the
// answer depends on: the program, which may be the host's in a folder that is bound, what
// the user has set for containers, and the user's own files for Open MPI.
func (in inside) note(word string, p *program) string {
	if in.image.Key == "" {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s\x00%s\x00", cli.Version, word, in.dir)
	files := mpi.OwnParams(p.env)
	if strings.Contains(word, "/") {
		files = append(files, word)
	}
	for _, file := range files {
		fmt.Fprintf(sum, "%s ", file)
		if st, err := os.Stat(absolute(in.dir, file)); err == nil {
			fmt.Fprintf(sum, "%d %d", st.Size(), st.ModTime().UnixNano())
		}
		fmt.Fprint(sum, "\x00")
	}
	for _, kv := range p.environ {
		if strings.HasPrefix(kv, "APPTAINER") || strings.HasPrefix(kv, "SINGULARITY") || strings.HasPrefix(kv, "LD_") {
			fmt.Fprintf(sum, "%s\x00", kv)
		}
	}
	return filepath.Join(in.cache.Dir, in.image.Key+"."+hex.EncodeToString(sum.Sum(nil))[:16]+".json")
}

// noteFor is how long an answer is kept: what is bound into the image may change.
const noteFor = 24 * time.Hour

// readNote reads what was found a short time ago.
func readNote(file string, a *answer) bool {
	st, err := os.Stat(file)
	if err != nil || time.Since(st.ModTime()) > noteFor {
		return false
	}
	text, err := os.ReadFile(file)
	return err == nil && json.Unmarshal(text, a) == nil
}

// keepNote writes what was found; if that fails the next one looks again.
func keepNote(file string, a answer) {
	text, err := json.Marshal(a)
	if err != nil {
		return
	}
	temp := fmt.Sprintf("%s.%d", file, os.Getpid())
	if os.WriteFile(temp, text, 0o600) != nil || os.Rename(temp, file) != nil {
		_ = os.Remove(temp)
	}
}
