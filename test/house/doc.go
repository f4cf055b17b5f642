// Package house reads the structure of the project's packages: which files a package
// has, in which order they should be read, and whether the code keeps to this order.
//
// A package for readers lists its files in its comment, in the
// order of reading, each with the question that it answers:
//
//	// Package solver lays slots out on nodes, or proves that it cannot.
//	//
//	//	problem.go  what is to be laid out, and on which nodes?
//	//	solve.go    in which order are ways tried?
//
// A file should use what earlier files declare. A use of a declaration in
// a later file is a back arrow: a reader has to go there and come back.
package house
