package fluxion

// A Library is one client of Fluxion's library. It has one resource graph, and the jobs that hold
// parts of it. The methods are the methods of fluxcli.ReapiClient in
// github.com/flux-framework/fluxion-go v0.39.0, with built-in types only. Only one call may run at
// a time, also with several clients, because the library keeps error texts and tables in global
// variables.
type Library interface {
	// InitContext loads a graph in JGF. The options are JSON.
	InitContext(jgf, options string) error
	// Match runs a match operation, numbered as in the library.
	Match(op int, jobspec string) (reserved bool, allocated string, at int64, overhead float64, jobid uint64, err error)
	// MatchSatisfy returns whether a jobspec could match the empty graph.
	MatchSatisfy(jobspec string) (sat bool, overhead float64, err error)
	// UpdateAllocate books R under a number that the caller chooses.
	UpdateAllocate(jobid int, r string) (at int64, overhead float64, out string, err error)
	// Cancel releases the resources of a job.
	Cancel(jobid int64, noentOK bool) error
	// Info returns the state of a job: ALLOCATED, RESERVED or CANCELED.
	Info(jobid int64) (reserved bool, at int64, overhead float64, mode string, err error)
	// GetErrMsg returns all error texts since ClearErrMsg.
	GetErrMsg() string
	ClearErrMsg()
	// Destroy frees the graph. No other method may be called after it.
	Destroy()
}

// A Grower is a Library whose graph can grow and shrink. Releases before 0.54 have no such calls, and
// fluxion-go v0.39.0 does not bind them.
//
// In release 0.54.0 a partial cancel aborts the process if the graph has grown by a type that no filter
// names. Nothing here cancels in part: each slot is a job, which is cancelled as a whole.
type Grower interface {
	Library
	// AddSubgraph adds vertices. The graph in JGF has the way from the root to what is new. A vertex
	// that is there already, by path and rank, is not added again.
	AddSubgraph(jgf string) error
	// RemoveSubgraph removes the vertex at a path and all below it, even if jobs hold it. It fails if
	// there is no such vertex.
	RemoveSubgraph(path string) error
}

// matchAllocate is the library's number for "now or not at all".
const matchAllocate = 1

// allocated is the library's word for a job that holds its resources.
const allocated = "ALLOCATED"
