/* Cases of lib_mlx from C. Usage: library CASE MODEL_FOLDER. Prints what is wrong, and ends with 1 then. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib_mlx.h"

static const char *folder;
static atomic_int failures;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
      failures++;                                                             \
    }                                                                         \
  } while (0)

/* Whether the answer holds a piece of text; frees it. */
static int has(char *answer, const char *piece) {
  int found = answer != NULL && strstr(answer, piece) != NULL;
  if (!found) fprintf(stderr, "not in it: %s\n  %s\n", piece, answer ? answer : "NULL");
  lib_mlx_free(answer);
  return found;
}

static int64_t number(const char *answer, const char *name) {
  const char *at = answer ? strstr(answer, name) : NULL;
  return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static int64_t load(const char *more) {
  char config[4096];
  snprintf(config, sizeof config, "{\"model_path\":\"%s\"%s}", folder, more);
  char *answer = lib_mlx_load_model(config);
  int64_t handle = number(answer, "\"handle\":");
  if (handle <= 0) fprintf(stderr, "not loaded: %s\n", answer ? answer : "NULL");
  lib_mlx_free(answer);
  return handle;
}

static int start(int64_t handle) {
  char *answer = lib_mlx_start_server(handle, "{}");
  int port = (int)number(answer, "\"port\":");
  if (port <= 0) fprintf(stderr, "not started: %s\n", answer ? answer : "NULL");
  lib_mlx_free(answer);
  return port;
}

static int entries(const char *path) {
  DIR *directory = opendir(path);
  int count = 0;
  while (readdir(directory)) count++;
  closedir(directory);
  return count;
}

static long resident(void) {
  long pages = 0, all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

/* Sends a request and reads the answer to its end. */
static char *fetch(int port, const char *body) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x7F000001)};
  if (connect(s, (struct sockaddr *)&place, sizeof place) != 0) { close(s); return strdup("no connection"); }
  char head[512];
  snprintf(head, sizeof head,
           "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
           "Connection: close\r\nContent-Length: %zu\r\n\r\n", strlen(body));
  send(s, head, strlen(head), MSG_NOSIGNAL);
  send(s, body, strlen(body), MSG_NOSIGNAL);
  size_t room = 1 << 20, count = 0;
  char *text = malloc(room + 1);
  ssize_t got;
  while (count < room && (got = recv(s, text + count, room - count, 0)) > 0) count += (size_t)got;
  text[count] = 0;
  close(s);
  return text;
}

#define LONG_CHAT \
  "{\"model\":\"demo\",\"stream\":true,\"ignore_eos\":true,\"max_tokens\":200000," \
  "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]}"
#define SHORT_CHAT \
  "{\"model\":\"demo\",\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"Is Paris in France? Yes or No.\"}]}"

/* C01: the whole way, with the exact answers. */
static void whole(void) {
  char *answer, expected[4096];
  int64_t handle = load(",\"model_id\":\"demo\",\"revision\":null,\"thinking_enabled\":true,\"lazy_encoders\":true");
  CHECK(handle == 1);
  int port = start(handle);
  char *real = realpath(folder, NULL);
  snprintf(expected, sizeof expected,
           "{\"ok\":true,\"handle\":1,\"model\":{\"status\":\"ready\",\"model_id\":\"demo\",\"model_path\":\"%s\"},"
           "\"server\":{\"host\":\"127.0.0.1\",\"port\":%d,\"base_url\":\"http://127.0.0.1:%d\","
           "\"model_id\":\"demo\",\"status\":\"running\"}}", real, port, port);
  answer = lib_mlx_server_status(handle);
  CHECK(answer && strcmp(answer, expected) == 0);
  if (answer && strcmp(answer, expected)) fprintf(stderr, "%s\n%s\n", answer, expected);
  lib_mlx_free(answer);
  answer = fetch(port, SHORT_CHAT);
  CHECK(strstr(answer, "200 OK") && strstr(answer, "\"input_tokens\":") && strstr(answer, "\"prompt_tokens\":"));
  free(answer);
  CHECK(has(lib_mlx_start_server(handle, "{}"), "\"code\":\"already_running\""));
  CHECK(has(lib_mlx_stop_server(handle), "{\"ok\":true,\"handle\":1,\"status\":\"stopped\"}"));
  CHECK(has(lib_mlx_stop_server(handle), "{\"ok\":true,\"handle\":1,\"status\":\"stopped\"}"));
  CHECK(has(lib_mlx_server_status(handle), "\"server\":{\"status\":\"stopped\"}"));
  CHECK(has(lib_mlx_unload_model(handle), "{\"ok\":true,\"handle\":1,\"status\":\"unloaded\"}"));
  CHECK(has(lib_mlx_unload_model(handle), "\"code\":\"invalid_handle\""));
  CHECK(load("") == 2);
  CHECK(has(lib_mlx_list_models(), "\"models\":[{\"handle\":2,"));
  CHECK(has(lib_mlx_unload_model(2), "unloaded"));
  free(real);
}

