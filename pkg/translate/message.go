package translate

import (
	"fmt"
	"strconv"
	"strings"

	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// maxMessage bounds a message in bytes, because the message of an event may not be longer.
const maxMessage = 1023

// A Background is what a message says besides the matcher's reason.
type Background struct {
	// Pods is the number of pods of all kinds that were asked for. The reason is about one kind of them.
	Pods int64
	// Blocker names the group whose end would help most (match.Reason.Blocker), such as "job ns/name".
	// If it is empty, this part is left out.
	Blocker string
	// Promised names the group to which room is promised (match.Reason.Promised), and from when. If it is empty,
	// this part is left out.
	Promised string
	// Causes are the constraints of the pods because of which there is not enough room.
	Causes []string
	// Never is true if the numbers of the reason are those of the cluster without pods that end.
	Never bool
	// Without returns how many of the usable nodes have none of an extended resource, whoever
	// uses it. Nil means that this is not known.
	Without func(resource string) int64
}

// Message says why pods found no room, in one line of less than 1024 bytes, with the quantities of
// Kubernetes. Equal reasons give equal texts, so that repeated messages can be recognized. Slot
// labels are internal to the caller and left out. If there are more shortages than fit, the last
// ones are only counted.
func Message(r match.Reason, bg Background) string {
	for n := len(r.Shortages); n > 0; n-- {
		if m := message(r, bg, n); len(m) <= maxMessage {
			return m
		}
	}
	return Shorten(message(r, bg, 0))
}

// MoreIfPrefix and EndsSuffix surround the name of the blocker. The name can change from one
// message to the next, so callers cut out this part before they compare messages.
const (
	MoreIfPrefix = " more if "
	EndsSuffix   = " ends"
)

// Shorten cuts a text to the length of an event's message.
func Shorten(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
}

// WhyNoRoom names the types of which less is free than asked for, in one line with the quantities
// of Kubernetes. It returns "" if there is enough of all types. The free amount is capacity minus held.
func WhyNoRoom(asked, held, capacity Amounts) string {
	var lacks []string
	for _, t := range asked.Types() {
		if free := max(capacity[t]-held[t], 0); asked[t] > free {
			lacks = append(lacks, fmt.Sprintf("%s %s wanted, %s of %s free",
				kubernetesName(t), quantity(unit(t), asked[t]), quantity(unit(t), free), quantity(unit(t), capacity[t])))
		}
	}
	return strings.Join(lacks, ", ")
}

// message returns the text of a reason with its first n shortages.
func message(r match.Reason, bg Background, n int) string {
	var b strings.Builder
	wanted := pods(r.Wanted)
	if bg.Pods > r.Wanted {
		wanted = fmt.Sprintf("%s, %d of one kind", pods(bg.Pods), r.Wanted)
	}
	shown, more := r.Shortages[:n], len(r.Shortages)-n
	switch r.Code {
	case match.NoNode:
		b.WriteString("needs " + wanted + inOneLevel(r))
		if r.Nodes == 0 {
			b.WriteString(": the cluster has no nodes")
			break
		}
		b.WriteString(writtenCauses(bg.Causes))
		fmt.Fprintf(&b, "%snone of %s may be used", beginning(bg.Causes), nodes(r.Nodes))
	case match.TooLarge:
		if len(bg.Causes) > 0 {
			b.WriteString(strings.Join(bg.Causes, "; ") + "; ")
		}
		fmt.Fprintf(&b, "no node%s is large enough", inVertex(r))
		for i, s := range shown {
			b.WriteString(separator(i))
			writeTooLarge(&b, r, s)
		}
		writeMore(&b, more)
	case match.TooFew:
		b.WriteString("needs " + wanted)
		writeRequests(&b, shown)
		b.WriteString(inOneLevel(r))
		if isEmptyView(r, bg) {
			fmt.Fprintf(&b, "; %s", couldHold(r))
		} else {
			fmt.Fprintf(&b, "; room%s for %d", inVertex(r), r.Found)
		}
		b.WriteString(writtenCauses(bg.Causes))
		for i, s := range shown {
			if i == 0 {
				b.WriteString(beginning(bg.Causes))
			} else {
				b.WriteString(", ")
			}
			writeShortage(&b, r, bg, s)
		}
		writeMore(&b, more)
		if r.Blocker != nil && bg.Blocker != "" {
			fmt.Fprintf(&b, "; room for %d%s%s%s", r.Blocker.MoreSlots, MoreIfPrefix, bg.Blocker, EndsSuffix)
		}
		if r.Promised != nil && bg.Promised != "" {
			fmt.Fprintf(&b, "; room for %d more is promised to %s", r.Promised.MoreSlots, bg.Promised)
		}
	case match.NotFound:
		fmt.Fprintf(&b, "needs %s%s: no placement was found", wanted, inOneLevel(r))
		if r.Found > 0 {
			fmt.Fprintf(&b, " for more than %d", r.Found)
		}
		amounts := "free amounts"
		if !r.WaitingHelps {
			amounts = "amounts of the nodes"
		}
		fmt.Fprintf(&b, ", although the %s%s would be enough", amounts, inVertex(r))
	case match.TooHard:
		b.WriteString("finding nodes for " + wanted + " takes more steps than the matcher may take for one request: use fewer kinds of pods, affinity terms or spread constraints")
		return b.String()
	case match.Overtaken:
		b.WriteString("nodes were found, but they were taken or changed during the search")
		return b.String()
	default:
		// A newer matcher may have other codes. Its own words are better than none.
		b.WriteString(r.String())
		return b.String()
	}
	writeUnusable(&b, r)
	writeOccupied(&b, r)
	if r.Code != match.TooFew || !isEmptyView(r, bg) {
		writeOutlook(&b, r)
	}
	return b.String()
}

// isEmptyView reports whether the numbers of a reason are those of the cluster without pods that end.
func isEmptyView(r match.Reason, bg Background) bool { return bg.Never && !r.WaitingHelps }

// couldHold says for how many pods there would be room in the cluster without pods that end.
func couldHold(r match.Reason) string {
	where, it := "the nodes", "they were"
	if v := vertex(r); v != "" {
		where, it = v, "it were"
		if r.Vertex == Unlabelled {
			where, it = "the nodes"+inVertex(r), "they were"
		}
	}
	return fmt.Sprintf("%s could hold %d if %s empty", where, r.Found, it)
}

// writtenCauses returns the causes as they follow the number of pods for which there is room.
func writtenCauses(causes []string) string {
	if len(causes) == 0 {
		return ""
	}
	return ": " + strings.Join(causes, "; ")
}

// beginning returns what separates what follows the causes from what is before.
func beginning(causes []string) string {
	if len(causes) == 0 {
		return ": "
	}
	return "; "
}

// writeTooLarge writes that a pod is too large for some nodes, or for all.
func writeTooLarge(b *strings.Builder, r match.Reason, s match.Shortage) {
	name := kubernetesName(s.Type)
	switch usable := usableNodes(r, s); {
	case s.Nodes < usable:
		// Other nodes have enough of it, but not of the other resources.
		fmt.Fprintf(b, "%s %s wanted, %d of %s %s less", name, quantity(s.Unit, s.Wanted), s.Nodes, nodes(usable), has(s.Nodes))
	case s.MaxOnNode == 0 && isExtended(s.Type):
		fmt.Fprintf(b, "no node has %s", name)
	default:
		fmt.Fprintf(b, "%s %s wanted, largest node has %s", name, quantity(s.Unit, s.Wanted), quantity(s.Unit, s.MaxOnNode))
	}
}

// usableNodes returns of how many nodes the nodes of a shortage are a part.
func usableNodes(r match.Reason, s match.Shortage) int64 {
	usable := r.Nodes - r.Down - r.Excluded - r.OtherHolder - r.InUse
	if s.Nodes > usable {
		// If WaitingHelps is false, s.Nodes also counts nodes that are not ready.
		usable += r.Down
	}
	return usable
}

// isExtended reports whether a type of pool is an extended resource, which many nodes may not have.
func isExtended(poolType string) bool { return strings.Contains(poolType, "/") }

// writeRequests writes the requests of a pod for the pools that are short. It leaves out TypePods,
// of which every pod requests one.
func writeRequests(b *strings.Builder, shortages []match.Shortage) {
	word := " with "
	for _, s := range shortages {
		if s.Type != TypePods {
			fmt.Fprintf(b, "%s%s %s", word, kubernetesName(s.Type), quantity(s.Unit, s.Wanted))
			word = ", "
		}
	}
}

func writeShortage(b *strings.Builder, r match.Reason, bg Background, s match.Shortage) {
	name := kubernetesName(s.Type)
	if s.Type == TypePods {
		name = "the number of pods"
	}
	free := " free"
	if !r.WaitingHelps {
		// The free amounts do not matter if waiting does not help. Then MaxOnNode may be the size of
		// a pool.
		free = ""
	}
	most := quantity(s.Unit, s.MaxOnNode) + free
	usable := usableNodes(r, s)
	without := int64(0)
	if s.Nodes > 0 && inVertex(r) == "" && bg.Without != nil && isExtended(s.Type) {
		// The count is of another moment than the reason, so it may not agree with it.
		if n := bg.Without(s.Type); n < s.Nodes {
			without = n
		}
	}
	switch short, have := s.Nodes-without, usable-without; {
	case s.Nodes == 0:
		// Each node has enough for one pod, but the nodes do not have enough for all pods together.
		fmt.Fprintf(b, "%s is not enough for all pods (at most %s on a node)", name, most)
		return
	case inVertex(r) != "":
		// The reason does not give the number of nodes in that vertex.
		fmt.Fprintf(b, "%s is short on %s there", name, nodes(s.Nodes))
	case without > 0 && short == have && s.MaxOnNode == 0:
		fmt.Fprintf(b, "%s with %s %s full", allNodes(have), name, isOrAreWord(have))
		return
	case r.WaitingHelps && s.MaxOnNode == 0 && short == have && have > 1:
		b.WriteString(noneHas(have, s.Type))
		return
	case without > 0:
		fmt.Fprintf(b, "%s is short on %d of %s that %s it", name, short, nodes(have), has(have))
	default:
		fmt.Fprintf(b, "%s is short on %d of %s", name, s.Nodes, nodes(usable))
	}
	switch {
	case s.Nodes-without == 1:
		fmt.Fprintf(b, " (%s)", most)
	case r.WaitingHelps && s.MaxOnNode == 0:
		b.WriteString(" (none free)")
	default:
		fmt.Fprintf(b, " (at most %s on each)", most)
	}
}

// noneHas says that nothing of a type of pool is free on any of several nodes.
func noneHas(n int64, poolType string) string {
	if poolType == TypePods {
		return fmt.Sprintf("none of the %s takes another pod", nodes(n))
	}
	return fmt.Sprintf("none of the %s has free %s", nodes(n), kubernetesName(poolType))
}

// allNodes returns a number of nodes, as a text which says that these are all.
func allNodes(n int64) string {
	switch n {
	case 1:
		return "the only node"
	case 2:
		return "both nodes"
	default:
		return "all " + nodes(n)
	}
}

func writeMore(b *strings.Builder, more int) {
	if more > 0 {
		fmt.Fprintf(b, ", and %d more resources", more)
	}
}

// writeUnusable writes how many nodes are not ready, and how many are excluded.
func writeUnusable(b *strings.Builder, r match.Reason) {
	var parts []string
	if r.Down > 0 {
		parts = append(parts, isOrAre(r.Down)+" not ready")
	}
	if r.Excluded > 0 {
		parts = append(parts, isOrAre(r.Excluded)+" excluded")
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "; of %s, %s", nodes(r.Nodes), strings.Join(parts, " and "))
	}
}

