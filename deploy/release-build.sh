#!/usr/bin/env bash
# Builds what a release has from the tree that this stands in, into DIR:
#   bash deploy/release-build.sh DIR [binaries] [openssl] [packages] [image] [sbom]
# Without a list, all; "name" alone only says what the build is called. packages and image
# take the binaries that are there. On amd64, with Go and git; openssl needs gcc and libssl-dev, image needs buildah, sbom needs jq.
# The bytes depend on the commit, Go, and for image and openssl on the machine's
# authorities, compiler and OpenSSL headers; not on the directory, the time or the user.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC

NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
CYCLONEDX=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

out=$(realpath -m "${1:?usage: bash deploy/release-build.sh DIR [binaries] [openssl] [packages] [image] [sbom]}")
shift
parts=" ${*:-binaries openssl packages image sbom} "
for part in $parts; do
	case $part in
	name | binaries | openssl | packages | image | sbom) ;;
	*) echo "there is no part $part: give some of binaries openssl packages image sbom" >&2 && exit 2 ;;
	esac
done
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
wants() { [[ $parts == *" $1 "* ]]; }

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
commit=$(git rev-parse --short=12 HEAD)
stamp=$(git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S)
release=$(sed -n 's/^const release = "\(.*\)"$/\1/p' internal/daemon/build.go)
[ -n "$release" ]

# The module's version as the go command says it: the tag, or a pseudo-version.
if module=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null); then
	[ "$module" = "v$release" ] || { echo "the tag is $module, internal/daemon/build.go says $release: make them equal" >&2; exit 1; }
	grep -qE "^## $release \([0-9]{4}-[0-9]{2}-[0-9]{2}\)\$" CHANGELOG.md || { echo "CHANGELOG.md has no line '## $release (YYYY-MM-DD)': put the date of the release there and tag that commit" >&2; exit 1; }
	name=$release debian=$release
