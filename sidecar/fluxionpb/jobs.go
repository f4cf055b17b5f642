package fluxionpb

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/flux-k8s/fluence/pkg/match"
)

// jobOverhead is about the size in bytes of a job without slots.
const jobOverhead = 48

// JobMessages encodes jobs as the contents of a stream of messages. A job that
// is too large for one message is continued in the next. No jobs give one
// empty message. If a slot cannot be encoded, the stream ends with an error.
func JobMessages(jobs []match.Job) iter.Seq2[[]*Job, error] {
	return func(yield func([]*Job, error) bool) {
		var (
			message []*Job
			size    int
		)
		for i := range jobs {
			if size+jobOverhead > chunk {
				if !yield(message, nil) {
					return
				}
				message, size = nil, 0
			}
			part := &Job{
				Id: uint64(jobs[i].ID), Reserved: jobs[i].Reserved, At: encodeTime(jobs[i].Start), End: encodeTime(jobs[i].End),
			}
			message, size = append(message, part), size+jobOverhead
			for k := range jobs[i].Slots {
				s, n, err := encodeSlot(&jobs[i].Slots[k])
				if err != nil {
					yield(nil, fieldError(slotOf(i, k), "%w", err))
					return
				}
				if len(part.Slots) > 0 && size+n > chunk {
					if !yield(message, nil) {
						return
					}
					part = &Job{Id: part.Id, Continued: true}
					message, size = []*Job{part}, jobOverhead
				}
				part.Slots, size = append(part.Slots, s), size+n
			}
		}
		yield(message, nil)
	}
}

func slotOf(job, slot int) string { return fmt.Sprintf("jobs[%d].slots[%d]", job, slot) }

// A JobsReader joins the messages of JobMessages.
type JobsReader struct {
	jobs  []match.Job
	spent budget
}

// Add reads the next message. It fails if a field is invalid, with an error that names
// the field and its value. It also fails once all messages together exceed MaxCall.
func (r *JobsReader) Add(jobs []*Job) error {
	for _, j := range jobs {
		if err := r.spent.spend(proto.Size(j)); err != nil {
			return err
		}
		if err := r.begin(j); err != nil {
			return err
		}
		last := len(r.jobs) - 1
		to := &r.jobs[last]
		for _, s := range j.GetSlots() {
			slot, err := decodeSlot(s)
			if err != nil {
				return fieldError(slotOf(last, len(to.Slots)), "%w", err)
			}
			to.Slots = append(to.Slots, slot)
		}
	}
	return nil
}

// begin reads a job, or a further part of the last one, without its slots.
func (r *JobsReader) begin(j *Job) error {
	if j.GetContinued() {
		if n := len(r.jobs); n == 0 || uint64(r.jobs[n-1].ID) != j.GetId() {
			return fieldError("continued", "job %d: is not the job of the part before", j.GetId())
		}
		if j.GetReserved() || j.GetAt() != nil || j.GetEnd() != nil {
			return fieldError("continued", "job %d: a continued part must not set reserved, at or end", j.GetId())
		}
		return nil
	}
	job := match.Job{ID: match.JobID(j.GetId()), Reserved: j.GetReserved()}
	var err error
	if job.Start, err = decodeTime("at", j.GetAt()); err == nil {
		job.End, err = decodeTime("end", j.GetEnd())
	}
	if err != nil {
		return fieldError(fmt.Sprintf("jobs[%d]", len(r.jobs)), "%w", err)
	}
	r.jobs = append(r.jobs, job)
	return nil
}

// Jobs returns the jobs that were read.
func (r *JobsReader) Jobs() []match.Job { return r.jobs }
