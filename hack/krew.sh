#!/usr/bin/env bash
# Packs kubectl-fluence for krew, in bin/krew: an archive for each platform, and the manifest
# with their names.
#
#   hack/krew.sh VERSION URL [OS/ARCH...]
#
# URL is the folder from which users will download the archives. To try an archive:
#
#   hack/krew.sh v0.0.1 https://example.com linux/amd64
#   kubectl krew install --manifest=bin/krew/fluence.yaml --archive=bin/krew/kubectl-fluence_linux_amd64.tar.gz
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -lt 2 || ! $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then
	echo "usage: hack/krew.sh VERSION URL [OS/ARCH...], where VERSION is like v1.2.3" >&2
	exit 1
fi
version=$1 url=${2%/}
shift 2
[[ $# -gt 0 ]] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

out=bin/krew
rm -rf "$out"
mkdir -p "$out"
manifest=$out/fluence.yaml
cat >"$manifest" <<EOF
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: fluence
spec:
  version: $version
  homepage: https://github.com/flux-k8s/fluence
  shortDescription: See which groups wait and why, and where one would go
  description: |
    Shows what the gang scheduler Fluence does: which groups there are, why one
    waits, what is free in which rack, and where the pods of a file would go now.
    It reads what its user may read. Only hold, release and cancel write.
  platforms:
EOF
for platform; do
	os=${platform%/*} arch=${platform#*/}
	folder=$(mktemp -d)
	echo "Building kubectl-fluence for $platform"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version" -o "$folder/kubectl-fluence" ./cmd/kubectl-fluence
	cp LICENSE "$folder"
	archive=kubectl-fluence_${os}_$arch.tar.gz
	# The same files make the same archive, whoever packs them and when.
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - -C "$folder" kubectl-fluence LICENSE | gzip -n >"$out/$archive"
	rm -r "$folder"
	cat >>"$manifest" <<EOF
  - selector:
      matchLabels: {os: $os, arch: $arch}
    uri: $url/$archive
    sha256: $(sha256sum "$out/$archive" | cut -d ' ' -f 1)
    bin: kubectl-fluence
EOF
done
