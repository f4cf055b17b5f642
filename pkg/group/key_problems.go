package group

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A KeyedObject is the labels and annotations of an object, or of a template in it.
type KeyedObject struct {
	Place Place
	// Kind names the object in messages, such as Job. It is empty if Place says enough.
	Kind                string
	Labels, Annotations map[string]string
}

// The limits of what KeyProblems returns. An API server takes warnings of 256 bytes each and of 4096 bytes
// in all.
const (
	// MaxKeyProblems is the largest number of texts, MaxKeyProblem the largest number of bytes of one.
	MaxKeyProblems = 8
	MaxKeyProblem  = 256
	// maxShownKey is the largest number of bytes of an unknown key in a text.
	maxShownKey = 80
)

// KeyProblems returns the labels and annotations with this project's prefixes that have no effect where they
// are, in words fit for a user: unknown ones with the nearest name, those that have an effect elsewhere, and
// labels that have to be annotations or the reverse. The objects are of one group. A known key is no problem
// if another of the objects has it where it has its effect. A label that a Job and its pods have is of the pods. The texts are without doubles, and bounded by
// MaxKeyProblems and MaxKeyProblem. They are about the first keys by form and name. The others are only
// counted, because an object can have tens of thousands of keys, and a nearest name takes time.
func KeyProblems(objects ...KeyedObject) []string {
	keys, more := uselessKeys(objects), 0
	if len(keys) == 0 {
		return nil
	}
	if len(keys) > MaxKeyProblems {
		more = len(keys) - MaxKeyProblems + 1
		keys = keys[:MaxKeyProblems-1]
	}
	known := Keys()
	var problems []string
	for _, k := range keys {
		problems = append(problems, keyProblem(known, k))
	}
	slices.Sort(problems)
	problems = slices.Compact(problems)
	if more > 0 {
		problems = append(problems, fmt.Sprintf("%d more labels and annotations of Fluence have no effect", more))
	}
	return problems
}

// A writtenKey is a key at an object of this place and kind.
type writtenKey struct {
	form  Form
	name  string
	place Place
	kind  string
}

// uselessKeys returns the keys with this project's prefixes that have no effect where they are, each once,
// by form and name.
func uselessKeys(objects []KeyedObject) []writtenKey {
	var known []Key
	var useless []writtenKey
	seen := map[writtenKey]bool{}
	for _, o := range objects {
		for _, f := range []Form{LabelForm, AnnotationForm} {
			for name := range o.values(f) {
				k := writtenKey{f, name, o.Place, o.Kind}
				if !isOwnKey(name) || seen[k] || f == LabelForm && isDefaulted(o, name, objects) {
					continue
				}
				seen[k] = true
				if known == nil {
					known = Keys() // most objects have no such key
				}
				same := func(k Key) bool { return k.Name == name && k.Form == f }
				if i := slices.IndexFunc(known, same); i < 0 || !known[i].Has(o.Place) && !hasEffect(known[i], objects) {
					useless = append(useless, k)
				}
			}
		}
	}
	slices.SortFunc(useless, func(a, b writtenKey) int {
		return cmp.Or(cmp.Compare(a.form, b.form), cmp.Compare(a.name, b.name), cmp.Compare(a.place, b.place), cmp.Compare(a.kind, b.kind))
	})
	return useless
}

// isDefaulted reports whether a Job has a label that its pods have with the same value. The API server copies the labels of
// the pod template to a Job without labels (k8s.io/kubernetes/pkg/apis/batch/v1, SetDefaults_Job). So the user
// has to correct the template.
func isDefaulted(o KeyedObject, name string, objects []KeyedObject) bool {
	return o.Place == OnWorkload && o.Kind == "Job" && slices.ContainsFunc(objects, func(pod KeyedObject) bool {
		value, has := pod.Labels[name]
		return has && pod.Place == OnPod && value == o.Labels[name]
	})
}

// values returns the labels or the annotations of the object.
func (o *KeyedObject) values(f Form) map[string]string {
	if f == LabelForm {
		return o.Labels
	}
	return o.Annotations
}

