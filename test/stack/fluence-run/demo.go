package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
)

// The nodes are in racks, the racks in blocks, and the blocks in zones, so that every file of
// manifests/examples can be tried.
const (
	rackLabel  = "topology.fluence.flux-framework.org/rack"
	blockLabel = "network.topology.nvidia.com/block"
)

// levels are the node labels that are levels of the graph, the outermost first.
var levels = []string{corev1.LabelTopologyZone, blockLabel, rackLabel}

const (
	// deviceDriver is the driver of the devices that an example claims.
	deviceDriver = "accelerator.example.com"
	// deviceNodes is the number of nodes with devices, and devicesOnNode the number on each.
	deviceNodes, devicesOnNode = 2, 4
)

// demoNodes returns the nodes of a new cluster. The zones are a and b, with a block
// each. The last two nodes have fast disks and devices, and the last one is for logins.
func demoNodes(nodes, racks int) cluster.Nodes {
	return cluster.Nodes{
		Count: nodes,
		Labels: func(i int) map[string]string {
			half := i * racks / nodes * 2 / racks
			labels := map[string]string{
				corev1.LabelTopologyZone: string(rune('a' + half)),
				blockLabel:               fmt.Sprintf("block%d", half),
				rackLabel:                fmt.Sprintf("rack%d", i*racks/nodes),
			}
			if i >= nodes-deviceNodes {
				labels["disktype"] = "ssd"
			}
			if i == nodes-1 {
				labels["role"] = "login"
			}
			return labels
		},
	}
}

// addDevices publishes the devices of the last nodes, as a driver of real devices would.
func addDevices(ctx context.Context, c *cluster.Cluster) error {
	list, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "disktype=ssd"})
	if err != nil {
		return fmt.Errorf("list the nodes with devices: %w", err)
	}
	for _, node := range list.Items {
		slice := &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: deviceDriver, NodeName: &node.Name,
				Pool: resourcev1.ResourcePool{Name: node.Name, ResourceSliceCount: 1},
			},
		}
		for i := range devicesOnNode {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("accelerator-%d", i)})
		}
		if _, err := c.Client().ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("publish the devices of %s: %w", node.Name, err)
		}
	}
	return nil
}
