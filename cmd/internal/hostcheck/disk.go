package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/slurm/conf"
)

// networks are file systems on which SQLite's journal is not safe, by their number in linux/magic.h
// or in their own sources.
var networks = map[uint32]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x0bd00bd0: "Lustre", 0x47504653: "Spectrum Scale",
	0x19830326: "BeeGFS", 0x5346414f: "AFS", 0x00c36400: "Ceph", 0x01021997: "9P", 0x65735546: "FUSE", 0x7461636f: "OCFS2", 0x01161970: "GFS2",
}

var memories = map[uint32]string{0x01021994: "tmpfs", 0x858458f6: "ramfs"}

const mib = 1 << 20

// place is a folder that must have room.
type place struct {
	key, path   string
	least, good uint64 // bytes: below least work stops, below good it is time
	stops       string // what does not go on without room
	local       bool   // it must be on a disk of this host
	log         bool   // its lack is no more than bad
}

// disks looks at the file systems of what is written here.
func (h *Host) disks(_ context.Context, s Site) []conf.Finding {
	places := []place{
		{key: "state disk", path: s.Endpoint.State, least: 100 * mib, good: 1024 * mib, stops: "burstd takes no order and ends none when its journal cannot be written", local: true},
		{key: "spool disk", path: s.Endpoint.Spool, least: 10 * mib, good: 100 * mib, stops: "orders that come while burstd is away are lost"},
		{key: "log disk", path: "/var/log", least: 100 * mib, good: 500 * mib, stops: "the system's journal has no room, and nobody can read afterwards what happened", log: true},
	}
	if dir := s.Settings.Get("StateSaveLocation"); dir != "" {
		places = append(places, place{key: "StateSaveLocation disk", path: dir, least: 100 * mib, good: 500 * mib, stops: "slurmctld loses its jobs at its next start"})
	}
	for i, dir := range append(slices.Clone(s.Journals), s.Folders...) {
		places = append(places, place{key: "dir disk", path: dir, least: 10 * mib, good: 100 * mib, stops: "nothing is launched", local: i < len(s.Journals)})
	}
	var all []conf.Finding
	for _, p := range places {
		all = append(all, h.disk(s, p)...)
	}
	return all
}

func (h *Host) disk(s Site, p place) []conf.Finding {
	f := ok(p.key, p.path, "It has room.")
	stat, err := h.statfs(p.path)
	if err != nil {
		return s.unseen(f, err, "have burstd's user pass its folders, mount it, or name another folder in burst.toml.")
	}
	kind := uint32(stat.Type)
	free := stat.Bavail * uint64(stat.Bsize)
	f.Why = fmt.Sprintf("It has room: %s.", size(free))
	switch network, memory := networks[kind], memories[kind]; {
	case p.local && network != "":
		return but(f, conf.Wrong, "It is on a network file system (%s), where a journal of SQLite's is not safe: name a folder on a local disk.", network)
	case p.local && memory != "":
		return but(f, conf.Wrong, "It is in memory (%s): after a reboot burstd would not know its instances. Name a folder on a local disk.", memory)
	case network != "" && p.key == "spool disk":
		return but(f, conf.Advice, "It is on a network file system (%s): when that hangs, what slurmctld starts hangs with it. Name a folder on a local disk as spool under [daemon].", network)
	case stat.Flags&unix.ST_RDONLY != 0 && !p.log:
		return but(f, conf.Wrong, "Its file system is mounted read-only: %s. Look at dmesg.", p.stops)
	case free < p.least && !p.log:
		return but(f, conf.Wrong, "%s left: %s. Make room.", size(free), p.stops)
	case free < p.good:
		return but(f, conf.Advice, "%s left: make room. Without any, %s.", size(free), p.stops)
	case stat.Files > 0 && stat.Ffree < 100 && !p.log:
		return but(f, conf.Wrong, "%d files more, and its file system is full: %s. Remove files.", stat.Ffree, p.stops)
	}
	return []conf.Finding{f}
}

// statfs asks of the folder, or where it is not there yet of the one that it will be made in.
func (h *Host) statfs(path string) (unix.Statfs_t, error) {
	root := filepath.Clean(h.Root)
	for at := h.at(path); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) && at != root && at != "/" {
			continue
		}
		s, err := h.Statfs(at)
		if err != nil {
			return s, &fs.PathError{Op: "looking at the file system of", Path: path, Err: err}
		}
		return s, nil
	}
}

func size(bytes uint64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
