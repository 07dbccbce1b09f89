package clouds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// wordPace is the time between two attempts to learn an instance's word.
const wordPace = 5 * time.Second

// Word waits until the provider says the word that the instance was told.
func Word(ctx context.Context, p cloud.Provider, id string) (string, error) {
	v, ok := p.(cloud.Voucher)
	if !ok {
		return "", errors.New("it tells instances no words: write host_key = \"pin\"")
	}
	for {
		word, err := v.Word(ctx, id)
		if err == nil {
			return word, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the word by which the instance is known: %w", err)
		case <-time.After(wordPace*4/5 + rand.N(wordPace*2/5)):
		}
	}
}
