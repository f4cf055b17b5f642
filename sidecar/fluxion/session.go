package fluxion

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The errors of a session.
var (
	// errNoRoom means that the request does not fit now.
	errNoRoom = errors.New("no room")
	// errDamaged means that the bookings of the library are no longer known, so that its graph must
	// be built again.
	errDamaged = errors.New("the state of the library is not known")
)

// A session is a library with a graph loaded. It hides the differences between releases:
//
//   - A match succeeded if there is no error and an answer. Without room, releases before 0.52
//     return neither, and later ones return an error without a text.
//   - If release 0.54.0 has selected nothing, it leaves errno as an earlier call on the same thread
//     left it. With 0 there it adds the text of nothingSelected, which means no room too.
//   - Error texts accumulate until they are cleared, so they are cleared before and after each
//     call.
//   - After a match that failed with a text, release 0.39 may have booked something nevertheless,
//     under a number that it gives out again. So after any such error, and if a number comes
//     twice, the session is damaged.
//   - Releases before 0.46 return an error for the cancel of a job that does not exist, so Info
//     is called after an error.
type session struct {
	lib Library
	// live are the jobs that hold something in the library.
	live map[int64]bool
	// wrap turns JGF into the R for UpdateAllocate. It is nil if no form works with the release.
	wrap func(jgf string) string
	// drawing has the numbers of the vertices of the graph, and nodes is the number of its nodes.
	drawing *drawing
	nodes   int
	// gone are the paths of nodes that the graph still has, but that are gone or look different now.
	gone []string
	// ended are jobs that are still to be cancelled, and unbooked are the hosts whose rest job may not
	// hold what it should. Both are worked off by settle.
	ended    []int64
	unbooked map[*host]bool
	// updates counts the job numbers that were chosen for UpdateAllocate.
	updates int64
}

// nothingSelected ends the text of a refusal if errno happened to be 0.
const nothingSelected = "traverser: Success"

// firstUpdateJob is the first job number for
// UpdateAllocate. The library numbers its own jobs from 1.
const firstUpdateJob = 1 << 40

// openSession loads a graph.
func openSession(lib Library, jgf, options string) (*session, error) {
	s := &session{lib: lib, live: make(map[int64]bool), unbooked: make(map[*host]bool)}
	if _, err := s.call(context.Background(), func() error { return lib.InitContext(jgf, options) }); err != nil {
		lib.Destroy()
		return nil, fmt.Errorf("load the graph into Fluxion: %w", err)
	}
	return s, nil
}

// call makes one call of the library unless ctx has ended.
// text is the library's text of an error, and err includes it.
func (s *session) call(ctx context.Context, f func() error) (text string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.lib.ClearErrMsg()
	err = f()
	text = strings.TrimSpace(s.lib.GetErrMsg())
	s.lib.ClearErrMsg()
	if err != nil && text != "" {
		return text, fmt.Errorf("%w: %s", err, text)
	}
	return text, err
}

// match books a jobspec now. It fails with errNoRoom, or
// with errDamaged if the session cannot be used any more.
func (s *session) match(ctx context.Context, jobspec string) (r string, job int64, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	text, err := s.call(ctx, func() error {
		reserved, allocated, _, _, id, err := s.lib.Match(matchAllocate, jobspec)
		if reserved {
			return errors.Join(err, errors.New("the library reserved for later, although the request was to allocate now"))
		}
		r, job = allocated, int64(id)
		return err
	})
	switch {
	case err == nil && r != "":
		if s.live[job] {
			return "", 0, fmt.Errorf("%w: it gave out the job number %d twice", errDamaged, job)
		}
		s.live[job] = true
		return r, job, nil
	case isRefusal(r, text, err):
		return "", 0, errNoRoom
	}
	return "", 0, fmt.Errorf("the request %s failed: %w: %w", jobspec, err, errDamaged)
}

// isRefusal reports whether the answer of a match means that there is no room.
func isRefusal(r, text string, err error) bool {
	return r == "" && (err == nil || text == "" || strings.HasSuffix(text, nothingSelected))
}

// satisfiable reports whether the library is sure that the empty graph
// has room. A false proves nothing: releases before 0.46 also return it
// after an earlier request that could not be satisfied. A true together
// with an error means that the jobspec is malformed, and counts as false.
func (s *session) satisfiable(ctx context.Context, jobspec string) bool {
	sat := false
	_, err := s.call(ctx, func() (err error) {
		sat, _, err = s.lib.MatchSatisfy(jobspec)
		return err
	})
	return err == nil && sat
}

// update books R, in JGF, as one job. ok is false if the release cannot do that.
func (s *session) update(ctx context.Context, jgf string) (job int64, ok bool, err error) {
	if s.wrap == nil {
		return 0, false, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	job = firstUpdateJob + s.updates
	s.updates++
	if _, err := s.call(ctx, func() error {
		_, _, _, err := s.lib.UpdateAllocate(int(job), s.wrap(jgf))
		return err
	}); err != nil {
		return 0, false, fmt.Errorf("the update of job %d failed: %w: %w", job, err, errDamaged)
	}
	s.live[job] = true
	return job, true, nil
}

// cancel releases the resources of a job. A job that holds nothing is no error. cancel ignores the
// caller's context, because it must be known whether the job was cancelled.
func (s *session) cancel(job int64) error {
	if !s.live[job] {
		return nil
	}
	delete(s.live, job)
	_, err := s.call(context.Background(), func() error { return s.lib.Cancel(job, true) })
	if err != nil && s.holds(job) {
		return fmt.Errorf("the cancel of job %d failed: %w: %w", job, err, errDamaged)
	}
	return nil
}

// holds reports whether a job holds something in the library.
func (s *session) holds(job int64) bool {
	mode := ""
	_, err := s.call(context.Background(), func() (err error) {
		_, _, _, mode, err = s.lib.Info(job)
		return err
	})
	return err == nil && mode == allocated
}

func (s *session) close() { s.lib.Destroy() }
