package invariants

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// judgeBinds judges the binds about which everything is known by now.
func (j *judge) judgeBinds(now time.Time) {
	n := 0
	for n < len(j.binds) && now.Sub(j.binds[n].at) >= judgeAfter {
		j.judgeBind(j.binds[n])
		n++
	}
	j.binds = slices.Delete(j.binds, 0, n)
}

// judgeBind judges one bind, if it was Fluence's and can be judged.
func (j *judge) judgeBind(b bind) {
	request, known := j.request(b)
	ours := known && slices.Contains(j.cfg.Accounts, request.user)
	if !ours {
		if t := j.book(b.pod.node).tenants[b.pod.uid]; t != nil {
			t.ours = false
		}
	}
	switch {
	case !known && b.pod.scheduler == j.cfg.Scheduler && !b.listed && !b.made:
		j.stats.BindsUnknown++
		return
	case !ours:
		j.stats.BindsForeign++
		return
	case b.listed || j.missed(b.version) || j.excuses.deaf(request.received.Add(-grace), b.at):
		j.stats.BindsExcused++
		j.standings = append(j.standings, standing{bind: b, received: request.received, excused: true})
		return
	}
	j.stats.Binds++
	j.judgeNode(b, request.received)
	j.judgeAdmitted(b, request.received)
	j.standings = append(j.standings, standing{bind: b, received: request.received})
}

// request finds the request that bound a pod. The log does not tell which of several
// pods of the same name was meant. The request is the last one before the node was seen.
func (j *judge) request(b bind) (found auditFact, known bool) {
	const skew = time.Second // creation times are in whole seconds
	for _, a := range j.asked[b.pod.key] {
		if !a.received.After(b.at) && a.received.After(b.pod.created.Add(-skew)) && a.received.After(found.received) {
			found, known = a, true
		}
	}
	return found, known
}

// missed reports whether changes around this version were missed.
func (l *ledger) missed(version uint64) bool {
	return slices.ContainsFunc(l.gaps, func(g gap) bool { return version > g.after && version <= g.to })
}

// judgeNode judges a bind by the state of the node:
// whether it was open to the pod and had room for it.
func (j *judge) judgeNode(b bind, received time.Time) {
	horizon := received.Add(-grace)
	book := j.book(b.pod.node)
	states := book.statesAt(b.version, horizon)
	if closed := closedTo(b.pod, states); closed != "" {
		j.report(RuleNodeClosed, b.pod.key, received, "it was bound to node %s, which %s for more than %v", b.pod.node, closed, grace)
		return
	}
	room := amounts{}
	for _, s := range states {
		if !s.gone {
			room = most(room, s.allocatable)
		}
	}
	charged := amounts{}
	var holders []string
	for uid, t := range book.tenants {
		if uid == b.pod.uid {
			continue
		}
		if c := t.charged(b.version, horizon); c != nil {
			charged.add(c)
			holders = append(holders, t.key.String())
		}
	}
	if short := shortOf(room, charged, b.pod.asks); short != "" {
		slices.Sort(holders)
		j.report(RuleFullNode, b.pod.key, received, "it was bound to node %s, which had been full for more than %v: %s; held by %s",
			b.pod.node, grace, short, abridged(holders))
	}
}

// closedTo returns why no state of a node admits a pod. It returns "" if one does.
func closedTo(p podFact, states []state) string {
	why := "did not exist"
	for _, s := range states {
		switch taint, tainted := untolerated(p, s.taints); {
		case s.gone:
			why = "had been deleted"
		case s.closed && !tolerates(p, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}):
			why = "had been unschedulable"
		case tainted:
			why = fmt.Sprintf("had the taint %s", taint.ToString())
		default:
			return ""
		}
	}
	return why
}

func untolerated(p podFact, taints []corev1.Taint) (corev1.Taint, bool) {
	return corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, p.tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, true)
}

func tolerates(p podFact, taint corev1.Taint) bool {
	_, found := untolerated(p, []corev1.Taint{taint})
	return !found
}

// shortOf returns which resources are too scarce for
// a pod, with numbers. It returns "" if all suffice.
func shortOf(room, charged, asks amounts) string {
	var short []string
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if n := asks[name]; n > 0 && charged[name]+n > room[name] {
			unit := ""
			if name == corev1.ResourceCPU {
				unit = "m"
			}
			short = append(short, fmt.Sprintf("%s: %d%s held and %d%s more, of %d%s", name, charged[name], unit, n, unit, room[name], unit))
		}
	}
	return strings.Join(short, ", ")
}

// abridged joins the first few names, and the number of the others.
func abridged(names []string) string {
	const most = 12
	if len(names) <= most {
		return cmp.Or(strings.Join(names, " "), "nobody")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], " "), len(names)-most)
}
