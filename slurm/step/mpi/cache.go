package mpi

import (
	"bytes"
	"encoding/binary"
	"io"
)

// maxCache is the most bytes that an ld.so.cache may have: one of 10,000 libraries has 1 MB.
const maxCache = 16 << 20

// cacheMagic begins the part of ld.so.cache that glibc reads since 2.2; an older part may
// stand before it. Its entries' offsets count from here (glibc, sysdeps/generic/dl-cache.h).
const cacheMagic = "glibc-ld.so.cache1.1"

const (
	cacheHead  = 48 // magic, number of entries, bytes of names, and what is not needed here
	cacheEntry = 24 // flags, name, path, 4 and 8 bytes of hardware
)

// readCache reads an ld.so.cache: the paths of each library, in their order. What cannot be
// read is left out, as ld.so leaves it out.
func readCache(r io.Reader) map[string][]string {
	text, err := io.ReadAll(io.LimitReader(r, maxCache))
	if err != nil {
		return nil
	}
	at := bytes.Index(text, []byte(cacheMagic))
	if at < 0 || len(text)-at < cacheHead {
		return nil
	}
	text = text[at:]
	order := binary.ByteOrder(binary.LittleEndian)
	if text[28]&3 == 3 { // the file says that it is big endian; older ones say nothing
		order = binary.BigEndian
	}
	n := uint64(order.Uint32(text[20:]))
	if n > uint64(len(text)-cacheHead)/cacheEntry {
		return nil
	}
	all := make(map[string][]string, n)
	for i := range n {
		entry := text[cacheHead+i*cacheEntry:]
		if order.Uint64(entry[16:]) != 0 {
			continue // for one kind of processor: the same library stands there for all
		}
		name, path := word(text, order.Uint32(entry[4:])), word(text, order.Uint32(entry[8:]))
		if name != "" && path != "" {
			all[name] = append(all[name], path)
		}
	}
	return all
}

// word is the text that begins at an offset and ends with a zero byte.
func word(text []byte, at uint32) string {
	if uint64(at) >= uint64(len(text)) {
		return ""
	}
	end := bytes.IndexByte(text[at:], 0)
	if end < 0 {
		return ""
	}
	return string(text[at : int(at)+end])
}
