package srun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/directive"
)

// A later attempt must find what the earlier ones have left, though the site's word
// may be another now, or not to be had: else it would begin anew.

// past is what earlier attempts have left, as far as it is to be seen.
type past struct {
	dir   string   // the checkpoint directory; empty: none has anything of the job
	steps []string // what the step was there, or may have been; none: it has not begun before
	// settings are those that the step had there; none: it had none, or that is not known.
	settings []directive.Setting
}

// off says that the user's own word turns checkpoints off.
func (k known) off() bool {
	by := func(key string) bool { return k.own.From[key].Kind != directive.Default }
	return k.own.Method == directive.None && by("ckpt") || k.own.Strategy == directive.None && by("strategy")
}

// later says that there may be checkpoints, which are not to be passed over.
func (k known) later() bool { return k.job.Attempt > 0 && k.trial == nil && !k.off() }

// site is what the site says of the job. It may have asked for another method where the
// job ran before: its checkpoints need that.
func (k known) site() directive.Defaults {
	if k.adopted == nil {
		return k.word.Site
	}
	site := k.word.Site
	site.Layers = append([]directive.Layer{{Source: directive.Source{Kind: directive.Pool}, Settings: k.adopted}}, site.Layers...)
	return site
}

// unsure says why nobody here knows where the job's checkpoints are, or whether there
// are any; nil: it is known. ours says whether the cluster's nodes are of a burstd.
func (k known) unsure(ours func() error) error {
	asked := k.own.From["ckpt"].Kind != directive.Default || k.merged.Method != directive.None && k.merged.From["ckpt"].Kind == directive.Submitted
	switch {
	case !k.later() || k.heard || k.adopted != nil || !asked && (!k.burstd || k.siteNone):
		return nil
	case !asked:
		return fmt.Errorf("%s, and whether the site asks for checkpoints of this job, it alone knows", k.silent())
	case k.own.From["dir"].Kind != directive.Default || k.past.dir != "":
		return nil
	case k.burstd:
		return fmt.Errorf("%s, and in %s is nothing of an earlier attempt: burstd may know another folder", k.silent(), k.dir)
	}
	if err := ours(); err != nil {
		return fmt.Errorf("%w, and in %s is nothing of an earlier attempt: burstd may know another folder", err, k.dir)
	}
	return nil
}

// burstdIs says why there is a burstd somewhere that this node does not know; nil: the
// cluster has none.
func (p *program) burstdIs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	c, err := p.slurm().ShowConfig(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("whether there is a burstd is not known (%w)", err)
	case strings.Contains(c["ResumeProgram"], "burst-resume"):
		return errors.New("this node does not know where burstd is (BURST_URLS, " + agentEnv + ")")
	}
	return nil
}

