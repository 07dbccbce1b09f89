package vultr

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vultr/govultr/v3"
)

// sshKeys are the ids of the keys that a pool's instances take: those it names,
// and that of its public key file, which the account is given if it lacks it.
func (p *Provider) sshKeys(ctx context.Context, op string, pool Pool) ([]string, error) {
	if len(pool.SSHKeys) == 0 && pool.SSHPublicKey == "" {
		return nil, nil
	}
	p.keys.Lock()
	defer p.keys.Unlock()
	have, ok := p.know.sshKeys.Get("", imageAge)
	ids, missing, err := keysIn(have, op, pool)
	if !ok || err != nil || missing != nil {
		// A list that is minutes old may lack what is there: never is a key given twice for that.
		if have, err = p.listKeys(ctx, op); err != nil {
			return nil, err
		}
		ids, missing, err = keysIn(have, op, pool)
	}
	if err != nil {
		return nil, err
	}
	if missing != nil && !p.whole(listingKeys) { // it may be there, and would be given again by each launch
		return nil, transient(op, fmt.Errorf("the account's list of SSH keys is not whole, and does not show %s: give the account that key, or name one that it shows in ssh_keys", missing.fingerprint()))
	}
	if missing != nil {
		id, err := p.giveKey(ctx, op, *missing)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// keysIn looks a pool's keys up among those of the account. missing is the
// public key that the account lacks.
func keysIn(have []govultr.SSHKey, op string, pool Pool) (ids []string, missing *publicKey, err error) {
	for _, name := range pool.SSHKeys {
		i := slices.IndexFunc(have, func(k govultr.SSHKey) bool { return k.ID == name || k.Name == name })
		if i < 0 {
			return nil, nil, invalid(op, "the account has no SSH key %q, by id or name", name)
		}
		ids = append(ids, have[i].ID)
	}
	if pool.SSHPublicKey == "" {
		return ids, nil, nil
	}
	text, err := os.ReadFile(pool.SSHPublicKey)
	if err != nil {
		return nil, nil, transient(op, fmt.Errorf("reading the public key of the pool: %w", err))
	}
	key, err := parseKey(string(text))
	if err != nil {
		return nil, nil, invalid(op, "%s: %v", pool.SSHPublicKey, err)
	}
	for _, k := range have {
		if other, err := parseKey(k.SSHKey); err == nil && other.fingerprint() == key.fingerprint() {
			return append(ids, k.ID), nil, nil
		}
	}
	return ids, &key, nil
}

const listingKeys = "listing SSH keys"

func (p *Provider) listKeys(ctx context.Context, op string) ([]govultr.SSHKey, error) {
	all, err := listed(ctx, p, op, list[govultr.SSHKey]{
		what: listingKeys,
		id:   func(k govultr.SSHKey) string { return k.ID },
		read: func(ctx context.Context, at *govultr.ListOptions) ([]govultr.SSHKey, *govultr.Meta, error) {
			part, meta, _, err := p.api.SSHKey.List(ctx, at)
			return part, meta, err
		}})
	if err == nil {
		p.know.sshKeys.Put("", all)
	}
	return all, err
}

// giveKey gives the account a public key, under a name that says which it is. An
// answer that is lost is found by the next list.
func (p *Provider) giveKey(ctx context.Context, op string, key publicKey) (string, error) {
	var made *govultr.SSHKey
	err := call(ctx, op, "giving the account a public key", func(ctx context.Context) (err error) {
		made, _, err = p.api.SSHKey.Create(ctx, &govultr.SSHKeyReq{Name: "burst " + key.fingerprint(), SSHKey: key.String()})
		if err == nil && (made == nil || made.ID == "") {
			err = errors.New("it has no id")
		}
		return err
	})
	p.know.sshKeys.Drop("")
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

// publicKey is one line of an authorized_keys file, without options or comment.
type publicKey struct {
	algorithm string
	blob      []byte
}

func (k publicKey) String() string {
	return k.algorithm + " " + base64.StdEncoding.EncodeToString(k.blob)
}

// fingerprint is as ssh-keygen -l prints it.
func (k publicKey) fingerprint() string {
	sum := sha256.Sum256(k.blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// parseKey reads a public key file: "ssh-ed25519 AAAA… comment". A private key
// is refused by a word of its own: it must never leave the host.
func parseKey(text string) (publicKey, error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return publicKey{}, errors.New("is a private key: name the file that ends in .pub")
	}
	fields := strings.Fields(text)
	if len(fields) < 2 || strings.Count(strings.TrimSpace(text), "\n") > 0 {
		return publicKey{}, errors.New("is not one public key on one line, as in \"ssh-ed25519 AAAA… comment\"")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || !named(blob, fields[0]) {
		return publicKey{}, fmt.Errorf("its key is not one of the kind %q that it begins with", fields[0])
	}
	return publicKey{fields[0], blob}, nil
}

// named says whether a key's blob begins with its algorithm's name, after the
// name's length in four bytes.
func named(blob []byte, algorithm string) bool {
	n := len(algorithm)
	return n > 0 && n < 256 && len(blob) > 4+n && [4]byte(blob[:4]) == [4]byte{3: byte(n)} && string(blob[4:4+n]) == algorithm
}

// CheckPublicKey says what is wrong with the text of a public key file.
func CheckPublicKey(text string) error {
	_, err := parseKey(text)
	return err
}
