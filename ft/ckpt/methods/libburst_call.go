package methods

import (
	"fmt"
	"strconv"
	"strings"
)

// What a program and this process say on libburst's socket: one packet of text each,
// of which the program's is first.
//
//	hello 1      -> welcome, with the page's file | no version
//	begin 4096   -> folder PATH | no unasked | no busy | no room (for the path, in so many bytes)
//	commit       -> kept | kept stop | no late | no unbegun | no empty
//	abort        -> aborted | no late | no unbegun
//	want         -> asked, and the page has the order | no unasked
//
// The other side is contrib/libburst/src/link.c. Any other packet ends the connection.

const (
	libVersion = 1
	// maxLibCall is more than any call has.
	maxLibCall = 64
)

// libCall is what a program says.
type libCall struct {
	word   string
	number int // of hello its version, of begin the bytes of its buffer
}

// parseLibCall reads a packet.
func parseLibCall(packet []byte) (libCall, error) {
	word, number, has := strings.Cut(string(packet), " ")
	c := libCall{word: word}
	switch word {
	case "commit", "abort", "want":
		if !has {
			return c, nil
		}
	case "hello", "begin":
		n, err := strconv.ParseUint(number, 10, 31)
		if err == nil && strconv.FormatUint(n, 10) == number {
			c.number = int(n)
			return c, nil
		}
	}
	return libCall{}, fmt.Errorf("%.40q is no call of libburst", packet)
}
