// Package house reads how the rooms of the project are built: which files a package has, in which
// order they are to be read, and how far they keep to it.
//
// A package that its readers are led through lists its files in its comment, from the first to the
// last to be read, each with the question that it answers:
//
//	// Package solver lays slots out on nodes, or proves that it cannot.
//	//
//	//	problem.go  what is to be laid out, and on which nodes?
//	//	solve.go    in which order are ways tried?
//
// A file uses what stands in those before it. A use of what stands in a later file is a back arrow:
// a reader has to go there and come back.
package house
