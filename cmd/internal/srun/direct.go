package srun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/slurm/step"
)

// markName is in the environment of a protected step: a burst-srun within it, by
// PATH, is srun and no more.
const markName = "BURST_STEP"

// loopName holds the process id that this program has already been replaced under:
// what it found as srun leads back to it.
const loopName = "BURST_SRUN_PID"

// findSrun is the real srun: BURST_SRUN, or the first on PATH that is not this
// program.
func findSrun(env func(string) string) (string, error) {
	if env(loopName) == strconv.Itoa(os.Getpid()) {
		return "", errors.New("what is srun on PATH leads back to burst-srun: set BURST_SRUN to the path of Slurm's")
	}
	if path := env("BURST_SRUN"); path != "" {
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("BURST_SRUN=%s is no absolute path", path)
		}
		return path, nil
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	return step.FindSrun(env("PATH"), self)
}

// become replaces this process by srun, or another program.
func (p *program) become(path string, line, environ []string) error {
	if p.tests.become != nil {
		return p.tests.become(line)
	}
	environ = append(without(environ, loopName), loopName+"="+strconv.Itoa(os.Getpid()))
	err := syscall.Exec(path, line, environ)
	return fmt.Errorf("running %s: %w", path, err)
}

func without(environ []string, name string) []string {
	var left []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, name+"=") {
			left = append(left, kv)
		}
	}
	return left
}

// What a burst-srun leaves for the next ones of the same attempt of its job, on
// this host.
const (
	saidPlain     = "said-"     // the user has been told that the job is not protected; the reason's sum follows
	saidUnheard   = "unheard"   // … that it is not protected against evictions
	saidAppend    = "append"    // … that its output will be overwritten
	saidWait      = "wait"      // … that BURST_WAIT is no time
	saidUnread    = "unread"    // … that the job's comment is not known
	saidAdopted   = "adopted"   // … that a method is used which nobody asks for any more
	saidElsewhere = "elsewhere" // … that checkpoints stay in another folder
	lastWord      = "word"      // what burstd has said
	isAway        = "away"      // burstd did not answer
	hasSwept      = "swept"     // what jobs left that have ended is deleted
	isPlainJob    = "plain"     // the job asks for nothing: Slurm need not be asked again
)

// oldSign is after how long a sign is deleted.
const oldSign = 7 * 24 * time.Hour

// signs is the folder of such signs, this user's own below the folder temp; nil if
// there can be none.
func signs(temp string) *os.Root {
	dir := filepath.Join(temp, fmt.Sprintf("burst-srun-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil
	}
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() {
		return nil
	}
	if s, ok := st.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Getuid() || st.Mode().Perm()&0o022 != 0 {
		return nil // another user's, or writable to others
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	return root
}

func signOf(j step.Job, what string) string {
	return fmt.Sprintf("%s.%d.%d.%s", j.Folder(), j.Attempt, j.Shell, what)
}

// leave leaves a sign, and says whether it is the first. If that cannot be found
// out it is.
func leave(temp string, j step.Job, what string) bool {
	root := signs(temp)
	if root == nil {
		return true
	}
	defer root.Close()
	f, err := root.OpenFile(signOf(j, what), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return !errors.Is(err, os.ErrExist)
	}
	f.Close()
	entries, err := os.ReadDir(root.Name())
	if err != nil {
		return true
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > oldSign {
			_ = root.Remove(e.Name()) // the next one tries again
		}
	}
	return true
}

// left says whether a sign has been left, after the time.
func left(temp string, j step.Job, what string, after time.Time) bool {
	root := signs(temp)
	if root == nil {
		return false
	}
	defer root.Close()
	st, err := root.Lstat(signOf(j, what))
	return err == nil && st.ModTime().After(after)
}

// renew leaves a sign, or leaves it anew.
func renew(temp string, j step.Job, what string) {
	leave(temp, j, what)
	if root := signs(temp); root != nil {
		defer root.Close()
		now := time.Now()
		_ = root.Chtimes(signOf(j, what), now, now) // an old one: others wait once more
	}
}

// remove takes a sign back.
func remove(temp string, j step.Job, what string) {
	if root := signs(temp); root != nil {
		defer root.Close()
		_ = root.Remove(signOf(j, what)) // it need not be there
	}
}

// writeSign leaves a sign with a text. What cannot be left is not missed: the next one finds
// out again what it says.
func writeSign(temp string, j step.Job, what string, text []byte) {
	root := signs(temp)
	if root == nil {
		return
	}
	defer root.Close()
	name := signOf(j, what)
	part := fmt.Sprintf("%s-%d", name, os.Getpid())
	err := root.WriteFile(part, text, 0o600)
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		_ = root.Remove(part) // an old one is deleted some day
	}
}

// readSign is the text of a sign; false: there is none.
func readSign(temp string, j step.Job, what string) (text []byte, ok bool) {
	root := signs(temp)
	if root == nil {
		return nil, false
	}
	defer root.Close()
	text, err := root.ReadFile(signOf(j, what))
	return text, err == nil
}
