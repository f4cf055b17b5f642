package fluxion

// A Library is one client of Fluxion's library, which keeps one resource graph
// and what jobs hold of it. The methods are those of fluxcli.ReapiClient in
// github.com/flux-framework/fluxion-go v0.39.0, with the types of the language
// alone. No two calls may run at the same time, also not of two clients: the
// library keeps text and tables by process.
type Library interface {
	// InitContext loads a graph in JGF; the options are JSON.
	InitContext(jgf, options string) error
	// Match runs a match operation, numbered as in the library.
	Match(op int, jobspec string) (reserved bool, allocated string, at int64, overhead float64, jobid uint64, err error)
	// MatchSatisfy says whether a jobspec could match the empty graph.
	MatchSatisfy(jobspec string) (sat bool, overhead float64, err error)
	// UpdateAllocate books R under a number that the caller chooses.
	UpdateAllocate(jobid int, r string) (at int64, overhead float64, out string, err error)
	// Cancel gives back what a job holds.
	Cancel(jobid int64, noentOK bool) error
	// Info tells the state of a job: ALLOCATED, RESERVED or CANCELED.
	Info(jobid int64) (reserved bool, at int64, overhead float64, mode string, err error)
	// GetErrMsg returns all error texts since ClearErrMsg.
	GetErrMsg() string
	ClearErrMsg()
	// Destroy frees the graph. No other method may be called after it.
	Destroy()
}

// matchAllocate is the library's number for "now or not at all".
const matchAllocate = 1

// allocated is the library's word for a job that holds what it was given.
const allocated = "ALLOCATED"
