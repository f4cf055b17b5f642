//go:build !race

package client_test

const raced = false
