//go:build !crashpoints

package main

import "github.com/burst-hpc/burst/cmd/internal/crash"

func crashPoint() crash.Point { return nil }
