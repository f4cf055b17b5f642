package simulate

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// madeUp returns a placeholder for a name that the API server would generate.
// No object has it, because the API server accepts no "#" in a name.
func madeUp(prefix string, which any) string {
	return fmt.Sprintf("%s#%v", strings.TrimSuffix(prefix, "-"), which)
}

// A name is the name of an object of one kind.
type name struct {
	kind string
	types.NamespacedName
}

func nameOf(o metav1.Object) name {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return name{u.GroupVersionKind().GroupKind().String(), types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}}
	}
	return name{fmt.Sprintf("%T", o), types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
}

// errExists is the error for an object that the cluster has already.
var errExists = errors.New("already exists in the cluster: simulate takes new objects only; use kubectl fluence why, or give it another name")

// names has the names that are taken, each with the error for taking it again.
type names map[name]error

// take takes an object's name. It fails if another object has it.
func (n names) take(o metav1.Object) error {
	of := nameOf(o)
	if err, taken := n[of]; taken {
		return err
	}
	n[of] = errors.New("appears twice in the input")
	return nil
}
