package simulate

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// madeUp is a name in place of one that is drawn when an object is made. No object has
// it: the API server takes no "#" in a name.
func madeUp(prefix string, which any) string {
	return fmt.Sprintf("%s#%v", strings.TrimSuffix(prefix, "-"), which)
}

// A name is that of an object in its kind.
type name struct {
	kind string
	types.NamespacedName
}

func nameOf(o metav1.Object) name {
	return name{fmt.Sprintf("%T", o), types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
}

// errExists is of an object that is in the cluster.
var errExists = errors.New("exists already: simulate makes what is not there yet, and changes nothing that is; ask why about it, or give it another name")

// names says of names whether an object in the cluster has them, or one that was made.
type names map[name]error

// take takes an object's name. It fails if another object has it.
func (n names) take(o metav1.Object) error {
	of := nameOf(o)
	if err, taken := n[of]; taken {
		return err
	}
	n[of] = errors.New("is there twice in what is to be simulated")
	return nil
}
