package group

// SuspendedForAnnotation is an annotation of an owner that the scheduler has suspended, so that its pods make
// room for a group of higher priority. Its value is the UID of that group's PodGroup. The controller removes it when
// it resumes the owner.
const SuspendedForAnnotation = "fluence.flux-framework.org/suspended-for"

// trainJob is the kind TrainJob of Kubeflow Trainer. It controls a JobSet.
var trainJob = kindName{"trainer.kubeflow.org", "TrainJob"}

// SuspendPath returns the path of the boolean field that suspends an object of a kind that the scheduler may
// suspend, and the controller may resume. It is nil for any other kind. Whether this object may be suspended, or
// one that controls it, is the caller's decision.
func SuspendPath(o Owner) []string {
	for kind, path := range map[kindName][]string{
		job: {"spec", "suspend"}, jobSet: {"spec", "suspend"}, trainJob: {"spec", "suspend"}, mpiJob: {"spec", "runPolicy", "suspend"},
	} {
		if o.isKind(kind) {
			return path
		}
	}
	return nil
}