// writeOccupied writes how many nodes could not be used because of the pods of others there.
func writeOccupied(b *strings.Builder, r match.Reason) {
	switch r.InUse {
	case 0:
	case 1:
		b.WriteString("; 1 node is in use, but whole nodes are requested")
	default:
		fmt.Fprintf(b, "; %s are in use, but whole nodes are requested", nodes(r.InUse))
	}
	switch r.OtherHolder {
	case 0:
	case 1:
		b.WriteString("; 1 node is used exclusively by another group")
	default:
		fmt.Fprintf(b, "; %s are used exclusively by other groups", nodes(r.OtherHolder))
	}
}

// writeOutlook writes whether waiting helps, but only if that is unexpected for the code. With TooFew
// and NotFound waiting usually helps. With TooLarge and NoNode it usually does not.
func writeOutlook(b *strings.Builder, r match.Reason) {
	switch r.Code {
	case match.TooFew, match.NotFound:
		if !r.WaitingHelps {
			b.WriteString("; does not fit even when other pods end")
		}
	case match.TooLarge, match.NoNode:
		if r.WaitingHelps {
			b.WriteString("; waiting may help")
		}
	case match.TooHard, match.Overtaken:
		// The message says it already.
	}
}

// inOneLevel returns " in one" and the level, if the
// request failed because all pods must be below one vertex.
func inOneLevel(r match.Reason) string {
	if r.Vertex == "" || r.Level == resource.TypeCluster {
		return ""
	}
	return " in one " + r.Level
}

