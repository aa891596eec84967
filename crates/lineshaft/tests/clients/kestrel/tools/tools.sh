#!/usr/bin/env bash
# libmemcached's tools, against the server that KESTREL_PORT names. Each is a connection of its own. memcflush
# and memcexist cannot work: they want memcached's answers (`OK`, `add`), which Kestrel never gave.
set -euo pipefail

server=--servers=127.0.0.1:$KESTREL_PORT

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# expect WANTED COMMAND...: what the command prints, line ends at its end aside.
expect() {
  local wanted=$1 got
  shift
  got=$("$@") || fail "$*: exit code $?, it said $got"
  [[ $got == "$wanted" ]] || fail "$*: wanted $wanted, got $got"
}

memcping "$server" || fail 'memcping sees no server'

printf 'one' >work
memccp "$server" work
printf 'two\0three' >work
memccp "$server" work
expect one memccat "$server" work
# The end of the connection gives the item back.
memccat "$server" work/open | cmp - <(printf 'two\0three\n') || fail 'memccat work/open'
memccat "$server" work/peek | cmp - <(printf 'two\0three\n') || fail 'memccat work/peek'
memccat "$server" work | cmp - <(printf 'two\0three\n') || fail 'memccat work'
if memccat "$server" work; then fail 'memccat of an empty queue finds something'; fi

printf 'five' >work
memccp "$server" work
memcrm "$server" work
if memccat "$server" work; then fail 'memccat of a removed queue finds something'; fi

memcstat "$server" >stats
grep -qw 'version: 2.4.1' stats || fail "memcstat: $(<stats)"
grep -qw 'total_items: 3' stats || fail "memcstat: $(<stats)"
