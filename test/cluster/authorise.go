package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// These are the users of the simulation's components.
const (
	kwokUser    = "kwok"
	kubeletUser = "fake-kubelet"
)

// authorise gives KWOK the rights that its own files list, and the fake kubelet the rights that
// it needs. It exempts both from priority and fairness, because they stand for many kubelets.
func (c *Cluster) authorise(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	text, err := readText(filepath.Join(c.bins.KwokFiles, tools.KwokRole))
	if err != nil {
		return err
	}
	kwok := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(text, kwok); err != nil {
		return fmt.Errorf("parse the role of kwok: %w", err)
	}
	kubelet := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: kubeletUser},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}},
		},
	}
	for user, role := range map[string]*rbacv1.ClusterRole{kwokUser: kwok, kubeletUser: kubelet} {
		if _, err := c.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the role of %s: %w", user, err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind the role of %s: %w", user, err)
		}
	}
	return c.exempt(ctx, kwokUser, kubeletUser)
}

// exempt exempts users from priority and fairness.
func (c *Cluster) exempt(ctx context.Context, users ...string) error {
	all := []string{"*"}
	schema := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "simulated-kubelets"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "exempt"},
			MatchingPrecedence:         1000,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true,
				}},
			}},
		},
	}
	for _, user := range users {
		schema.Spec.Rules[0].Subjects = append(schema.Spec.Rules[0].Subjects, flowcontrolv1.Subject{
			Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user},
		})
	}
	if _, err := c.client.FlowcontrolV1().FlowSchemas().Create(ctx, schema, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("exempt %v from priority and fairness: %w", users, err)
	}
	return nil
}

// waitServiceAccount waits until the default namespace has its
// service account. Without it the API server refuses pods.
func (c *Cluster) waitServiceAccount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	accounts := c.client.CoreV1().ServiceAccounts(corev1.NamespaceDefault)
	err := Until(ctx, accounts, "metadata.name=default", func(e watch.EventType, _ *corev1.ServiceAccount) bool {
		return e != watch.Deleted
	})
	if err != nil {
		return fmt.Errorf("wait for the default service account: %w", err)
	}
	return nil
}

// makeServiceAccount creates the default service account,
// which the controller manager would have created.
func (c *Cluster) makeServiceAccount(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the default service account: %w", err)
	}
	return nil
}
