package local

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Accountant = (*Provider)(nil)

// accountFile has the folder's random id.
const accountFile = "id"

// Account implements cloud.Accountant: the folder with its random id, which
// another folder under the same name has not.
func (p *Provider) Account(context.Context) (string, error) {
	const op = "account"
	path := filepath.Join(p.store.dir, accountFile)
	if _, err := createOnce(path, []byte(rand.Text()+"\n")); err != nil {
		return "", wrap(op, cloud.Transient, err)
	}
	id, err := os.ReadFile(path)
	if err != nil {
		return "", wrap(op, cloud.Transient, err)
	}
	return fmt.Sprintf("%s (%.8s)", p.store.dir, id), nil
}
