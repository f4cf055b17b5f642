#!/usr/bin/env bash
# Fails if hack/update-proto.sh would change the tree. It changes nothing in the tree.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0

buf() { go tool -modfile=hack/tools/buf/go.mod buf "$@"; }

fresh=$(mktemp -d)
trap 'rm -rf "${fresh}"' EXIT

buf lint --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb .
if ! buf format --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb --diff --exit-code .; then
	echo "the proto is not in its canonical form: run hack/update-proto.sh" >&2
	exit 1
fi
buf generate --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb \
	--template hack/tools/buf/buf.gen.yaml --output "${fresh}" .

# The files of both folders: a file that is no longer generated is a difference too.
for file in $( (cd "${fresh}" && ls sidecar/fluxionpb/*.pb.go; cd "${OLDPWD}" && ls sidecar/fluxionpb/*.pb.go) | sort -u); do
	if ! diff -u "${file}" "${fresh}/${file}"; then
		echo "${file} is not what the proto makes: run hack/update-proto.sh" >&2
		exit 1
	fi
done
