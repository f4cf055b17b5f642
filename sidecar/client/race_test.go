//go:build race

package client_test

// raced says that the race detector is on, under which pools forget at random.
const raced = true
