package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// ociLayout makes an OCI image layout, tagged heat, with all of the folder as its one layer.
// Source: the OCI image specification, image-layout.md.
func ociLayout(t *testing.T, folder, dir string) {
	t.Helper()
	type descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path string, content []byte) {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(kind string, content []byte) descriptor {
		sum := sha256.Sum256(content)
		name := hex.EncodeToString(sum[:])
		write(filepath.Join(blobs, name), content)
		return descriptor{MediaType: kind, Digest: "sha256:" + name, Size: len(content)}
	}
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var errs bytes.Buffer
	tar := exec.CommandContext(t.Context(), "tar", "-C", folder, "-c", ".")
	tar.Stderr = &errs
	files, err := tar.Output()
	if err != nil {
		t.Fatalf("tar: %v: %s", err, errs.Bytes())
	}
	layer := blob("application/vnd.oci.image.layer.v1.tar", files)
	config := blob("application/vnd.oci.image.config.v1+json", encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{layer},
	}))
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": "heat"}
	write(filepath.Join(dir, "index.json"), encode(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}}))
	write(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
}
