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

// Message says why pods found no room, in one line of less than 1024 bytes, with the quantities of
// Kubernetes. Equal reasons give equal texts, so that repeated messages can be recognized. Slot
// labels are internal to the caller and left out. If there are more shortages than fit, the last
// ones are only counted.
//
// blockerName is the name of the group whose end would help most (r.Blocker), such as "job
// ns/name". If it is empty, this part is left out.
//
// all is the number of pods of all kinds that were asked for. The reason is about one kind of them.
func Message(r match.Reason, blockerName string, all int64) string {
	for n := len(r.Shortages); n > 0; n-- {
		if m := message(r, blockerName, all, n); len(m) <= maxMessage {
			return m
		}
	}
	return Shorten(message(r, blockerName, all, 0))
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
func message(r match.Reason, blockerName string, all int64, n int) string {
	var b strings.Builder
	wanted := pods(r.Wanted)
	if all > r.Wanted {
		wanted = fmt.Sprintf("%s, %d of one kind", pods(all), r.Wanted)
	}
	shown, more := r.Shortages[:n], len(r.Shortages)-n
	switch r.Code {
	case match.NoNode:
		b.WriteString("needs " + wanted + inOneLevel(r))
		if r.Nodes == 0 {
			b.WriteString(": the cluster has no nodes")
			break
		}
		fmt.Fprintf(&b, ": none of %s may be used", nodes(r.Nodes))
	case match.TooLarge:
		fmt.Fprintf(&b, "no node%s is large enough", inVertex(r))
		for i, s := range shown {
			fmt.Fprintf(&b, "%s%s %s wanted, largest node has %s", separator(i), kubernetesName(s.Type), quantity(s.Unit, s.Wanted), quantity(s.Unit, s.MaxOnNode))
		}
		writeMore(&b, more)
	case match.TooFew:
		b.WriteString("needs " + wanted)
		writeRequests(&b, shown)
		b.WriteString(inOneLevel(r))
		fmt.Fprintf(&b, "; room%s for %d", inVertex(r), r.Found)
		for i, s := range shown {
			b.WriteString(separator(i))
			writeShortage(&b, r, s)
		}
		writeMore(&b, more)
		if r.Blocker != nil && blockerName != "" {
			fmt.Fprintf(&b, "; room for %d%s%s%s", r.Blocker.MoreSlots, MoreIfPrefix, blockerName, EndsSuffix)
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
	writeOutlook(&b, r)
	return b.String()
}

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

func writeShortage(b *strings.Builder, r match.Reason, s match.Shortage) {
	name := kubernetesName(s.Type)
	if s.Type == TypePods {
		name = "the number of pods"
	}
	switch {
	case s.Nodes == 0:
		// Each node has enough for one pod, but the nodes do not have enough for all pods together.
		fmt.Fprintf(b, "%s is not enough for all pods", name)
	case inVertex(r) != "":
		// The reason does not give the number of nodes in that vertex.
		fmt.Fprintf(b, "%s is short on %s there", name, nodes(s.Nodes))
	default:
		usable := r.Nodes - r.Down - r.Excluded - r.OtherHolder - r.InUse
		if s.Nodes > usable {
			// If WaitingHelps is false, s.Nodes also counts nodes that are not ready.
			usable += r.Down
		}
		fmt.Fprintf(b, "%s is short on %d of %s", name, s.Nodes, nodes(usable))
	}
	free := " free"
	if !r.WaitingHelps {
		// The free amounts do not matter if waiting does not help. Then MaxOnNode may be the size of
		// a pool.
		free = ""
	}
	fmt.Fprintf(b, " (at most %s%s on a node)", quantity(s.Unit, s.MaxOnNode), free)
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

// inVertex names the vertex that has room for the most pods.
func inVertex(r match.Reason) string {
	switch {
	case r.Vertex == "" || r.Level == resource.TypeCluster:
		return ""
	case r.Vertex == Unlabelled:
		return " outside of any " + r.Level
	default:
		return " in " + r.Level + " " + r.Vertex
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
