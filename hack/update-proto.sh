#!/usr/bin/env bash
# Generates the Go code of sidecar/fluxionpb from its proto, and formats the proto. Every tool is
# built from hack/tools/buf, so protoc is not needed. The first run builds the tools, which takes
# a minute or two.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0

buf() { go tool -modfile=hack/tools/buf/go.mod buf "$@"; }

buf format --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb --write .
buf lint --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb .
buf generate --config hack/tools/buf/buf.yaml --path sidecar/fluxionpb \
	--template hack/tools/buf/buf.gen.yaml .
