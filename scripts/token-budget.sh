#!/bin/sh
# Fails if `windrow count` finds more than MAX tokens.
#
#     token-budget.sh MAX ARGUMENT...
#
# The arguments are those of `windrow count`, such as paths. The pre-commit hook and the action of this repository run this script.
set -eu

max=$1
shift
case $max in
    '' | *[!0-9]*)
        printf 'error: the budget "%s" is no number of tokens\n' "$max" >&2
        exit 2
        ;;
esac
if ! command -v windrow >/dev/null; then
    printf 'error: the command windrow is missing\nhint: pip install windrow-rs\n' >&2
    exit 127
fi
report=$(windrow count --json "$@")
tokens=$(printf '%s\n' "$report" | sed -n 's/.*"total":{[^}]*"tokens":\([0-9]*\)}.*/\1/p')
if [ "${tokens:?no total in what windrow printed}" -gt "$max" ]; then
    printf 'error: %s tokens, more than the budget of %s\nhint: windrow count --top 10 shows the largest files\n' "$tokens" "$max" >&2
    exit 1
fi
echo "$tokens of $max tokens"
