#!/usr/bin/env bash
# Writes the Go code of sidecar/fluxionpb anew from its proto, and the proto in
# its canonical form. Every tool is built from hack/tools/buf; no protoc is
# needed. The first run builds the tools and takes a minute or two.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0

buf() { go tool -modfile=hack/tools/buf/go.mod buf "$@"; }

buf format --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb --write .
buf lint --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb .
buf generate --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb \
	--template hack/tools/buf/buf.gen.yaml .
