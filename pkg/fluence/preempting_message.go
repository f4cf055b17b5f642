package fluence

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// maxNamed is how many victims a message names.
const maxNamed = 3

// tellPreempting turns the refusal of a group into one that says what is evicted for it.
func (a *groupPlacer) tellPreempting(plan gang.Plan, of preemption.Preemptor, refused *gang.Refusal) {
	refused.Reason, refused.WaitsFor, refused.Equivalence, refused.Backoff = reason.Preempting, gang.WaitsForRoom, "", false
	refused.Message = translate.Shorten(a.describePreempting(plan.Key.Namespace, of))
	if !plan.Late {
		// The message is brought up to date.
		a.preemptions.askAt(of.UID, plan.Key, a.now().Add(preemptingInterval))
	}
}

// describePreempting says what is evicted for a group, in a message to users of a namespace.
func (a *groupPlacer) describePreempting(reader string, of preemption.Preemptor) string {
	now := a.now()
	var named []string
	var others othersOfVictims
	problem := ""
	total, ending, asked, since, longest := 0, 0, 0, plannedAt(a.evictor, of.UID, now), time.Duration(0)
	for _, v := range victimsOf(a.evictor, of.UID) {
		if v.State == eviction.TakenBack {
			continue
		}
		mayName := a.mayName(v.Namespace, reader)
		if v.Problem != "" && problem == "" {
			problem = "; a request has failed and is tried again"
			if mayName {
				problem += ": " + v.Problem
			}
		}
		for _, p := range v.Pods {
			total++
			pod, err := a.pods.Pods(v.Namespace).Get(p.Name)
			if err != nil || pod.UID != p.UID || !translate.Holds(pod) {
				continue
			}
			ending++
			if pod.DeletionTimestamp != nil {
				asked++
				longest = max(longest, pod.DeletionTimestamp.Sub(now))
			} else if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
				longest = max(longest, time.Duration(*s)*time.Second)
			}
		}
		switch {
		case !mayName || len(named) == maxNamed:
			others.add(v.Victim)
		case v.Kind == preemption.Pod:
			named = append(named, "pod "+v.Namespace+"/"+v.Name)
		default:
			named = append(named, fmt.Sprintf("group %s/%s (%s, priority %d)", v.Namespace, v.Name, reason.Plural(len(v.Pods), "pod"), v.Priority))
		}
	}
	if text := others.String(); text != "" {
		named = append(named, text)
	}
	if len(named) == 0 {
		return "waits for pods to end that are evicted for it"
	}
	text := fmt.Sprintf("waits for %s to end, evicted for it %ds ago", joinAnd(named), int(now.Sub(since)/time.Second))
	are := "are"
	if ending == 1 {
		are = "is"
	}
	text += fmt.Sprintf("; %d of %s %s still ending", ending, reason.Plural(total, "pod"), are)
	if ending > 0 {
		text += fmt.Sprintf(" (%ds at the longest)", int(longest.Round(time.Second)/time.Second))
	}
	if n := ending - asked; n > 0 && now.Sub(since) > preemptingInterval {
		text += fmt.Sprintf(", but %d of these have not been asked to", n)
	}
	return text + problem
}

// plannedAt returns when the plan for a preemptor was made whose victims have not all gone, or when the marks of an
// earlier process were found. Without such a plan it is now.
func plannedAt(e *eviction.Evictor, of types.UID, now time.Time) time.Time {
	for _, v := range e.Pending() {
		if v.For.UID == of && v.Accepted.Before(now) {
			now = v.Accepted
		}
	}
	return now
}

// victimsOf returns the victims of the plan for a preemptor. If there is none, it returns those of earlier plans that have
// not gone, and those that an earlier process has marked.
func victimsOf(e *eviction.Evictor, of types.UID) []eviction.Progress {
	victims := e.Of(of)
	if victims != nil {
		return victims
	}
	for _, v := range e.Pending() {
		if v.For.UID == of {
			victims = append(victims, v.Progress)
		}
	}
	return append(victims, e.Undecided(of)...)
}

// joinAnd joins parts of a sentence.
func joinAnd(parts []string) string {
	if n := len(parts) - 1; n > 0 {
		return strings.Join(parts[:n], ", ") + " and " + parts[n]
	}
	return parts[0]
}

// othersOfVictims counts the victims that a message does not name.
type othersOfVictims struct {
	groups, pods    int
	lowest, highest int32
}

func (o *othersOfVictims) add(v preemption.Victim) {
	if o.groups+o.pods == 0 {
		o.lowest, o.highest = v.Priority, v.Priority
	}
	o.lowest, o.highest = min(o.lowest, v.Priority), max(o.highest, v.Priority)
	if v.Kind == preemption.Pod {
		o.pods++
	} else {
		o.groups++
	}
}

// String returns nothing if there are none.
func (o *othersOfVictims) String() string {
	var parts []string
	if o.groups > 0 {
		parts = append(parts, reason.Plural(o.groups, "other group"))
	}
	if o.pods > 0 {
		parts = append(parts, reason.Plural(o.pods, "other pod"))
	}
	if len(parts) == 0 {
		return ""
	}
	priorities := fmt.Sprintf(" (priority %d)", o.lowest)
	if o.lowest < o.highest {
		priorities = fmt.Sprintf(" (priorities %d to %d)", o.lowest, o.highest)
	}
	return joinAnd(parts) + priorities
}
