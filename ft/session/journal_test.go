package session_test

import (
	"testing"

	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

func TestMemory(t *testing.T) {
	sessiontest.Suite(t, func(*testing.T) func() sessiontest.Journal {
		m := sessiontest.NewMemory()
		return func() sessiontest.Journal { return m }
	})
}