/* C03, C04, C07, C09, C10: what cannot be meant. */
static void bad(void) {
  const char *broken[] = {NULL, "", "[]", "{", "null", "\"x\"", "{\"model_path\":\"\xff\"}"};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
    CHECK(has(lib_mlx_load_model(broken[i]), "\"code\":\"invalid_json\""));
  size_t size = (1 << 20) + 100;
  char *big = malloc(size + 1);
  memset(big, ' ', size);
  big[size] = 0;
  CHECK(has(lib_mlx_load_model(big), "\"code\":\"invalid_json\""));
  memset(big, '[', 10000);
  big[10000] = 0;
  CHECK(has(lib_mlx_load_model(big), "\"code\":\"invalid_json\""));
  free(big);
  CHECK(has(lib_mlx_load_model("{}"), "\"param\":\"model_path\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":5}"), "\"code\":\"invalid_argument\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":\"/a\\u0000b\"}"), "\"code\":\"invalid_argument\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":\"\"}"), "\"code\":\"model_not_found\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":\"no/such/folder\"}"), "\"code\":\"model_not_found\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":\"~\"}"), "\"code\":\"model_not_found\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":\"/dev/null\"}"), "\"code\":\"model_not_found\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":\"/usr\"}"), "\"code\":\"model_not_found\""));
  CHECK(has(lib_mlx_load_model("{\"model_path\":\"/\",\"thinking_enabled\":\"yes\"}"), "\"param\":\"thinking_enabled\""));
  int64_t handles[] = {0, -1, 1LL << 40, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
    CHECK(has(lib_mlx_start_server(handles[i], "{}"), "\"code\":\"invalid_handle\""));
    CHECK(has(lib_mlx_stop_server(handles[i]), "\"code\":\"invalid_handle\""));
    CHECK(has(lib_mlx_server_status(handles[i]), "\"code\":\"invalid_handle\""));
    CHECK(has(lib_mlx_unload_model(handles[i]), "\"code\":\"invalid_handle\""));
    CHECK(has(lib_mlx_request(handles[i], "GET", "/health", NULL, 0, NULL, NULL), "\"code\":\"invalid_handle\""));
  }
  int64_t handle = load(",\"colour\":\"red\"");
  const char *servers[][2] = {
      {"{\"port\":70000}", "invalid_argument"},   {"{\"port\":\"80\"}", "invalid_argument"},
      {"{\"host\":\"nonsense\"}", "invalid_argument"}, {"{\"host\":\"0.0.0.0\"}", "invalid_argument"},
      {"{\"host\":\"203.0.113.9\",\"api_key\":\"0123456789abcdef\"}", "invalid_argument"},
      {"{\"queue_limit\":-1}", "invalid_argument"}, {NULL, "invalid_json"}, {"[", "invalid_json"},
  };
  for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
    CHECK(has(lib_mlx_start_server(handle, servers[i][0]), servers[i][1]));
  CHECK(has(lib_mlx_start_server(handle, "{\"host\":\"::1\",\"speed\":3}"), "\"ignored\":[\"speed\"]"));
  CHECK(has(lib_mlx_server_status(handle), "\"base_url\":\"http://[::1]:"));
  CHECK(has(lib_mlx_stop_server(handle), "stopped"));
  int port = start(handle);
  int64_t other = load("");
  char config[64];
  snprintf(config, sizeof config, "{\"port\":%d}", port);
  CHECK(has(lib_mlx_start_server(other, config), "\"code\":\"address_in_use\""));
  CHECK(has(lib_mlx_start_server(other, "{}"), "\"ok\":true"));
  CHECK(has(lib_mlx_configure("{\"threads\":1}"), "\"code\":\"busy\""));
  CHECK(has(lib_mlx_request(handle, NULL, "/health", NULL, 0, NULL, NULL), "\"param\":\"method\""));
  CHECK(has(lib_mlx_request(handle, "GET", "no slash", NULL, 0, NULL, NULL), "\"code\":\"invalid_argument\""));
  CHECK(has(lib_mlx_request(handle, "GET", "/nothing", NULL, 0, NULL, NULL), "\"status\":404"));
  CHECK(has(lib_mlx_request(handle, "POST", "/v1/chat/completions", "{", -1, NULL, NULL), "\"status\":400"));
  CHECK(has(lib_mlx_request(handle, "POST", "/models/unload", "{\"model\":\"demo\"}", -1, NULL, NULL), "\"status\":409"));
  lib_mlx_free(NULL);
}

