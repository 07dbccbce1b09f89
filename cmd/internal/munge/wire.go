package munge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// munged's protocol: one request and one answer on a connection, each a header
// (magic, version, type, retry, length of what follows) and a body; numbers are
// big-endian. munged learns who asks from the kernel.
const (
	magic   = 0x00606D4B
	version = 4
	header  = 11 // bytes

	encodeRequest  = 2
	encodeResponse = 3
	decodeRequest  = 4
	decodeResponse = 5
)

// maxAnswer bounds what is read of an answer: a credential or a payload, its
// realm, and an error's text of at most 255 bytes.
const maxAnswer = 64 << 10

// Credential is what a credential says, and munged vouches for.
type Credential struct {
	UID, GID int
	Encoded  time.Time // by the clock of the host that made it
	Payload  []byte
}

// packEncode asks for a credential of the payload that anybody may open, with
// munged's own choice of cipher, MAC and compression; of the lifetime too if it is 0.
func packEncode(payload []byte, life time.Duration) []byte {
	b := []byte{1, 1, 1, 0} // defaults, and no realm
	b = binary.BigEndian.AppendUint32(b, uint32(life/time.Second))
	b = binary.BigEndian.AppendUint32(b, ^uint32(0)) // any uid
	b = binary.BigEndian.AppendUint32(b, ^uint32(0)) // any gid
	return message(encodeRequest, withLength(b, payload))
}

// packDecode asks what a credential says, which goes as a string of C.
func packDecode(credential string) []byte {
	return message(decodeRequest, withLength(nil, append([]byte(credential), 0)))
}

func withLength(b, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
}

func message(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, header+len(body)), magic)
	return withLength(append(b, version, kind, 0), body) // not a retry: see ask
}

// receive reads the body of an answer.
func receive(r io.Reader, kind byte) ([]byte, error) {
	head := make([]byte, header)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("no whole header of an answer: %w", err)
	}
	length := binary.BigEndian.Uint32(head[7:])
	switch {
	case binary.BigEndian.Uint32(head) != magic:
		return nil, errors.New("what answers is no munged")
	case head[4] != version:
		return nil, fmt.Errorf("munged speaks version %d of its protocol, and we %d", head[4], version)
	case head[5] != kind:
		return nil, fmt.Errorf("an answer of type %d, not %d", head[5], kind)
	case length > maxAnswer:
		return nil, fmt.Errorf("an answer of %d bytes", length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("no whole answer: %w", err)
	}
	return body, nil
}

// cursor reads fields one after the other; after the end it reads zeros, and is short.
type cursor struct {
	rest  []byte
	short bool
}

func (c *cursor) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(c.rest)) {
		c.rest, c.short = nil, true
		return nil
	}
	var b []byte
	b, c.rest = c.rest[:n], c.rest[n:]
	return b
}

func (c *cursor) u8() byte {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// ended says whether the fields were all there, and no more.
func (c *cursor) ended() error {
	if c.short || len(c.rest) > 0 {
		return errors.New("munged's answer has not the fields that it should have")
	}
	return nil
}

// outcome is the error that munged's number and words mean; nil for success.
func (c *cursor) outcome() error {
	code := c.u8()
	text := c.bytes(uint32(c.u8()))
	if c.short || code == 0 {
		return nil
	}
	return failure(int(code), text)
}

func unpackEncode(body []byte) (string, error) {
	c := &cursor{rest: body}
	if err := c.outcome(); err != nil {
		return "", err
	}
	credential := c.bytes(c.u32())
	if err := c.ended(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrAway, err)
	}
	return text(credential), nil
}

func unpackDecode(body []byte) (Credential, error) {
	c := &cursor{rest: body}
	if err := c.outcome(); err != nil {
		return Credential{}, err // what a refused one says is not returned
	}
	c.bytes(3)              // cipher, MAC, compression
	c.bytes(uint32(c.u8())) // realm
	c.u32()                 // lifetime
	c.bytes(uint32(c.u8())) // address
	encoded := c.u32()
	c.u32() // time of opening
	uid, gid := c.u32(), c.u32()
	c.bytes(8) // who may open it
	payload := c.bytes(c.u32())
	if err := c.ended(); err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrAway, err)
	}
	return Credential{UID: int(uid), GID: int(gid), Encoded: time.Unix(int64(encoded), 0), Payload: payload}, nil
}
