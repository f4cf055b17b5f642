// Package perf measures Fluence as a whole, on a real API server: what a benchmark
// of one package cannot show. make perf runs it.
package perf