// keyProblem says in words why a key has no effect.
func keyProblem(keys []Key, k writtenKey) string {
	name, f := k.name, k.form
	named := func(k Key) bool { return k.Name == name }
	here := func(other Key) bool { return other.Name == name && other.Has(k.place) }
	at := fmt.Sprintf("%s %s of the %s", f, shownKey(name), cmp.Or(k.kind, string(k.place)))
	if i := slices.IndexFunc(keys, here); i >= 0 {
		return fmt.Sprintf("%s: has no effect; it has to be %s", at, keys[i].Form.withArticle())
	}
	if i := slices.IndexFunc(keys, named); i >= 0 {
		return fmt.Sprintf("%s: has no effect there, only as %s of the %s", at, keys[i].Form.withArticle(), placesOf(keys[i]))
	}
	nearest := nearestKey(keys, name, f)
	if nearest == nil {
		return at + ": there is no such key, and it has no effect"
	}
	suggestion := nearest.Name
	if nearest.Form != f {
		suggestion = fmt.Sprintf("the %s %s", nearest.Form, nearest.Name)
	}
	return fmt.Sprintf("%s: there is no such key, and it has no effect; did you mean %s?", at, suggestion)
}

// hasEffect reports whether one of the objects has a key where it has its effect.
func hasEffect(k Key, objects []KeyedObject) bool {
	return slices.ContainsFunc(objects, func(o KeyedObject) bool {
		_, has := o.values(k.Form)[k.Name]
		return has && k.Has(o.Place)
	})
}

func (f Form) withArticle() string {
	if f == LabelForm {
		return "a label"
	}
	return "an annotation"
}

// placesOf lists the places of a key for a user who wrote it elsewhere.
func placesOf(k Key) string {
	var places []string
	for _, p := range k.Places {
		if p != OnWorkload {
			places = append(places, string(p))
		}
	}
	return strings.Join(places, " or ")
}

// keyCharacters are the characters that keys of labels and annotations may have.
const keyCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

// shownKey returns a key for a message. What is no valid key is quoted, and a long one is cut.
func shownKey(name string) string {
	if strings.Trim(name, keyCharacters) != "" {
		name = strconv.QuoteToASCII(name[:min(len(name), maxShownKey)])
	}
	if len(name) > maxShownKey {
		name = name[:maxShownKey] + "..."
	}
	return name
}

// bareKeyPrefix is the prefix of the keys of this project that have no domain.
const bareKeyPrefix = "fluence."

// maxDomainErrors is how many characters may be wrong in the domain of a key of this project.
const maxDomainErrors = 3

// isOwnKey reports whether a key has a prefix of this project, or one that is nearly the same.
func isOwnKey(name string) bool {
	domain, _, has := strings.Cut(name, "/")
	if !has {
		return strings.HasPrefix(name, bareKeyPrefix) || name == Label
	}
	own := strings.TrimSuffix(annotationPrefix, "/")
	return domain == own || name == Label || abs(len(domain)-len(own)) <= maxDomainErrors && editDistance(domain, own) <= maxDomainErrors
}

// nearestKey returns the key that a user may have meant by a name. One of the same form goes first among
// equally near ones. It returns nil if none is near.
func nearestKey(keys []Key, name string, f Form) *Key {
	var nearest *Key
	least := 0
	for i := range keys {
		k := &keys[i]
		// Half of the part after the prefix may be wrong.
		part := k.Name[strings.LastIndexAny(k.Name, "./")+1:]
		most := max(maxDomainErrors, len(part)/2)
		if k.Written || abs(len(k.Name)-len(name)) > most {
			continue
		}
		d := editDistance(name, k.Name)
		if d > most {
			continue
		}
		if nearest == nil || d < least || d == least && nearest.Form != f && k.Form == f {
			nearest, least = k, d
		}
	}
	return nearest
}

// editDistance returns how many bytes have to be inserted, removed or replaced to
// make b of a: the distance of Levenshtein.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func abs(n int) int { return max(n, -n) }
