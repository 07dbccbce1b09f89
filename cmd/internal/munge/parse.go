package munge

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Credential is what a credential says, and munged vouches for.
type Credential struct {
	UID, GID int
	Encoded  time.Time // by the clock of the host that made it
	Payload  []byte
}

// parse reads what unmunge printed: lines of keys and numbers, an empty line,
// and the payload, of which any byte may be part.
func parse(out []byte) (Credential, error) {
	head, payload, ok := bytes.Cut(out, []byte("\n\n"))
	if !ok {
		return Credential{}, errors.New("no empty line after the keys")
	}
	values := map[string]int64{}
	for line := range strings.Lines(string(head)) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return Credential{}, fmt.Errorf("%q is no key with a number", line)
		}
		if _, twice := values[key]; twice {
			return Credential{}, fmt.Errorf("%s is there twice", key)
		}
		values[key] = n
	}
	for _, key := range []string{"STATUS", "UID", "GID", "ENCODE_TIME", "LENGTH"} {
		if n, ok := values[key]; !ok || n < 0 {
			return Credential{}, fmt.Errorf("%s is missing or below zero", key)
		}
	}
	switch {
	case values["STATUS"] != 0:
		return Credential{}, fmt.Errorf("STATUS is %d, and the exit code 0", values["STATUS"])
	case values["LENGTH"] != int64(len(payload)):
		return Credential{}, fmt.Errorf("%d bytes of payload where LENGTH says %d", len(payload), values["LENGTH"])
	}
	return Credential{UID: int(values["UID"]), GID: int(values["GID"]), Encoded: time.Unix(values["ENCODE_TIME"], 0), Payload: payload}, nil
}
