/* Loads a model in this program and asks it one question, as it answers.
 * cc ask.c $(pkg-config --cflags --libs lib_mlx) -o ask && ./ask FOLDER "Why is the sky blue?" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib_mlx.h"

/* A piece of the body: lines of server-sent events. */
static int32_t show(const uint8_t *bytes, int64_t count, void *context) {
  (void)context;
  return fwrite(bytes, 1, (size_t)count, stdout) != (size_t)count;
}

int main(int count, char **words) {
  char request[8192], *answer, *found;
  if (count < 3) return fprintf(stderr, "usage: ask FOLDER QUESTION\n"), 2;
  snprintf(request, sizeof request, "{\"model_path\":\"%s\",\"model_id\":\"m\"}", words[1]);
  answer = lib_mlx_load_model(request);
  found = answer ? strstr(answer, "\"handle\":") : NULL;
  if (!found) return fprintf(stderr, "%s\n", answer ? answer : "no memory"), 1;
  int64_t handle = strtoll(found + 9, NULL, 10);
  lib_mlx_free(answer);
  snprintf(request, sizeof request,
           "{\"model\":\"m\",\"stream\":true,\"max_tokens\":40,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
           words[2]);
  answer = lib_mlx_request(handle, "POST", "/v1/chat/completions", request, -1, show, NULL);
  /* Also a refusal has been shown: its body says why. */
  int is_done = answer && strstr(answer, "\"status\":200");
  lib_mlx_free(answer);
  lib_mlx_free(lib_mlx_unload_model(handle));
  return is_done ? 0 : 1;
}
