// Package model is Fluxion's matching said as simply as possible, to check the
// traverser with.
package model
