package vultr

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A word is what only burstd, Vultr and one instance know: it goes to Vultr with the
// request, by TLS, and from there to the instance as its user data. Whoever answers
// at the instance's address can be asked for it. All words follow from one secret, in
// the provider's folder, so that the next burstd knows them too.

const secretFile = "words.secret"

// Word implements cloud.Voucher.
func (p *Provider) Word(ctx context.Context, id string) (string, error) {
	s, ok := p.recall(id)
	if !ok {
		if _, err := p.ours(ctx, "word"); err != nil {
			return "", err
		}
		if s, ok = p.recall(id); !ok {
			return "", transient("word", fmt.Errorf("no list shows instance %s", id))
		}
	}
	return p.word(s.label)
}

// word is that of the instance with a label.
func (p *Provider) word(label string) (string, error) {
	key, err := p.secret()
	if err != nil {
		return "", transient("word", fmt.Errorf("the secret by which instances are known: %w", err))
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(label))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil)), nil
}

// tellWord is the user data that tells an instance its word: a script, which cloud-init
// runs beside what Vultr itself has it do. Users of jobs must not read the word, though
// it is of no use once the host key is kept.
func tellWord(word string) string {
	return "#!/bin/sh\n# Burst knows this instance by it, when it sets it up over SSH.\numask 077\n" +
		"mkdir -p /var/lib/burst && chmod 0755 /var/lib/burst && echo " + word + " >/var/lib/burst/word.new && mv /var/lib/burst/word.new /var/lib/burst/word\n"
}

// secret reads the secret, or makes it.
func (p *Provider) secret() ([]byte, error) {
	p.secrets.Lock()
	defer p.secrets.Unlock()
	if p.wordKey != nil {
		return p.wordKey, nil
	}
	fresh := make([]byte, sha256.Size)
	_, _ = rand.Read(fresh) // never fails
	if p.c.Dir == "" {
		p.wordKey = fresh
		return fresh, nil
	}
	path := filepath.Join(p.c.Dir, secretFile)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := keep(path, fresh); err != nil {
			return nil, err
		}
		key, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	if len(key) != sha256.Size {
		return nil, fmt.Errorf("%s is cut off: remove it, and nodes that boot now are launched anew", path)
	}
	p.wordKey = key
	return key, nil
}

// keep writes a file whole and durably, unless there is one.
func keep(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	_, err = t.Write(text)
	if err = errors.Join(err, t.Sync(), t.Close()); err != nil {
		return err
	}
	if err := os.Link(t.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) { // unlike a rename it replaces nothing
		return err
	}
	return syncDir(filepath.Dir(path))
}
