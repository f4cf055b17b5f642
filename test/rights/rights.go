// Package rights compares what roles grant with what was used according to an audit log.
package rights

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/flux-k8s/fluence/test/cluster"
)

// A Right is one verb on one resource.
type Right struct {
	// Verb is a verb of RBAC.
	Verb string
	// Group is the API group. It is empty for the core group.
	Group string
	// Resource is the plural of the resource. A subresource follows after a slash.
	Resource string
	// Namespace is the namespace. In a grant it is empty for all namespaces.
	Namespace string
	// Name is the name of the object. In a grant it is empty for all objects.
	Name string
}

// String returns a right as in "patch podgroups.scheduling.x-k8s.io/status".
func (r Right) String() string {
	kind, sub, _ := strings.Cut(r.Resource, "/")
	if r.Group != "" {
		kind += "." + r.Group
	}
	if sub != "" {
		kind += "/" + sub
	}
	text := r.Verb + " " + kind
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// Covers reports whether a grant allows a use.
func (r Right) Covers(use Right) bool {
	return r.Verb == use.Verb && r.Group == use.Group && r.Resource == use.Resource &&
		(r.Namespace == "" || r.Namespace == use.Namespace) && (r.Name == "" || r.Name == use.Name)
}

func compare(a, b Right) int { return cmp.Compare(a.String(), b.String()) }

// Granted returns the rights that rules grant in a namespace, or everywhere
// if the namespace is empty. It returns an error for a rule with an
// asterisk, because nobody can have used everything that it grants.
func Granted(rules []rbacv1.PolicyRule, namespace string) ([]Right, error) {
	var granted []Right
	for i, rule := range rules {
		for field, words := range map[string][]string{"verbs": rule.Verbs, "apiGroups": rule.APIGroups, "resources": rule.Resources} {
			if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "*") }) {
				return nil, fmt.Errorf("rules[%d].%s: %q: grants all", i, field, words)
			}
		}
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						granted = append(granted, Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name})
					}
				}
			}
		}
	}
	slices.SortFunc(granted, compare)
	return slices.Compact(granted), nil
}

// A Record is the use of rights by one user, according to an audit log.
type Record struct {
	// Used are the rights of the requests that the authorizer allowed, each once, in order.
	Used []Right
	// Denied are the rights that were missing.
	Denied []Right
}

// decision is the annotation with the authorizer's decision. The status code would not do, because
// an admission plugin forbids requests too, for example in a namespace that is being deleted.
const (
	decision  = "authorization.k8s.io/decision"
	forbidden = "forbid"
)

// Read returns the record of a user in an audit log.
func Read(events iter.Seq2[cluster.AuditEvent, error], user string) (Record, error) {
	var r Record
	seen := map[Right]bool{}
	for event, err := range events {
		if err != nil {
			return Record{}, err
		}
		if event.User.Username != user || event.ObjectRef == nil {
			continue
		}
		ref := event.ObjectRef
		use := Right{Verb: event.Verb, Group: ref.APIGroup, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
		if ref.Subresource != "" {
			use.Resource += "/" + ref.Subresource
		}
		switch {
		case event.Annotations[decision] == forbidden:
			r.Denied = append(r.Denied, use)
		case !seen[use]:
			seen[use] = true
			r.Used = append(r.Used, use)
		}
	}
	slices.SortFunc(r.Used, compare)
	slices.SortFunc(r.Denied, compare)
	r.Denied = slices.Compact(r.Denied)
	return r, nil
}

// Unused returns the granted rights that no use needed.
func Unused(granted, used []Right) []Right {
	return slices.DeleteFunc(slices.Clone(granted), func(g Right) bool { return slices.ContainsFunc(used, g.Covers) })
}
