//go:build race

package client_test

// raced is true if the race detector is on. Pools then forget at random.
const raced = true
