#!/usr/bin/env bash
# The store's contract suite and races, Stellar lakes, and the program with archives that machines share, on an S3-compatible server that this script starts and stops.
# As root, with the tool ceph-s3 at hand: Ceph, a real distributed store. Otherwise moto, which
# checks and then writes: it shows that the protocol is spoken, and proves no race.
#   CEPH_S3=path/to/ceph-s3   where the tool is, if not in ../shared/tools beside the checkout
set -euo pipefail
cd "$(dirname "$0")/../../.."
CEPH_S3=${CEPH_S3:-../shared/tools/ceph-s3}
DIR=$(mktemp -d)
PACKAGES="ceph-mon ceph-osd ceph-mgr radosgw ceph-common"

stop() {
  for file in "$DIR"/*.pid; do
    if [ -s "$file" ]; then kill -9 "$(cat "$file")" 2>/dev/null || true; fi
  done
  rm -rf "$DIR"
}
trap stop EXIT
trap 'exit 130' INT TERM

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start_ceph() {
  if ! { command -v radosgw && command -v ceph-mon && command -v ceph-osd && command -v ceph-mgr; } >/dev/null; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $PACKAGES >/dev/null
  fi
  "$CEPH_S3" "$DIR" "$(free_port)" | tail -n1
}

start_moto() {
  local port; port=$(free_port)
  python3 -m venv "$DIR/venv" >&2
  "$DIR/venv/bin/pip" install -q 'moto[server,s3]' >&2
  "$DIR/venv/bin/moto_server" -H 127.0.0.1 -p "$port" >"$DIR/moto.log" 2>&1 &
  echo $! >"$DIR/moto.pid"
  curl -s -o /dev/null --retry 60 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$port/"
  echo "http://127.0.0.1:$port"
}

if [ "$(id -u)" = 0 ] && [ -x "$CEPH_S3" ]; then
  SERVER=Ceph
  ENDPOINT=$(start_ceph)
else
  SERVER=moto
  ENDPOINT=$(start_moto)
fi
echo "store: $SERVER at $ENDPOINT"

export CHRONOLITH_S3_ENDPOINT=$ENDPOINT CHRONOLITH_S3_BUCKET=chronolith-test
export CHRONOLITH_S3_KEY=AKTEST CHRONOLITH_S3_SECRET=SKTEST
# A request of the bucket's owner: a path, then the body. Older curl signs the body's hash but does not add it.
ask() {
  curl -sS -f -o /dev/null -X PUT --data-binary "$2" -H "x-amz-content-sha256: $(printf '%s' "$2" | sha256sum | cut -d' ' -f1)" \
    --user "$CHRONOLITH_S3_KEY:$CHRONOLITH_S3_SECRET" --aws-sigv4 "aws:amz:us-east-1:s3" "$ENDPOINT/$1"
}
ask "$CHRONOLITH_S3_BUCKET" ""
# A bucket that anybody may read, as public lakes are.
export CHRONOLITH_S3_OPEN_BUCKET=chronolith-open
ask "$CHRONOLITH_S3_OPEN_BUCKET" ""
ask "$CHRONOLITH_S3_OPEN_BUCKET?policy=" '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:ListBucket"],"Resource":["arn:aws:s3:::chronolith-open","arn:aws:s3:::chronolith-open/*"]}]}'
cargo test -p chronolith-store --features s3 --test s3 -- --nocapture
cargo test -p chronolith-source --features s3 --test stellar_lake_s3 -- --nocapture
AWS_ENDPOINT=$ENDPOINT AWS_ALLOW_HTTP=true AWS_REGION=us-east-1 \
  AWS_ACCESS_KEY_ID=$CHRONOLITH_S3_KEY AWS_SECRET_ACCESS_KEY=$CHRONOLITH_S3_SECRET \
  cargo test -p chronolith-node --test shared_storage -- --nocapture

if [ "$SERVER" = moto ]; then
  echo "store: moto only: the protocol works, but NO RACE WAS PROVEN (needs root and ceph-s3)"
fi
