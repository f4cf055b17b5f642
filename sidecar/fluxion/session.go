package fluxion

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// What a session answers beside results.
var (
	// errNoRoom: the request fits nowhere now.
	errNoRoom = errors.New("no room")
	// errDamaged: what the library has booked is no longer known, so that its graph
	// has to be built anew.
	errDamaged = errors.New("the state of the library is not known")
)

// A session is a library with a graph loaded. It hides in which way releases
// answer:
//
//   - A match succeeded if there is no error and an answer. Releases before 0.52
//     answer no room with neither, later ones with an error that has no text.
//   - Error texts pile up until they are cleared, so they are cleared before and
//     after each call.
//   - After a match that failed with a text, release 0.39 may have booked something
//     all the same, under a number that it gives out again; so after any such error,
//     and where a number comes twice, the session is damaged.
//   - Releases before 0.46 know no cancel of a job that is not there, so Info is
//     asked after an error.
type session struct {
	lib Library
	// live are the jobs that hold something in the library.
	live map[int64]bool
	// wrap writes R for UpdateAllocate, nil where the release has none that works;
	// chosen counts the numbers chosen for it.
	wrap    func(jgf string) string
	updates int64
}

// firstUpdateJob is the first job number given to UpdateAllocate. The library counts
// its own from 1.
const firstUpdateJob = 1 << 40

// openSession loads a graph.
func openSession(lib Library, jgf, options string) (*session, error) {
	s := &session{lib: lib, live: make(map[int64]bool)}
	if _, err := s.call(context.Background(), func() error { return lib.InitContext(jgf, options) }); err != nil {
		lib.Destroy()
		return nil, fmt.Errorf("load the graph into Fluxion: %w", err)
	}
	return s, nil
}

// call runs one call of the library unless ctx has ended. The text is what the
// library says of an error, which has it as its reason.
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

// match books a jobspec now, or fails with errNoRoom or, where the session is of
// no use any more, errDamaged.
func (s *session) match(ctx context.Context, jobspec string) (r string, job int64, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	text, err := s.call(ctx, func() error {
		reserved, allocated, _, _, id, err := s.lib.Match(matchAllocate, jobspec)
		if reserved {
			return errors.Join(err, errors.New("an answer of later to a request for now"))
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
	case r == "" && (err == nil || text == ""):
		return "", 0, errNoRoom
	}
	return "", 0, fmt.Errorf("%w after %w of the request %s", errDamaged, err, jobspec)
}

// satisfiable says whether the library is sure that the empty graph has room. No
// is no proof of the contrary: releases before 0.46 say it also where an earlier
// request could not be satisfied. Yes with an error is said of what is malformed.
func (s *session) satisfiable(ctx context.Context, jobspec string) bool {
	sat := false
	_, err := s.call(ctx, func() (err error) {
		sat, _, err = s.lib.MatchSatisfy(jobspec)
		return err
	})
	return err == nil && sat
}

// update books R, JGF, as one job; ok is false where the release cannot.
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
		return 0, false, fmt.Errorf("%w after %w of an update", errDamaged, err)
	}
	s.live[job] = true
	return job, true, nil
}

// cancel gives back what a job holds; one that holds nothing is no error. It runs
// to its end whatever the caller's context: what is cancelled must be known.
func (s *session) cancel(job int64) error {
	if !s.live[job] {
		return nil
	}
	delete(s.live, job)
	_, err := s.call(context.Background(), func() error { return s.lib.Cancel(job, true) })
	if err != nil && s.holds(job) {
		return fmt.Errorf("%w after %w of the cancel of job %d", errDamaged, err, job)
	}
	return nil
}

// holds says whether the library has a job that holds something.
func (s *session) holds(job int64) bool {
	mode := ""
	_, err := s.call(context.Background(), func() (err error) {
		_, _, _, mode, err = s.lib.Info(job)
		return err
	})
	return err == nil && mode == allocated
}

func (s *session) close() { s.lib.Destroy() }
