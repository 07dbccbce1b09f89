package bench

import (
	"context"
	"sync"
)

// once shares one measurement among the benchmarks that are made of it.
func once[T any](measure func(context.Context, Env) (T, error)) func(context.Context, Env) (T, error) {
	var o sync.Once
	var v T
	var err error
	return func(ctx context.Context, env Env) (T, error) {
		o.Do(func() { v, err = measure(ctx, env) })
		return v, err
	}
}
