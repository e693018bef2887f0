#!/bin/sh
# Installs the `windrow` command from a release archive, after checking its SHA-256. Needs curl. To see where the archive was built, run
# `gh attestation verify ARCHIVE --repo windrow-rs/windrow`.
#
#   sh windrow-installer.sh [VERSION]
#
# WINDROW_INSTALL_DIR  folder for the command (default: ~/.local/bin)
# WINDROW_ARCHIVES     https address or folder of the archives (default: the repository's releases)
set -eu

version=${1:-latest}
folder=${WINDROW_INSTALL_DIR:-$HOME/.local/bin}
releases=https://github.com/windrow-rs/windrow/releases
if [ "$version" = latest ]; then
    archives=${WINDROW_ARCHIVES:-$releases/latest/download}
else
    archives=${WINDROW_ARCHIVES:-$releases/download/v${version#v}}
fi

fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

system=$(uname -s)
machine=$(uname -m)
case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no archive for the processor $machine" "build it with cargo install windrow-cli" ;;
esac
case $system in
    # The static archive runs on distributions with an older or another C library.
    Linux) if ldd --version 2>&1 | grep -qi 'gnu\|glibc'; then system=unknown-linux-gnu; else system=unknown-linux-musl; fi ;;
    Darwin) system=apple-darwin ;;
    *) fail "there is no archive for the system $system" "build it with cargo install windrow-cli" ;;
esac
archive=windrow-$machine-$system.tgz

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
get() {
    case $archives in
        # `--proto` holds for redirects, too. wget follows a redirect to http, so it is not used.
        https://*) curl --proto '=https' --tlsv1.2 -fsSL "$archives/$1" -o "$scratch/$1" ;;
        *://*) false ;;
        *) cp "$archives/$1" "$scratch/$1" ;;
    esac || fail "cannot get $archives/$1" "check the version and the network, or build it with cargo install windrow-cli"
}
get "$archive"
get "$archive.sha256"
# The digests are compared here: `sha256sum -c` checks the files that the list names, which need not be this one.
digest=$(if command -v sha256sum >/dev/null; then sha256sum "$scratch/$archive"; else shasum -a 256 "$scratch/$archive"; fi | cut -c 1-64)
if [ "${#digest}" -ne 64 ] || [ "$digest" != "$(cut -c 1-64 "$scratch/$archive.sha256")" ]; then
    fail "$archive does not match its SHA-256" "do not use this archive; download it again"
fi

tar xzf "$scratch/$archive" -C "$scratch"
mkdir -p "$folder"
# Renamed into place, so that a running command is not written over.
cp "$scratch/windrow-$machine-$system/windrow" "$folder/.windrow-new"
chmod 755 "$folder/.windrow-new"
mv "$folder/.windrow-new" "$folder/windrow"
echo "installed $folder/windrow"
case :$PATH: in *:"$folder":*) ;; *) echo "note: $folder is not in PATH" ;; esac
