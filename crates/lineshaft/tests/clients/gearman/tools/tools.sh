#!/usr/bin/env bash
# The C tools gearman and gearadmin: every mode of submitting, workers that work, fail and die, and the listings.
set -euo pipefail

readonly server=(-h 127.0.0.1 -p "$GEARMAN_PORT")
readonly folder=$(mktemp -d)
worker_ids=()

finish() {
  local id
  for id in "${worker_ids[@]}"; do kill -KILL "$id" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }

equal() { [[ $1 == "$2" ]] || fail "$3: wanted '$1', got '$2'"; }

# Tries a command until it succeeds, for ten seconds.
await() {
  local attempt
  for attempt in {1..200}; do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.05
  done
  fail "never true: $*"
}

client() { timeout 20 gearman "${server[@]}" "$@"; }

admin() { timeout 20 gearadmin "${server[@]}" "$@"; }

# Starts a worker and returns when the server knows it.
start_worker() {
  local function=$1
  shift
  gearman "${server[@]}" -w -f "$function" "$@" &
  worker_ids+=($!)
  await shows_worker "$function"
}

shows_worker() { admin --status | grep -qP "^$1\t\d+\t\d+\t1$"; }

status_is() { admin --status | grep -qxF "$(printf '%s\t%s\t%s\t%s' "$@")"; }

holds_lines() { [[ $(wc -l <"$2") -eq $1 ]]; }

# A result comes back, whole, for a small and for a large workload.
start_worker wc -- wc -l
equal 3 "$(printf 'a\nb\nc\n' | client -f wc)" "lines counted"
start_worker echo -- cat
start_worker sum -- cksum
start_worker zeros -- sh -c 'head -c "$(cat)" /dev/zero'
head -c 300000 /dev/urandom >"$folder/large"
equal "$(cksum <"$folder/large")" "$(client -f sum <"$folder/large")" "a large workload"
equal 300000 "$(client -f zeros 300000 | wc -c)" "a large result"
equal hello "$(client -f echo hello)" "a workload from the command line"
equal "" "$(client -s -f echo)" "no workload"
equal "high low" "$(client -I -f echo 'high ')$(client -L -f echo low)" "priorities in the foreground"
equal "wc: 0" "$(client -P -f wc x)" "a result with the function's name"
equal "$(printf 'a\nb')" "$(printf 'a\nb\n' | client -n -f echo)" "a job per line"

# Priorities and order, with jobs that wait for their worker.
for text in 1 2 3; do
  client -b -L -f later "low $text" && client -b -f later "normal $text" && client -b -I -f later "high $text"
done >"$folder/handles"
status_is later 9 0 0 || fail "nine jobs should wait: $(admin --status)"
admin --priority-status | grep -qxF "$(printf 'later\t3\t3\t3\t0')" || fail "priorities: $(admin --priority-status)"
gearman "${server[@]}" -w -c 9 -f later -- sh -c "cat >>'$folder/order'; echo >>'$folder/order'"
sorted=$(printf '%s %s\n' high 1 high 2 high 3 normal 1 normal 2 normal 3 low 1 low 2 low 3)
equal "$sorted" "$(cat "$folder/order")" "order of work"
await status_is later 0 0 0

# Equal keys are one job; cancelled jobs are not run.
client -b -u same -f keyed one >/dev/null && client -b -u same -f keyed two >/dev/null && client -b -u other -f keyed three >/dev/null
status_is keyed 2 0 0 || fail "two jobs should wait: $(admin --status)"
equal "$(printf 'other\nsame')" "$(admin --show-unique-jobs | grep -v '^\.' | sort)" "unique keys"
handle=$(admin --show-jobs | head -n 1 | cut -f 1)
admin --cancel-job "$handle" | grep -q OK || fail "cancelling $handle"
admin --cancel-job H:nobody:1 2>&1 | grep -q UNKNOWN_JOB || fail "cancelling what is not there"
start_worker keyed -- sh -c "cat >>'$folder/keyed'"
await status_is keyed 0 0 1
[[ $(cat "$folder/keyed") =~ ^(one|three)$ ]] || fail "ran $(cat "$folder/keyed")"

# A worker that is killed in the middle of a job: another one does it.
start_worker fragile -- sh -c "echo \$\$ >'$folder/command'; exec sleep 600"
dying=${worker_ids[-1]}
client -f fragile precious >"$folder/fragile" &
client_id=$!
await status_is fragile 1 1 1
await test -s "$folder/command"
kill -KILL "$dying" "$(<"$folder/command")"
await status_is fragile 1 0 0
start_worker fragile -- cat
wait "$client_id"
equal precious "$(cat "$folder/fragile")" "the job of a dead worker"

# Nobody works: the client gives up, and its job with it.
client -t 300 -f nobody x >"$folder/complaint" 2>&1 || true
grep -qi timeout "$folder/complaint" || fail "a job that nobody does: $(<"$folder/complaint")"

# Functions and the server itself.
admin --create-function made | grep -q OK || fail "creating a function"
status_is made 0 0 0 || fail "the function should be listed"
admin --drop-function made | grep -q OK || fail "dropping a function"
if status_is made 0 0 0; then fail "the function should be gone"; fi
admin --drop-function wc 2>&1 | grep -q 'there are still connected workers' || fail "dropping what is used"
admin --server-version | grep -qE '[0-9]' || fail "version"
admin --server-verbose | grep -qE '[A-Z]' || fail "verbosity"
admin --getpid | grep -qE '[0-9]' || fail "process id"
admin --workers | grep -qE '127\.0\.0\.1 \S* ?: ?wc' || fail "workers: $(admin --workers)"
