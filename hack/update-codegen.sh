#!/usr/bin/env bash
# Writes what controller-gen generates: the deep copies and the CRD of PodGroup.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The tool has a module of its own, so that its dependencies are not the product's.
controller_gen=$(go -C hack/tools/controller-gen tool -n controller-gen)

"${controller_gen}" object crd \
	paths=./sig-scheduler-plugins/... \
	output:crd:dir=manifests/crds
