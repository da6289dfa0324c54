#!/bin/sh
# Asks a running server by curl, whole and streamed: BASE=http://127.0.0.1:8080/v1 sh ask.sh "Why is the sky blue?"
set -eu
base=${BASE:-http://127.0.0.1:8080/v1}
# As a string of JSON has it.
question=$(printf '%s' "${1:-Why is the sky blue?}" | sed 's/[\\"]/\\&/g')
body() {
  printf '{"model":"%s","stream":%s,"max_tokens":40,"messages":[{"role":"user","content":"%s"}]}' \
    "$model" "$1" "$question"
}
models=$(curl -sS --fail-with-body "$base/models")
model=$(echo "$models" | sed 's/.*"data":\[{"id":"\([^"]*\)".*/\1/')
echo "model: $model"
curl -sS --fail-with-body "$base/chat/completions" -H 'Content-Type: application/json' -d "$(body false)"
echo
curl -sSN --fail-with-body "$base/chat/completions" -H 'Content-Type: application/json' -d "$(body true)"