/* C23, C24: a hundred rounds leave memory and descriptors as they were. */
static void again(int rounds) {
  long before = 0, files = 0, threads = 3;
  for (int round = 0; round < rounds; round++) {
    int64_t handle = load("");
    CHECK(start(handle) > 0);
    if (round % 4 == 0)
      CHECK(has(lib_mlx_request(handle, "POST", "/v1/chat/completions", SHORT_CHAT, -1, NULL, NULL), "\"status\":200"));
    CHECK(has(lib_mlx_unload_model(handle), "unloaded"));
    if (round == rounds / 4) {
      before = resident();
      files = entries("/proc/self/fd");
      /* "." and ".." and this one; the thread sanitizer has one of its own. */
      if (getenv("SANITIZED") != NULL) threads = entries("/proc/self/task");
    }
  }
  long after = resident();
  fprintf(stderr, "resident %ld KiB after a quarter, %ld KiB at the end; %d threads\n", before >> 10, after >> 10,
          entries("/proc/self/task") - 2);
  CHECK(entries("/proc/self/fd") == files);
  CHECK(entries("/proc/self/task") == threads);
  /* A sanitizer keeps what is freed. */
  if (getenv("SANITIZED") == NULL) CHECK(after < before + before / 20 + (1 << 20));
}

static void *stream(void *port) { return fetch(*(int *)port, LONG_CHAT); }

/* C13: unloading ends streams with a word. */
static void streaming(void) {
  int64_t handle = load(",\"max_sequences\":3");
  int port = start(handle);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, stream, &port);
  usleep(300000);
  double begin = now();
  CHECK(has(lib_mlx_unload_model(handle), "unloaded"));
  double seconds = now() - begin;
  CHECK(seconds < 2.5 || getenv("SANITIZED"));
  for (int i = 0; i < 3; i++) {
    void *text;
    pthread_join(threads[i], &text);
    CHECK(strstr(text, "shutting_down") && strstr(text, "[DONE]"));
    free(text);
  }
}

/* C15, C16: several models. */
static void several(void) {
  int64_t first = load(",\"model_id\":\"first\""), second = load(",\"model_id\":\"second\"");
  CHECK(first > 0 && second > first);
  int ports[2] = {start(first), start(second)};
  CHECK(ports[0] != ports[1]);
  CHECK(has(lib_mlx_request(first, "GET", "/v1/models", NULL, 0, NULL, NULL), "first"));
  char *answers[2] = {fetch(ports[0], "{\"model\":\"first\",\"messages\":[]}"),
                      fetch(ports[1], "{\"model\":\"first\",\"messages\":[]}")};
  CHECK(strstr(answers[0], "400 ") && strstr(answers[1], "404 "));
  free(answers[0]);
  free(answers[1]);
  CHECK(has(lib_mlx_unload_model(first), "unloaded"));
  CHECK(has(lib_mlx_request(second, "POST", "/v1/completions", "{\"model\":\"second\",\"prompt\":\"a\",\"max_tokens\":2}",
                            -1, NULL, NULL), "\"status\":200"));
}

/* C19: one runs, one waits, one is told to come again. */
static void *one(void *port) {
  return fetch(*(int *)port, "{\"model\":\"demo\",\"max_tokens\":1500,\"ignore_eos\":true,"
                             "\"messages\":[{\"role\":\"user\",\"content\":\"Count.\"}]}");
}

