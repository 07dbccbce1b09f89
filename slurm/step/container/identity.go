package container

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// Image is an image as it is now.
type Image struct {
	Ref
	// Key names its copy: images with one key have the same bytes. "": it is run where
	// it is.
	Key string
	// Size is in bytes, of a File; of one in a registry a guess of what making it takes on
	// the disk. 0: it is not known.
	Size int64
}

// header is what is read of a file to know it: of a SIF file that is its launch script,
// the magic word, versions, its UUID and the times when it was made and changed.
// Source: the SIF specification, "global header".
const (
	headerSize  = 128
	magicAt     = 32
	sifMagic    = "SIF_MAGIC\x00"
	squashMagic = "hsqs" // of a bare squashfs, little-endian
)

// Identify finds a File's key: of what its header says, its size and in which second it was
// last written, for not all clients of shared storage know parts of one. An error says that it is no image, or cannot be read.
func Identify(r Ref) (Image, error) {
	i := Image{Ref: r}
	if r.Kind != File {
		return i, nil
	}
	f, err := os.Open(r.Path)
	if err != nil {
		return i, fmt.Errorf("container: %w", err)
	}
	defer f.Close()
	i.Key, i.Size, err = identity(f)
	return i, err
}

func identity(f *os.File) (key string, size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return "", 0, fmt.Errorf("container: %w", err)
	}
	head := make([]byte, headerSize)
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", 0, fmt.Errorf("container: %w", err)
	}
	if !bytes.HasPrefix(head[magicAt:], []byte(sifMagic)) && !bytes.HasPrefix(head, []byte(squashMagic)) {
		return "", 0, fmt.Errorf("container %s: is no SIF file, nor a squashfs: `apptainer build image.sif %s` may make one of it", f.Name(), f.Name())
	}
	sum := sha256.New()
	sum.Write(head)
	fmt.Fprintf(sum, "%d %d", st.Size(), st.ModTime().Unix())
	return "sif-" + hex.EncodeToString(sum.Sum(nil))[:32], st.Size(), nil
}

// keyOf is the key of what a registry has under the digest.
func keyOf(k Kind, digest string) string {
	return string(k) + "-" + digest[len("sha256:"):]
}