// inVertex says where the vertex is that has room for the most pods.
func inVertex(r match.Reason) string {
	switch v := vertex(r); {
	case v == "":
		return ""
	case r.Vertex == Unlabelled:
		return " outside of any " + r.Level
	default:
		return " in " + v
	}
}

// vertex names the vertex that has room for the most pods. A name that begins with the level, such as
// rack0, says the level already.
func vertex(r match.Reason) string {
	switch {
	case r.Vertex == "" || r.Level == resource.TypeCluster:
		return ""
	case strings.HasPrefix(r.Vertex, r.Level):
		return r.Vertex
	default:
		return r.Level + " " + r.Vertex
	}
}

func separator(i int) string {
	if i == 0 {
		return ": "
	}
	return ", "
}

func pods(n int64) string {
	if n == 1 {
		return "1 pod"
	}
	return strconv.FormatInt(n, 10) + " pods"
}

func nodes(n int64) string {
	if n == 1 {
		return "1 node"
	}
	return strconv.FormatInt(n, 10) + " nodes"
}

// isOrAre returns a number with the verb that goes with it.
func isOrAre(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return strconv.FormatInt(n, 10) + " are"
}

// isOrAreWord returns the verb that goes with a number.
func isOrAreWord(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// has returns the verb that goes with a number of nodes.
func has(n int64) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// kubernetesName is the inverse of poolType.
func kubernetesName(poolType string) string {
	if poolType == TypeCore {
		return "cpu"
	}
	return poolType
}

// quantity returns an amount as a manifest would have it.
func quantity(unit string, n int64) string {
	switch unit {
	case unitMilli:
		return apiresource.NewMilliQuantity(n, apiresource.DecimalSI).String()
	case unitBytes:
		return apiresource.NewQuantity(n, apiresource.BinarySI).String()
	default:
		return strconv.FormatInt(n, 10) + unit
	}
}
