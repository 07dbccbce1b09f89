package methods

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// dmtcpRoom are the folders of one start of a step.
type dmtcpRoom struct {
	work   string // on shared storage: log, port file, scripts
	images string // in work: where DMTCP writes images
	// temp, on this host, is DMTCP's for the processes of this host: a segment that
	// they share, their logs. Empty where they run on another one: there it is
	// DMTCP's own choice, /tmp/dmtcp-USER@HOST, whose files no two starts share.
	temp string
}

// newDMTCPRoom makes them; with temp where all processes run on this host.
func newDMTCPRoom(scratch string, temp bool) (dmtcpRoom, error) {
	work, err := os.MkdirTemp(scratch, "dmtcp-")
	if err != nil {
		return dmtcpRoom{}, fmt.Errorf("a folder for the coordinator: %w", err)
	}
	r := dmtcpRoom{work: work, images: filepath.Join(work, "images")}
	err = os.Mkdir(r.images, 0o700)
	if err == nil && temp {
		r.temp, err = os.MkdirTemp("", "burst-dmtcp-")
	}
	if err != nil {
		r.remove()
		return dmtcpRoom{}, err
	}
	return r, nil
}

// remove deletes all of it; what cannot be deleted is left to the attempt's end.
func (r dmtcpRoom) remove() {
	r.clear()
	os.RemoveAll(r.work)
}

// clear keeps what an admin may want to read of a step that has ended, the log.
func (r dmtcpRoom) clear() {
	os.RemoveAll(r.images)
	if r.temp != "" {
		os.RemoveAll(r.temp)
	}
}

// imagesOf are the absolute paths of a generation's images; none without one.
func imagesOf(g *ckpt.Generation) ([]string, error) {
	if g == nil {
		return nil, nil
	}
	dir, err := filepath.Abs(g.Dir)
	if err != nil {
		return nil, err
	}
	names, err := imageNames(dir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 || g.Ranks != 0 && g.Ranks != len(names) {
		return nil, fmt.Errorf("%s has %d images, and should have %d", dir, len(names), max(g.Ranks, 1))
	}
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
		if err := isWhole(names[i]); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// imageNames are the files of dir that are images, sorted.
func imageNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if isImage(e) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func isImage(e fs.DirEntry) bool {
	return e.Type().IsRegular() && strings.HasPrefix(e.Name(), "ckpt_") && strings.HasSuffix(e.Name(), ".dmtcp")
}

// imageMagic is what an image begins with.
const imageMagic = "DMTCP_CHECKPOINT_IMAGE"

// isWhole looks at an image's first bytes.
func isWhole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, len(imageMagic))
	if _, err := io.ReadFull(f, head); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(head) != imageMagic {
		return fmt.Errorf("%s is no image of DMTCP", path)
	} else if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// proved returns the names in the images' folder that belong to the checkpoint,
// and the number of images. They are those that the script names, all of them;
// others are of a checkpoint before that was late. With ranks each has its folder.
func (r dmtcpRoom) proved(scriptPath string, ranks int) (names []string, n int, err error) {
	text, err := os.ReadFile(scriptPath)
	if err != nil {
		return nil, 0, fmt.Errorf("the coordinator's restart script: %w", err)
	}
	script := string(text)
	if ranks > 0 {
		if n := parseProcesses(script); n != ranks {
			return nil, 0, fmt.Errorf("%d processes have written images, and the step has %d ranks", n, ranks)
		}
		return rankFolders(ranks), ranks, rankImages(r.images, ranks)
	}
	entries, err := os.ReadDir(r.images)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		image, half := strings.CutSuffix(e.Name(), ".temp")
		image = strings.TrimSuffix(strings.TrimSuffix(image, "_files"), ".dmtcp")
		switch {
		case !strings.Contains(script, "/"+image+".dmtcp"):
			continue
		case half:
			return nil, 0, fmt.Errorf("the image %s is not complete", e.Name())
		case isImage(e):
			if err := isWhole(filepath.Join(r.images, e.Name())); err != nil {
				return nil, 0, err
			}
			n++
		}
		names = append(names, e.Name())
	}
	if want := parseProcesses(script); n == 0 || n != want {
		return nil, 0, fmt.Errorf("%d images are there of %d processes", n, want)
	}
	return names, n, nil
}

// forget deletes images of processes that have ended since a checkpoint that was
// late; those of others are written over.
func (r dmtcpRoom) forget() {
	names, err := imageNames(r.images)
	if err != nil {
		return // they only take room
	}
	for _, name := range names {
		os.Remove(filepath.Join(r.images, name))
	}
}