static void queue(void) {
  int64_t handle = load("");
  char *answer = lib_mlx_start_server(handle, "{\"queue_limit\":1}");
  int port = (int)number(answer, "\"port\":");
  lib_mlx_free(answer);
  pthread_t threads[3];
  int refused = 0, served = 0;
  for (int i = 0; i < 3; i++) {
    pthread_create(&threads[i], NULL, one, &port);
    usleep(50000);
  }
  for (int i = 0; i < 3; i++) {
    void *text;
    pthread_join(threads[i], &text);
    refused += strstr(text, " 429 ") != NULL;
    served += strstr(text, "200 OK") != NULL;
    if (!strstr(text, " 429 ") && !strstr(text, "200 OK")) fprintf(stderr, "%.300s\n", (char *)text);
    free(text);
  }
  CHECK(served == 2 && refused == 1);
  if (served != 2) fprintf(stderr, "%d were served, %d refused\n", served, refused);
}

/* C28: a child of fork is told so, and the parent goes on. */
static void forking(void) {
  int64_t handle = load("");
  int port = start(handle);
  pid_t child = fork();
  if (child == 0) {
    failures = 0;
    CHECK(has(lib_mlx_server_status(handle), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_load_model("{}"), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_unload_model(handle), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_stop_server(handle), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_start_server(handle, "{}"), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_request(handle, "GET", "/", NULL, 0, NULL, NULL), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_version(), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_list_models(), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_set_log_callback(NULL, NULL), "\"code\":\"forked\""));
    CHECK(has(lib_mlx_configure("{}"), "\"code\":\"forked\""));
    lib_mlx_free(NULL);
    _exit(failures != 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  char *answer = fetch(port, SHORT_CHAT);
  CHECK(strstr(answer, "200 OK"));
  free(answer);
}

static atomic_int pipes;
static void onPipe(int signal) { (void)signal; pipes++; }

/* C29 to C32, C39: the process is the host's. */
static void manners(void) {
  struct sigaction before[65], after;
  signal(SIGPIPE, onPipe);
  signal(SIGCHLD, SIG_IGN);
  for (int i = 1; i < 65; i++) memset(&before[i], 0, sizeof before[i]), sigaction(i, NULL, &before[i]);
  setlocale(LC_ALL, "de_DE.UTF-8");
  umask(0);
  char *real = realpath(folder, NULL), place[4096];
  folder = real;
  CHECK(chdir("/") == 0);
  int out[2];
  CHECK(pipe(out) == 0);
  int saved[2] = {dup(1), dup(2)};
  dup2(out[1], 1);
  dup2(out[1], 2);
  int64_t handle = load("");
  int port = start(handle);
  for (int i = 0; i < 20; i++) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x7F000001)};
    if (connect(s, (struct sockaddr *)&to, sizeof to) == 0) {
      const char *body = LONG_CHAT;
      char head[256];
      snprintf(head, sizeof head, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", strlen(body));
      send(s, head, strlen(head), MSG_NOSIGNAL);
      send(s, body, strlen(body), MSG_NOSIGNAL);
      usleep(20000);
      struct linger reset = {1, 0};
      setsockopt(s, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    close(s);
  }
  lib_mlx_free(lib_mlx_load_model("{\"model_path\":\"/nowhere\"}"));
  lib_mlx_free(lib_mlx_unload_model(handle));
  fflush(NULL);
  dup2(saved[0], 1);
  dup2(saved[1], 2);
  close(out[1]);
  char text[256];
  ssize_t written = read(out[0], text, sizeof text - 1);
  CHECK(written == 0);
  if (written > 0) fprintf(stderr, "the library wrote: %.*s\n", (int)written, text);
  CHECK(pipes == 0);
  CHECK(getcwd(place, sizeof place) && strcmp(place, "/") == 0);
  CHECK(umask(0) == 0);
  for (int i = 1; i < 65; i++) {
    memset(&after, 0, sizeof after);
    sigaction(i, NULL, &after);
    CHECK(after.sa_handler == before[i].sa_handler && after.sa_flags == before[i].sa_flags);
  }
  /* The leak checker needs descriptors of its own. */
  if (getenv("SANITIZED")) return;
  struct rlimit few;
  getrlimit(RLIMIT_NOFILE, &few);
  few.rlim_cur = 32;
  setrlimit(RLIMIT_NOFILE, &few);
  for (int i = 0; i < 8; i++) {
    char *answer = lib_mlx_load_model("{\"model_path\":\"/\"}");
    CHECK(answer != NULL);
    lib_mlx_free(answer);
    handle = load("");
    lib_mlx_free(lib_mlx_start_server(handle, "{}"));
  }
}

static atomic_int inside, lines;
static void onLine(int32_t level, const char *line, void *context) {
  CHECK(atomic_fetch_add(&inside, 1) == 0);
  CHECK(level >= 0 && level <= 3 && strchr(line, '\n') == NULL && strlen(line) > 20);
  CHECK(context == &lines);
  lines++;
  lib_mlx_free(lib_mlx_server_status(1));
  lib_mlx_free(lib_mlx_list_models());
  inside--;
}

static void *loads(void *unused) {
  (void)unused;
  for (int i = 0; i < 3; i++) {
    int64_t handle = load("");
    start(handle);
    lib_mlx_free(lib_mlx_request(handle, "GET", "/v1/models", NULL, 0, NULL, NULL));
    lib_mlx_free(lib_mlx_unload_model(handle));
  }
  return NULL;
}

/* C33 to C35: whole lines, one at a time, on any thread. */
static void logging(void) {
  CHECK(has(lib_mlx_configure("{\"log_level\":\"debug\"}"), "\"ok\":true"));
  CHECK(has(lib_mlx_set_log_callback(onLine, &lines), "\"ok\":true"));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, loads, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  int64_t handle = load("");
  int port = start(handle);
  free(fetch(port, SHORT_CHAT));
  CHECK(has(lib_mlx_set_log_callback(NULL, NULL), "\"ok\":true"));
  int before = lines;
  CHECK(before > 0);
  free(fetch(port, SHORT_CHAT));
  CHECK(lines == before);
}

static atomic_int goesOn = 1;
static void *random_calls(void *seed) {
  unsigned state = *(unsigned *)seed;
  int64_t own = 0;
  while (goesOn) {
    int64_t handle = rand_r(&state) % 3 ? own : rand_r(&state) % 20;
    switch (rand_r(&state) % 8) {
    case 0: if (!own) own = load(rand_r(&state) % 2 ? "" : ",\"max_sequences\":2"); break;
    case 1: lib_mlx_free(lib_mlx_start_server(handle, "{}")); break;
    case 2: lib_mlx_free(lib_mlx_stop_server(handle)); break;
    case 3: lib_mlx_free(lib_mlx_server_status(handle)); break;
    case 4: lib_mlx_free(lib_mlx_list_models()); break;
    case 5: lib_mlx_free(lib_mlx_request(handle, "POST", "/v1/chat/completions", SHORT_CHAT, -1, NULL, NULL)); break;
    case 6: lib_mlx_free(lib_mlx_set_log_callback(NULL, NULL)); break;
    case 7:
      if (rand_r(&state) % 4 == 0) {
        lib_mlx_free(lib_mlx_unload_model(own));
        own = 0;
      }
    }
  }
  lib_mlx_free(lib_mlx_unload_model(own));
  return NULL;
}

/* C17: eight threads of random calls. */
static void storm(int seconds) {
  pthread_t threads[8];
  unsigned seeds[8];
  for (unsigned i = 0; i < 8; i++) {
    seeds[i] = i + 1;
    pthread_create(&threads[i], NULL, random_calls, &seeds[i]);
  }
  sleep((unsigned)seconds);
  goesOn = 0;
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}

static void *whole_small(void *unused) {
  (void)unused;
  int64_t handle = load("");
  CHECK(start(handle) > 0);
  CHECK(has(lib_mlx_request(handle, "POST", "/v1/chat/completions", SHORT_CHAT, -1, NULL, NULL), "\"status\":200"));
  CHECK(has(lib_mlx_unload_model(handle), "unloaded"));
  return NULL;
}

/* C41: a caller with a small stack. */
static void small(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  pthread_create(&thread, &attributes, whole_small, NULL);
  pthread_join(thread, NULL);
}

static int32_t collect(const uint8_t *bytes, int64_t count, void *context) {
  char *text = context;
  size_t used = strlen(text), most = (1 << 16) - 1 - used;
  if ((size_t)count < most) most = (size_t)count;
  memcpy(text + used, bytes, most);
  text[used + most] = 0;
  return 0;
}

static int32_t three(const uint8_t *bytes, int64_t count, void *context) {
  (void)bytes, (void)count;
  return ++*(int *)context >= 3;
}

/* Requests without a socket: in pieces, whole, ended half way; C14 and C26 beside them. */
static void *long_request(void *handle) {
  int count = -1000000;
  return lib_mlx_request(*(int64_t *)handle, "POST", "/v1/chat/completions", LONG_CHAT, -1, three, &count);
}

static void requests(void) {
  int64_t handle = load(",\"model_id\":\"demo\",\"thinking_enabled\":false");
  char *text = calloc(1, 1 << 16);
  CHECK(has(lib_mlx_request(handle, "POST", "/v1/chat/completions",
                            "{\"model\":\"demo\",\"stream\":true,\"max_tokens\":5,"
                            "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", -1, collect, text),
            "\"status\":200"));
  CHECK(strncmp(text, "data: {", 7) == 0 && strstr(text, "data: [DONE]"));
  free(text);
  char *whole = lib_mlx_request(handle, "POST", "/v1/chat/completions", SHORT_CHAT "garbage", strlen(SHORT_CHAT), NULL, NULL);
  CHECK(whole && strstr(whole, "\"body\":\"{\\\"id\\\":"));
  int count = 0;
  CHECK(has(lib_mlx_request(handle, "POST", "/v1/chat/completions", LONG_CHAT, -1, three, &count), "\"status\":200"));
  CHECK(count == 3);
  pthread_t thread;
  pthread_create(&thread, NULL, long_request, &handle);
  usleep(200000);
  double begin = now();
  CHECK(has(lib_mlx_unload_model(handle), "unloaded"));
  CHECK(now() - begin < 2.5 || getenv("SANITIZED"));
  void *last;
  pthread_join(thread, &last);
  CHECK(has(last, "\"ok\":"));
  CHECK(whole && strstr(whole, "\"ok\":true"));
  lib_mlx_free(whole);
  CHECK(has(lib_mlx_version(), "\"abi\":1"));
}

/* C14: unloaded while a long prompt is read. */
static void *long_prompt(void *handle) {
  static const char head[] = "{\"model\":\"demo\",\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"";
  static const char word[] = "winter ";
  int words = 1500;
  char *body = malloc(sizeof head + words * sizeof word + 16), *at = body + sprintf(body, "%s", head);
  for (int i = 0; i < words; i++) at += sprintf(at, "%s", word);
  sprintf(at, "\"}]}");
  char *answer = lib_mlx_request(*(int64_t *)handle, "POST", "/v1/chat/completions", body, -1, NULL, NULL);
  free(body);
  return answer;
}

static void prefill(void) {
  for (int wait = 1000; wait < 100000; wait *= 3) {
    int64_t handle = load(",\"model_id\":\"demo\"");
    pthread_t thread;
    pthread_create(&thread, NULL, long_prompt, &handle);
    usleep(wait);
    double begin = now();
    CHECK(has(lib_mlx_unload_model(handle), "unloaded"));
    CHECK(now() - begin < 2.5 || getenv("SANITIZED"));
    void *answer;
    pthread_join(thread, &answer);
    CHECK(has(answer, "\"ok\":"));
  }
}

/* C27: the address sanitizer is to report this, and nothing else is to happen. */
static void twice(void) {
  char *text = lib_mlx_version();
  lib_mlx_free(text);
  lib_mlx_free(text);
}

int main(int count, char **words) {
  if (count < 3) return 2;
  folder = words[2];
  const char *name = words[1];
  int number = count > 3 ? atoi(words[3]) : 0;
  if (!strcmp(name, "whole")) whole();
  else if (!strcmp(name, "bad")) bad();
  else if (!strcmp(name, "again")) again(number ? number : 100);
  else if (!strcmp(name, "streaming")) streaming();
  else if (!strcmp(name, "several")) several();
  else if (!strcmp(name, "queue")) queue();
  else if (!strcmp(name, "forking")) forking();
  else if (!strcmp(name, "manners")) manners();
  else if (!strcmp(name, "logging")) logging();
  else if (!strcmp(name, "storm")) storm(number ? number : 5);
  else if (!strcmp(name, "small")) small();
  else if (!strcmp(name, "requests")) requests();
  else if (!strcmp(name, "prefill")) prefill();
  else if (!strcmp(name, "twice")) twice();
  else return 2;
  /* C40: servers may still run when main returns. */
  return failures != 0;
}
