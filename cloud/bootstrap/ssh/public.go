package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
)

// Belongs says whether the private key in keyFile belongs to the public one, a
// line of an authorized_keys file. A key with a passphrase whose format does not
// tell its public half is an error.
func Belongs(keyFile string, public []byte) (bool, error) {
	want, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		return false, fmt.Errorf("reading a public key: %w", err)
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return false, fmt.Errorf("reading the SSH key: %w", err)
	}
	var have ssh.PublicKey
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		have = signer.PublicKey()
	case errors.As(err, &locked) && locked.PublicKey != nil:
		have = locked.PublicKey
	default:
		return false, fmt.Errorf("reading the SSH key %s: %w", keyFile, err)
	}
	return bytes.Equal(have.Marshal(), want.Marshal()), nil
}
