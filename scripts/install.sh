#!/bin/sh
# Installs the `windrow` command from an archive of a release, after checking its SHA-256.
#
#   sh windrow-installer.sh [VERSION]
#
# WINDROW_INSTALL_DIR  the folder of the command (default: ~/.local/bin)
# WINDROW_ARCHIVES     where archives come from: an address or a folder (default: the releases of the repository)
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
    *) fail "no archive for the processor $machine" "cargo install windrow-cli" ;;
esac
case $system in
    # The static archive runs on distributions with an older or another C library.
    Linux) if ldd --version 2>&1 | grep -qi 'gnu\|glibc'; then system=unknown-linux-gnu; else system=unknown-linux-musl; fi ;;
    Darwin) system=apple-darwin ;;
    *) fail "no archive for the system $system" "cargo install windrow-cli" ;;
esac
archive=windrow-$machine-$system.tgz

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
get() {
    case $archives in
        https://*) if command -v curl >/dev/null; then curl --proto '=https' -fsSL "$archives/$1" -o "$scratch/$1"; else wget --https-only -q "$archives/$1" -O "$scratch/$1"; fi ;;
        http://*) false ;;
        *) cp "$archives/$1" "$scratch/$1" ;;
    esac || fail "cannot get $archives/$1" "check the version and the network, or cargo install windrow-cli"
}
get "$archive"
get "$archive.sha256"
(
    cd "$scratch"
    if command -v sha256sum >/dev/null; then sha256sum -c "$archive.sha256"; else shasum -a 256 -c "$archive.sha256"; fi
) >/dev/null || fail "$archive does not have its SHA-256" "download it again; do not use this one"

tar xzf "$scratch/$archive" -C "$scratch"
mkdir -p "$folder"
# Renamed into place, so that a running command is not written over.
cp "$scratch/windrow-$machine-$system/windrow" "$folder/.windrow-new"
chmod 755 "$folder/.windrow-new"
mv "$folder/.windrow-new" "$folder/windrow"
echo "installed $folder/windrow"
case :$PATH: in *:"$folder":*) ;; *) echo "note: $folder is not in PATH" ;; esac
