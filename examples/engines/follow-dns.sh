#!/bin/sh
# Makes all engines join that a name leads to: follow-dns.sh NAME PORT [SERVICE]
#
# Absence in DNS is no absence. An engine that is paused for new weights fails its readiness check, so Kubernetes takes
# its address out of the name for a while, although it still holds streams. So this script makes none leave (replace:
# false). One that is really gone is noticed by the next request, and leaves after `forget_after` (temporal.yaml).
set -eu
name=$1 port=$2 service=${3:-default} before=
while :; do
  now=$(getent ahosts "$name" | awk -v port="$port" '$2 == "STREAM" {
    host = index($1, ":") ? "[" $1 "]" : $1
    print "\"http://" host ":" port "/v1\""
  }' | sort -u | paste -sd, - || true)
  if [ -n "$now" ] && [ "$now" != "$before" ]; then
    temporal workflow execute-update-with-start --type policy --workflow-id "policy/$service" \
      --id-conflict-policy UseExisting --task-queue rollouts --input "{\"service\": \"$service\"}" \
      --update-name engines --update-input "{\"owner\": \"dns\", \"urls\": [$now], \"replace\": false}" && before=$now
  fi
  sleep 10
done
