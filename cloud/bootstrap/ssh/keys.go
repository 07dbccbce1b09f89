package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Folder keeps the host key that each instance has shown first, in a file by
// the instance's id. The folder is made when it is needed.
type Folder string

// ErrHostKey is wrapped when a host has another key than it should.
var ErrHostKey = errors.New("the host key is another one")

// Key is the instance's; nil if none is kept.
func (f Folder) Key(instance string) (ssh.PublicKey, error) {
	path := filepath.Join(string(f), instance)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no host key (%w): remove it, if the instance is gone", path, err)
	}
	return key, nil
}

// Pin keeps the key, durably. With another one kept already it does nothing, and says so.
func (f Folder) Pin(instance string, key ssh.PublicKey) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(string(f), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	_, err = t.Write(ssh.MarshalAuthorizedKey(key))
	if err = errors.Join(err, t.Sync(), t.Close()); err != nil {
		return err
	}
	err = os.Link(t.Name(), filepath.Join(string(f), instance)) // unlike a rename it replaces nothing
	if errors.Is(err, fs.ErrExist) {
		kept, err := f.Key(instance)
		if err == nil && !same(kept, key) {
			err = ErrHostKey
		}
		return err
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Prune removes what is older than age and whose instance lives says is gone.
func (f Folder) Prune(age time.Duration, lives func(instance string) bool) error {
	files, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, file := range files {
		info, ierr := file.Info()
		if ierr != nil || time.Since(info.ModTime()) < age || lives(file.Name()) {
			continue
		}
		err = errors.Join(err, os.Remove(filepath.Join(string(f), file.Name())))
	}
	return err
}

func same(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && bytes.Equal(a.Marshal(), b.Marshal())
}

// expected are the keys of which the host must show one; none: its first is pinned.
func (r *Runner) expected(h Host) ([]ssh.PublicKey, error) {
	if len(h.HostKeys) > 0 {
		return h.HostKeys, nil
	}
	key, err := r.cfg.Keys.Key(h.Instance)
	if key == nil || err != nil {
		return nil, err
	}
	return []ssh.PublicKey{key}, nil
}

// admit says whether the host may be who it says, and pins its first key
// before anything is believed that comes under it. That of a host with a word waits for it.
func (r *Runner) admit(h Host, want []ssh.PublicKey, key ssh.PublicKey) error {
	if len(want) == 0 && h.Word != "" {
		return nil
	}
	if len(want) == 0 {
		if err := r.step("ssh pin"); err != nil {
			return err
		}
		err := r.cfg.Keys.Pin(h.Instance, key)
		if err == nil {
			r.cfg.Log.Info("the host key is kept, by which the instance is known from now on", "node", h.Node, "instance", h.Instance, "key", ssh.FingerprintSHA256(key))
			return nil
		}
		if !errors.Is(err, ErrHostKey) {
			return fmt.Errorf("keeping the host key of %s: %w", h.Instance, err)
		}
		if want, err = r.expected(h); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(want, func(w ssh.PublicKey) bool { return same(w, key) }) {
		return nil
	}
	var prints []string
	for _, w := range want {
		prints = append(prints, ssh.FingerprintSHA256(w))
	}
	known, hint := "the cloud says", "somebody else may answer at this address: end the instance, and look who has the address"
	if len(h.HostKeys) == 0 {
		known = "it showed first"
		hint = "somebody else may answer at this address: end the instance; if you have reinstalled it yourself, remove " + filepath.Join(string(r.cfg.Keys), h.Instance) +
			"; or who answered first was the impostor, and has what was sent: if munge_key is sent over SSH, change the cluster's MUNGE key"
	}
	return fmt.Errorf("%w: it shows %s, %s %s: %s", ErrHostKey, ssh.FingerprintSHA256(key), known, strings.Join(prints, " or "), hint)
}

// algorithms are those by which the host can prove that it has one of the
// keys; nil: any. Without them it might show a key of another type than ours.
func algorithms(keys []ssh.PublicKey) (all []string) {
	for _, k := range keys {
		if k.Type() == ssh.KeyAlgoRSA {
			all = append(all, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		all = append(all, k.Type())
	}
	return all
}

// What cloud-init prints of a host's keys on the console.
const (
	keysBegin = "-----BEGIN SSH HOST KEY KEYS-----"
	keysEnd   = "-----END SSH HOST KEY KEYS-----"
)

// ConsoleKeys reads the host keys that cloud-init has printed on an instance's
// console; the last block counts. Consoles that the cloud serves are a channel of its own.
func ConsoleKeys(console string) (keys []ssh.PublicKey) {
	begin := strings.LastIndex(console, keysBegin)
	if begin < 0 {
		return nil
	}
	block, _, whole := strings.Cut(console[begin+len(keysBegin):], keysEnd)
	if !whole {
		return nil
	}
	for line := range strings.Lines(block) {
		for _, kind := range []string{"ssh-", "ecdsa-"} {
			// The kernel or a prefix of the console may stand before it.
			if at := strings.Index(line, kind); at >= 0 {
				if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line[at:])); err == nil {
					keys = append(keys, key)
				}
				break
			}
		}
	}
	return keys
}
