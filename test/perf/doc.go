// Package perf measures the whole of Fluence on a real API server,
// which the benchmark of one package cannot do. make perf runs it.
package perf
