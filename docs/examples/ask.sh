#!/bin/sh
# Asks a running server by curl, whole and streamed: BASE=http://127.0.0.1:8080/v1 sh ask.sh "Why is the sky blue?"
set -eu
base=${BASE:-http://127.0.0.1:8080/v1}
question=${1:-Why is the sky blue?}
body() {
  printf '{"model":"%s","stream":%s,"max_tokens":40,"messages":[{"role":"user","content":"%s"}]}' \
    "$model" "$1" "$question"
}
model=$(curl -fsS "$base/models" | sed 's/.*"data":\[{"id":"\([^"]*\)".*/\1/')
echo "model: $model"
curl -fsS "$base/chat/completions" -H 'Content-Type: application/json' -d "$(body false)"
echo
curl -fsSN "$base/chat/completions" -H 'Content-Type: application/json' -d "$(body true)"