else
	if last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null); then
		[ "$last" != "v$release" ] || { echo "$last is released, and this commit comes after it: raise the number in internal/daemon/build.go" >&2; exit 1; }
		module=${last%.*}.$((${last##*.} + 1))-0.$stamp-$commit
	else
		module=v0.0.0-$stamp-$commit
	fi
	name=$release-dev+$commit debian=$release~dev.$stamp+$commit
fi

echo "countersign $name, module $module, packages $debian"

build() { # NAME GOARCH CGO TAGS
	CGO_ENABLED=$3 GOOS=linux GOARCH=$2 GOAMD64=v1 go build -trimpath -buildvcs=true -ldflags "-s -w" -tags "$4" -o "$out/countersign-$name-$1" ./cmd/countersign
}
if wants binaries; then
	for arch in ${COUNTERSIGN_ARCHES:-amd64 arm64}; do build "linux-$arch" "$arch" 0 ""; done
fi
if wants openssl; then build linux-amd64-openssl amd64 1 openssl; fi

if wants packages; then
	root=$stage/root
	mkdir -p "$root/units" "$root/doc"
	for end in serve:countersign gateway:countersign-gateway relay:countersign-relay; do
		unit=countersign-${end%:*}.service
		# The package has users of its own, so that files and roles of PostgreSQL can name them.
		sed -e 's,/usr/local/bin/,/usr/bin/,' -e "s,^DynamicUser=yes\$,User=${end#*:}," "deploy/systemd/$unit" >"$root/units/$unit"
		grep -q "^User=${end#*:}\$" "$root/units/$unit"
	done
	cp deploy/package/countersign.sysusers deploy/package/copyright deploy/package/lintian-overrides deploy/countersign.toml "$root/"
	gzip -9nc CHANGELOG.md >"$root/changelog.gz"
	printf 'countersign (%s-1) unstable; urgency=medium\n\n  * CHANGELOG.md, beside this file, says what is in it.\n\n -- countersign <nobody@countersign.invalid>  %s\n' \
		"$debian" "$(git log -1 --format=%cd --date=format-local:'%a, %d %b %Y %H:%M:%S +0000')" | gzip -9n >"$root/changelog.Debian.gz"
	cp README.md ARCHITECTURE.md PROTOCOL.md SECURITY.md FIGURES.md "$root/doc/"
	cp -r docs deploy/prometheus deploy/grafana "$root/doc/"
	rm "$root"/doc/prometheus/*.test.yml
	# A checkout has the modes of who made it.
	chmod -R u=rwX,go=rX "$root"
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	for arch in ${COUNTERSIGN_ARCHES:-amd64 arm64}; do
		cp -p "$out/countersign-$name-linux-$arch" "$root/countersign"
		touch -d "@$SOURCE_DATE_EPOCH" "$root/countersign"
		cat >"$stage/nfpm.yaml" <<EOF
name: countersign
arch: $arch
platform: linux
version: "$debian"
version_schema: none
release: "1"
section: net
priority: optional
maintainer: countersign <nobody@countersign.invalid>
description: |
  both ends of a custody callback
  A wallet service tells its merchants of deposits and asks them to confirm
  withdrawals. This package has the service, the merchant's gateway, the relay
  and their tools. A unit is started when its operator enables it.
license: not chosen yet
umask: 0o022
contents:
  - {src: $root/countersign, dst: /usr/bin/countersign, file_info: {mode: 0755}}
  - {src: $root/units/countersign-serve.service, dst: /lib/systemd/system/countersign-serve.service, file_info: {mode: 0644}, packager: deb}
  - {src: $root/units/countersign-gateway.service, dst: /lib/systemd/system/countersign-gateway.service, file_info: {mode: 0644}, packager: deb}
  - {src: $root/units/countersign-relay.service, dst: /lib/systemd/system/countersign-relay.service, file_info: {mode: 0644}, packager: deb}
  - {src: $root/units/countersign-serve.service, dst: /usr/lib/systemd/system/countersign-serve.service, file_info: {mode: 0644}, packager: rpm}
  - {src: $root/units/countersign-gateway.service, dst: /usr/lib/systemd/system/countersign-gateway.service, file_info: {mode: 0644}, packager: rpm}
  - {src: $root/units/countersign-relay.service, dst: /usr/lib/systemd/system/countersign-relay.service, file_info: {mode: 0644}, packager: rpm}
  - {src: $root/countersign.sysusers, dst: /usr/lib/sysusers.d/countersign.conf, file_info: {mode: 0644}}
  - {dst: /etc/countersign, type: dir, file_info: {mode: 0755}}
  - {src: $root/countersign.toml, dst: /etc/countersign/countersign.toml, type: config|noreplace, file_info: {mode: 0644}}
  - {src: $root/copyright, dst: /usr/share/doc/countersign/copyright, file_info: {mode: 0644}}
  - {src: $root/changelog.gz, dst: /usr/share/doc/countersign/changelog.gz, file_info: {mode: 0644}}
  - {src: $root/changelog.Debian.gz, dst: /usr/share/doc/countersign/changelog.Debian.gz, file_info: {mode: 0644}, packager: deb}
  - {src: $root/lintian-overrides, dst: /usr/share/lintian/overrides/countersign, file_info: {mode: 0644}, packager: deb}
  - {src: $root/doc, dst: /usr/share/doc/countersign, type: tree}
overrides:
  deb:
    depends: [systemd | systemd-standalone-sysusers | systemd-sysusers]
    recommends: [ca-certificates]
    scripts: {postinstall: deploy/package/postinst, preremove: deploy/package/prerm, postremove: deploy/package/postrm}
  rpm:
    depends: [systemd]
    recommends: [ca-certificates]
    scripts: {postinstall: deploy/package/rpm-post, preremove: deploy/package/rpm-preun, postremove: deploy/package/rpm-postun}
rpm:
  buildhost: localhost
  summary: both ends of a custody callback
deb:
  compression: gzip
EOF
		# With the flags of the binaries, so that Go's own packages are compiled once.
		for format in deb rpm; do
			CGO_ENABLED=0 go run -trimpath "$NFPM" package --config "$stage/nfpm.yaml" --packager "$format" --target "$out/"
		done
	done
fi

if wants image; then
	authorities=/etc/ssl/certs/ca-certificates.crt
	[ -e "$authorities" ] || { echo "there is no $authorities: install ca-certificates" >&2; exit 1; }
	store=(buildah --storage-driver vfs --root "$stage/store" --runroot "$stage/run")
	for arch in ${COUNTERSIGN_ARCHES:-amd64 arm64}; do
		files=$stage/image-$arch
		mkdir -p "$files/etc/ssl/certs"
		mkdir -m 0700 "$files/data"
		cp "$authorities" "$files/etc/ssl/certs/"
		cp "$out/countersign-$name-linux-$arch" "$files/countersign"
		container=$("${store[@]}" from --arch "$arch" scratch)
		# The data directory is laid by itself, since --chown is for all that one call copies.
		"${store[@]}" add -q --chown 0:0 "$container" "$files/etc" /etc >/dev/null
		"${store[@]}" add -q --chown 0:0 "$container" "$files/countersign" /countersign >/dev/null
		"${store[@]}" add -q --chown 65532:65532 "$container" "$files/data" /data >/dev/null
		chmod 0700 "$("${store[@]}" mount "$container")/data"
		"${store[@]}" umount "$container" >/dev/null
		"${store[@]}" config --arch "$arch" --os linux --user 65532:65532 --volume /data --env COUNTERSIGN_DATA=/data --env TMPDIR=/data \
			--port 8080 --port 8090 --port 8091 --entrypoint '["/countersign"]' --cmd 'serve --listen 0.0.0.0:8080 --insecure-listen' \
			--label "org.opencontainers.image.version=$name" --label "org.opencontainers.image.revision=$(git rev-parse HEAD)" "$container"
		image=$("${store[@]}" commit -q --format oci --timestamp "$SOURCE_DATE_EPOCH" --omit-history "$container")
		"${store[@]}" push -q "$image" "oci:$stage/layout-$arch:countersign:$name"
		tar -C "$stage/layout-$arch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf "$out/countersign-$name-oci-$arch.tar" .
		jq -r --arg arch "$arch" '"image " + $arch + " " + .manifests[0].digest' "$stage/layout-$arch/index.json"
	done
fi

if wants sbom; then
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go run "$CYCLONEDX" app -json -licenses -std -noserial -main cmd/countersign -output "$stage/sbom.json" .
	jq -S 'del(.metadata.timestamp, .serialNumber)' "$stage/sbom.json" >"$out/countersign-$name-sbom.cdx.json"
fi
