package api

import (
	"crypto/sha256"
	"encoding/hex"
)

// AccountMark is by what two programs know that their credentials are of one account: not its
// name, which may be a person's address, and which everybody on the host may ask for.
func AccountMark(account string) string {
	sum := sha256.Sum256([]byte("burst account " + account))
	return hex.EncodeToString(sum[:8])
}
