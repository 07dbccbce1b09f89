package munge

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// decoded is an answer to a decode: error, no words, cipher, MAC, zip, realm
// "r", lifetime, address, encoded, decoded, uid 7, gid 12, for anybody, payload "POST".
const decoded = "00 00 04 05 00 02 7200 0000012c 04 0a000001 6b000000 6b000001 00000007 0000000c ffffffff ffffffff 00000004 504f5354"

func bin(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"encode", packEncode([]byte("ab"), 20*time.Minute), "00606d4b 04 02 00 00000016 01 01 01 00 000004b0 ffffffff ffffffff 00000002 6162"},
		{"decode", packDecode("M:x:"), "00606d4b 04 04 00 00000009 00000005 4d3a783a00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if want := bin(t, tt.want); !bytes.Equal(tt.got, want) {
				t.Errorf("% x, want % x", tt.got, want)
			}
		})
	}
}

func TestUnpack(t *testing.T) {
	good := bin(t, decoded)
	c, err := unpackDecode(good)
	want := Credential{UID: 7, GID: 12, Encoded: time.Unix(0x6b000000, 0), Payload: []byte("POST")}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for n := range good {
		if c, err := unpackDecode(good[:n]); !errors.Is(err, ErrAway) || c.Payload != nil {
			t.Errorf("the first %d bytes: %+v, %v", n, c, err)
		}
	}
	for _, tt := range []struct {
		name, text string
		want       error
	}{
		{"more than a payload", decoded + "00", ErrAway},
		{"refused, though all is there", "11" + decoded[2:], ErrReplayed},
		{"refused, in words", "0e 08 626164 206b6579 00", ErrInvalid},
		{"words that are cut off", "0e ff 6261", ErrAway},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := unpackDecode(bin(t, tt.text)); !errors.Is(err, tt.want) || c.Payload != nil {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
	if text, err := unpackEncode(bin(t, "00 00 00000005 4d3a783a00")); err != nil || text != "M:x:" {
		t.Errorf("a credential: %q, %v", text, err)
	}
	if text, err := unpackEncode(bin(t, "00 00 00000006 4d3a783a00")); !errors.Is(err, ErrAway) || text != "" {
		t.Errorf("half a credential: %q, %v", text, err)
	}
}

func TestReceive(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"whole", "00606d4b 04 05 00 00000002 6162", ""},
		{"nothing", "", "no whole header"},
		{"half a header", "00606d4b 04", "no whole header"},
		{"half a body", "00606d4b 04 05 00 00000002 61", "no whole answer"},
		{"no munged", "48545450 2f 31 2e 31203230", "no munged"},
		{"a later munged", "00606d4b 05 05 00 00000000", "version 5"},
		{"another answer", "00606d4b 04 03 00 00000000", "of type 3"},
		{"far too long", "00606d4b 04 05 00 ffffffff", "4294967295 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, err := receive(bytes.NewReader(bin(t, tt.text)), decodeResponse)
			if tt.want == "" && (err != nil || string(body) != "ab") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%q, %v", body, err)
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(bin(f, decoded))
	f.Add([]byte{17, 1, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := unpackDecode(body)
		if err == nil && (body[0] != 0 || c.UID < 0 || c.GID < 0 || !bytes.HasSuffix(body, c.Payload)) {
			t.Errorf("% x is %+v", body, c)
		}
		if text, err := unpackEncode(body); err == nil && len(text) > len(body) {
			t.Errorf("% x is %q", body, text)
		}
		framed := append(binary.BigEndian.AppendUint32([]byte{0, 0x60, 0x6d, 0x4b, version, decodeResponse, 0}, uint32(len(body))), body...)
		if got, err := receive(bytes.NewReader(framed), decodeResponse); len(body) <= maxAnswer && (err != nil || !bytes.Equal(got, body)) {
			t.Errorf("received % x, %v", got, err)
		}
	})
}
