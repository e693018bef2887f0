#!/bin/sh
# Fails if `windrow count` finds more than MAX tokens.
#
#     token-budget.sh MAX ARGUMENT...
#
# The arguments are those of `windrow count`, such as paths. This repository's pre-commit hook and action run this script.
set -eu

max=$1
shift
case $max in
    '' | *[!0-9]*)
        printf 'error: the budget "%s" is not a number of tokens\n' "$max" >&2
        exit 2
        ;;
esac
if ! command -v windrow >/dev/null; then
    printf 'error: the windrow command was not found\nhint: pip install windrow-rs\n' >&2
    exit 127
fi
report=$(windrow count --json "$@")
tokens=$(printf '%s\n' "$report" | sed -n 's/.*"total":{[^}]*"tokens":\([0-9]*\)}.*/\1/p')
if [ "${tokens:?windrow printed no total}" -gt "$max" ]; then
    printf 'error: %s tokens, more than the budget of %s\nhint: windrow count --top 10 shows the largest files\n' "$tokens" "$max" >&2
    exit 1
fi
echo "$tokens of $max tokens"