// places are the checkpoint directories that earlier attempts may have used: the one
// that is asked for now first.
func (k known) places(n directive.Names) []string {
	dirs := []string{k.dir}
	if k.ownDir() {
		return dirs
	}
	add := func(dir string) {
		if dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	said := []string{onceDir}
	for _, l := range k.word.Site.Layers {
		if s, ok := l.Value("dir"); ok && directive.Check("dir", s.Value) == nil {
			said = append(said, s.Value)
		}
	}
	for _, dir := range said {
		if f := (directive.Directive{Dir: dir}).Folder(n); filepath.IsAbs(f) {
			add(f)
		}
	}
	for _, f := range k.word.Folders {
		add(f)
	}
	return dirs
}

// ownDir says that the directory is named for this step alone.
func (k known) ownDir() bool { return k.merged.From["dir"].Kind == directive.Option }

// find looks for the step, and else for the job, where they may be. Of what burstd
// has on record it also returns a directory without anything of the job.
func (k known) find(n directive.Names) (p past, unseen string, err error) {
	work, err := os.Getwd()
	if err != nil {
		return p, "", err
	}
	for _, dir := range k.places(n) {
		onRecord := slices.Contains(k.word.Folders, dir)
		r, there, err := k.book(dir).Peek()
		if err != nil && !onRecord && !k.named(dir) && k.isNoPlace(dir, err) {
			continue // no attempt of this user's can have been there
		}
		if err != nil {
			return p, "", err
		}
		if !there && onRecord && !k.ownDir() {
			unseen = dir
		}
		if p.dir == "" && (len(r.Steps) > 0 || there && onRecord) {
			p.dir = dir
		}
		if k.garbled != nil {
			for _, s := range r.Steps {
				if !s.Done { // else it would stand in the way of all that are not understood
					p.steps = append(p.steps, s.Name)
				}
			}
			continue
		}
		i, was := r.Claim(steprecord.Step{Args: k.call.Args, Program: programName(k.call), Dir: work}, k.once)
		if was.Name != "" {
			return past{dir, []string{r.Steps[i].Name}, was.Settings}, "", nil
		}
	}
	return p, unseen, nil
}

// named says that somebody has named the directory: it is not only Burst's default.
func (k known) named(dir string) bool {
	return dir == k.dir && k.merged.From["dir"].Kind != directive.Default
}

// isNoPlace says that nothing of the job's can be in a directory, where looking has
// failed: it is another user's, or it or the job's folder is none.
func (k known) isNoPlace(dir string, err error) bool {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	for _, path := range []string{dir, filepath.Join(dir, "job-"+k.job.Folder())} {
		if st, err := os.Lstat(path); err == nil && !st.IsDir() && st.Mode()&fs.ModeSymlink == 0 {
			return true
		}
	}
	return false
}

// patiently does what looks at checkpoints, and does it again for as long as a network
// file system has trouble that may be over soon.
func (p *program) patiently(ctx context.Context, k known, look func() error) error {
	said := false
	for end := time.Now().Add(k.wait); ; {
		err := look()
		if !errors.Is(err, syscall.ESTALE) && !errors.Is(err, syscall.EIO) || time.Now().After(end) {
			return err
		}
		if !said {
			p.say("the checkpoints cannot be looked at (%v): that is tried again for up to %v", err, k.wait)
			said = true
		}
		if !pause(ctx, seenLook) {
			return err
		}
	}
}

// seek finds what earlier attempts have left. A network file system may not show at
// once what another node has written: what burstd has on record is waited for.
func (p *program) seek(ctx context.Context, k known, n directive.Names) (past, error) {
	said := false
	for end := time.Now().Add(seenTime); ; {
		var found past
		var unseen string
		err := p.patiently(ctx, k, func() (err error) {
			found, unseen, err = k.find(n)
			return err
		})
		switch {
		case err != nil || unseen == "":
			return found, err
		case time.Now().After(end):
			return found, fmt.Errorf("checkpoints of job %s are on record in %s, and nothing of it is there: is the file system mounted here? The step is not begun anew for that; %s", k.job.Folder(), unseen, anew(k.job))
		case !said:
			p.say("checkpoints are on record in %s, and not to be seen on this node yet: they are waited for", unseen)
			said = true
		}
		if !pause(ctx, seenLook) {
			return found, context.Cause(ctx)
		}
	}
}

// onRecord is what burstd has on record of the step; zero: nothing. Steps with
// directories of their own may have the same number.
func (k known) onRecord(name string) ckpt.ID {
	b := k.word.Blessed[name]
	if b.Folder < 1 || b.Folder > len(k.word.Folders) {
		return b.ID
	}
	dir := k.word.Folders[b.Folder-1]
	if _, there, err := k.book(dir).Peek(); err == nil && there && !sameFile(dir, k.dir) {
		return ckpt.ID{}
	}
	return b.ID
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	as, aerr := os.Stat(a)
	bs, berr := os.Stat(b)
	return aerr == nil && berr == nil && os.SameFile(as, bs)
}
