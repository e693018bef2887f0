#!/usr/bin/env bash
# Writes names.txt: the public names of rayon as published, by rustdoc. Needed again only for another version of rayon.
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
mkdir "$scratch/src"
printf '[package]\nname = "names"\nversion = "0.0.0"\nedition = "2024"\n[dependencies]\nrayon = "=1.12.0"\npublic-api = "=0.51.0"\n[workspace]\n' >"$scratch/Cargo.toml"
cat >"$scratch/src/main.rs" <<'RUST'
fn main() {
    let path = std::env::args().nth(1).expect("the JSON of rustdoc");
    print!("{}", public_api::Builder::from_rustdoc_json(path).omit_blanket_impls(true).build().expect("the JSON of this version"));
}
RUST
(cd "$scratch" && RUSTC_BOOTSTRAP=1 cargo rustdoc --quiet --package rayon --lib -- -Z unstable-options --output-format json --cap-lints allow)
(cd "$scratch" && cargo run --quiet -- target/doc/rayon.json) |
    sed -nE 's/^pub (trait|fn|struct|use|enum) rayon::([A-Za-z_0-9]+(::[A-Za-z_0-9]+)*).*/\1 \2/p' | sort -u >all.txt
# Free functions, methods of traits, and types. Methods of types are those of the traits; the prelude repeats the modules.
traits=$(sed -n 's/^trait //p' all.txt)
grep -vE ' prelude::' all.txt | while read -r kind name; do
    owner=${name%::*}
    case "$kind ${name##*::} ${owner##*::}" in
        fn\ [A-Z]*) ;;
        fn\ *\ [A-Z]*) if grep -qxF "$owner" <<<"$traits"; then echo "$name"; fi ;;
        *) echo "$name" ;;
    esac
done | sort -u >names.txt
rm all.txt
wc -l names.txt
