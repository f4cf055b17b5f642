package apiproxy

import (
	"net/http"
	"net/http/httptest"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// A Request is what the choice of a fault depends on.
type Request struct {
	*request.RequestInfo
	// FieldManager is the name under which the request writes. It is empty if it has none.
	FieldManager string
}

// A Fault is what happens to a request.
type Fault int

// The faults. The API server carries out a request only with the faults None, TimedOut and BrokenOff.
const (
	// None: it passes.
	None Fault = iota
	// TooMany: it is refused exactly as priority and fairness refuses.
	TooMany
	// Conflict: it is refused as a write that met another one.
	Conflict
	// Failed: it is refused with an internal error.
	Failed
	// TimedOut: it is carried out, and the answer says that the server did not answer in time.
	TimedOut
	// BrokenOff: it is carried out, and the connection ends without an answer.
	BrokenOff
	// Held: it waits for the next call of Disturb, and is judged again.
	Held
)

// answer passes a request, or answers it as the fault says.
func (p *Proxy) answer(f Fault, w http.ResponseWriter, r *http.Request) {
	switch f {
	case TooMany:
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
	case Conflict:
		http.Error(w, "the object has been modified; please apply your changes to the latest version and try again", http.StatusConflict)
	case Failed:
		http.Error(w, "etcdserver: leader changed", http.StatusInternalServerError)
	case TimedOut:
		p.pass.ServeHTTP(httptest.NewRecorder(), r)
		http.Error(w, "Timeout: request did not complete within the allotted timeout", http.StatusGatewayTimeout)
	case BrokenOff:
		p.pass.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case None, Held:
		p.pass.ServeHTTP(w, r)
	}
}
