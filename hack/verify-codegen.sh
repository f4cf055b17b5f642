#!/usr/bin/env bash
# Fails if hack/update-codegen.sh would change the tree. It works on a copy and changes nothing in
# the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT
mkdir -p "${copy}/hack/tools" "${copy}/manifests"
cp -R go.mod go.sum pkg sig-scheduler-plugins "${copy}"
cp -R hack/update-codegen.sh "${copy}/hack"
cp -R hack/tools/controller-gen "${copy}/hack/tools"
# A file that is no longer generated must be a difference.
find "${copy}/sig-scheduler-plugins" "${copy}/pkg/apis" -name 'zz_generated.*' -delete

"${copy}/hack/update-codegen.sh"

for dir in sig-scheduler-plugins pkg/apis manifests/crds; do
	if ! diff -Naur "${dir}" "${copy}/${dir}"; then
		echo "generated files are out of date: run hack/update-codegen.sh" >&2
		exit 1
	fi
done
