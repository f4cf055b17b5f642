#!/usr/bin/env bash
# Generates the deep copies and the CRDs of the API's types with controller-gen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The tool has a separate module, so that its dependencies are not the product's.
controller_gen=$(go -C hack/tools/controller-gen tool -n controller-gen)

"${controller_gen}" object crd \
	paths=./sig-scheduler-plugins/... paths=./pkg/apis/... \
	output:crd:dir=manifests/crds
