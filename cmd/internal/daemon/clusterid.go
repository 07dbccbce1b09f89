package daemon

import (
	"context"
	"path/filepath"

	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/store"
)

// ClusterID is the cluster's id, made with its journal where there is none, as when a daemon first starts; while one runs it is
// not to be had here, but in the file that it has made.
func ClusterID(ctx context.Context, ep endpoint.Config) (string, error) {
	unlock, err := lock(filepath.Join(ep.State, "burstd.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	st, err := store.Open(ctx, ep.DB())
	if err != nil {
		return "", err
	}
	defer st.Close()
	return st.ClusterID(ctx)
}
