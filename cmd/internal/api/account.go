package api

import (
	"crypto/sha256"
	"encoding/hex"
)

// AccountMark is by what two programs know that their credentials are of one account. It is short, and no secret:
// whoever guesses the account can tell that he is right, so it is for SlurmUser and root.
func AccountMark(account string) string {
	sum := sha256.Sum256([]byte("burst account " + account))
	return hex.EncodeToString(sum[:8])
}
