#!/usr/bin/env bash
# Builds a release of the commit that is checked out, twice, each in a clone of its own, and
# keeps it in dist/ if both have the same bytes. COUNTERSIGN_RELEASE_COLD=1 gives the second
# an empty build cache, so that it compiles everything anew.
# COUNTERSIGN_RELEASE_KEY names a secret key of minisign that signs the checksums.
# What needs a tool that is missing is named first and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "$(git status --porcelain)" ]; then
	echo "a release is built from a commit: commit or remove what git status shows" >&2
	exit 1
fi
parts=(binaries)
needs() { # PART TOOL...
	local tool missing=()
	for tool in "${@:2}"; do
		case $tool in
		*/*) [ -e "$tool" ] || missing+=("$tool") ;;
		*) command -v "$tool" >/dev/null || missing+=("$tool") ;;
		esac
	done
	if [ ${#missing[@]} -gt 0 ]; then echo "left out: $1, which needs ${missing[*]}"; else parts+=("$1"); fi
}
needs openssl gcc /usr/include/openssl/evp.h
needs packages gzip
needs image buildah jq /etc/ssl/certs/ca-certificates.crt
needs sbom jq
if [ -n "${COUNTERSIGN_RELEASE_KEY-}" ] && ! command -v minisign >/dev/null; then
	echo "COUNTERSIGN_RELEASE_KEY is set and there is no minisign: install it" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for build in one another; do
	git clone -q --no-hardlinks . "$work/$build"
	cache=$(go env GOCACHE)
	if [ "$build" = another ] && [ -n "${COUNTERSIGN_RELEASE_COLD-}" ]; then cache=$work/cache; fi
	GOCACHE=$cache bash "$work/$build/deploy/release-build.sh" "$work/dist-$build" "${parts[@]}"
	(cd "$work/dist-$build" && sha256sum -- * >"$work/$build.sums")
done
if ! diff "$work/one.sums" "$work/another.sums"; then
	echo "the two builds differ" >&2
	exit 1
fi
# No test runs the arm64 binary.
if command -v qemu-aarch64-static >/dev/null; then
	qemu-aarch64-static "$work"/dist-one/countersign-*-linux-arm64 demo --bits 1024 >"$work/demo" || { cat "$work/demo" && exit 1; }
	echo "the arm64 binary passed its demo under QEMU"
else
	echo "the arm64 binary was not run: there is no qemu-aarch64-static"
fi
mv "$work/one.sums" "$work/dist-one/SHA256SUMS"
if [ -n "${COUNTERSIGN_RELEASE_KEY-}" ]; then
	minisign -S -s "$COUNTERSIGN_RELEASE_KEY" -t "countersign $(git rev-parse HEAD)" -m "$work/dist-one/SHA256SUMS"
else
	echo "SHA256SUMS is not signed: COUNTERSIGN_RELEASE_KEY names no key of minisign"
fi
rm -rf dist
mv "$work/dist-one" dist
ls -l dist
