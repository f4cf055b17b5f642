package main

import (
	"fmt"

	"github.com/flux-k8s/fluence/test/cluster"
)

// rackLabel is the node label of the racks.
const rackLabel = "topology.fluence.flux-framework.org/rack"

// levels are the node labels that are levels of the graph, the outermost first. The examples use them.
var levels = []string{rackLabel}

// demoNodes returns the nodes of a new cluster.
func demoNodes(nodes, racks int) cluster.Nodes {
	return cluster.Nodes{
		Count: nodes,
		Labels: func(i int) map[string]string {
			return map[string]string{rackLabel: fmt.Sprintf("rack%d", i*racks/nodes)}
		},
	}
}
