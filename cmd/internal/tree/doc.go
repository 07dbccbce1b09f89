// Package tree checks the source tree itself: who imports whom, that each
// package says what it is for, how long files are, and what lies at the top.
// It holds tests only.
package tree
