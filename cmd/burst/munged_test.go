package main

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptMunged is `munged SOCKET`: what answers as munged does, that every credential is one of uid 7, for
// the rest of the script.
func scriptMunged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: munged SOCKET")
	}
	ln, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	var wg sync.WaitGroup
	ts.Defer(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				head := make([]byte, 11)
				if _, err := io.ReadFull(c, head); err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[7:]))); err != nil {
					return
				}
				const encode = 2
				body := "\x00\x00\x00\x00\x00\x05M:x:\x00"
				if head[5] != encode {
					body = "\x00\x00\x04\x05\x00\x00\x00\x00\x01\x2c\x04\x7f\x00\x00\x01\x6b\x00\x00\x00\x6b\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00\x0c\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"
				}
				answer := append([]byte{0, 0x60, 0x6d, 0x4b, 4, head[5] + 1, 0}, binary.BigEndian.AppendUint32(nil, uint32(len(body)))...)
				_, _ = c.Write(append(answer, body...)) // who asked may have gone
			})
		}
	})
}
