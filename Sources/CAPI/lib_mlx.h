/* lib_mlx: load a language model, serve it over HTTP and ask it, from any language that can call C.
 *
 * Requests and answers are JSON in UTF-8. Every function may be called from any thread at any time. What returns
 * `char *` returns a text that the caller frees with lib_mlx_free: {"ok":true, ...}, or
 * {"ok":false,"error":{"code":"...","message":"..."}}. It is NULL only where not even that can be allocated.
 * The pages docs/library.md and docs/api.md have the members, the codes and the routes.
 */
#ifndef LIB_MLX_H
#define LIB_MLX_H

#include <stdint.h>

/* Grows when functions are added; none is changed or removed while the library is called lib_mlx.so.1. */
#define LIB_MLX_ABI 1

#if defined(_WIN32)
#define LIB_MLX_EXPORT __declspec(dllimport)
#elif defined(__GNUC__)
#define LIB_MLX_EXPORT __attribute__((visibility("default")))
#else
#define LIB_MLX_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Gets one whole line of the log, without a line end, until the next call: level 0 debug, 1 info, 2 warning, 3 error.
 * Never called twice at a time; it may call every function here. */
typedef void (*lib_mlx_log_callback)(int32_t level, const char *line, void *context);

/* Gets a piece of a response's body, in order, on the thread that called lib_mlx_request. Anything but 0 ends the
 * answer. */
typedef int32_t (*lib_mlx_chunk_callback)(const uint8_t *bytes, int64_t count, void *context);

/* {"version","abi","features"} */
LIB_MLX_EXPORT char *lib_mlx_version(void);

/* Before the first model: {"memory_limit" (bytes or "6G"),"threads","log_level"} */
LIB_MLX_EXPORT char *lib_mlx_configure(const char *config_json);

/* NULL ends it; the old callback is not called any more when this returns. Without one nothing is logged anywhere. */
LIB_MLX_EXPORT char *lib_mlx_set_log_callback(lib_mlx_log_callback callback, void *context);

/* {"model_path","model_id","revision","thinking_enabled","lazy_encoders","max_sequences","max_context","prepared_dir"}
 * -> {"handle","status":"ready","model_id"}. Blocks until the model is in memory. */
LIB_MLX_EXPORT char *lib_mlx_load_model(const char *config_json);

/* {"host","port","model_id","queue_limit","api_key"} -> {"handle","server":{"host","port","base_url",...}} */
LIB_MLX_EXPORT char *lib_mlx_start_server(int64_t handle, const char *config_json);

LIB_MLX_EXPORT char *lib_mlx_stop_server(int64_t handle);

/* {"handle","model":{"status","model_id","model_path"},"server":{"status"}}; never waits for a load. */
LIB_MLX_EXPORT char *lib_mlx_server_status(int64_t handle);

/* Stops the server, ends what it answers, and frees the model. */
LIB_MLX_EXPORT char *lib_mlx_unload_model(int64_t handle);

/* {"models":[...]}: what lib_mlx_server_status says of each handle. */
LIB_MLX_EXPORT char *lib_mlx_list_models(void);

/* Answers a request as the server would, without one: method and path as in HTTP, and the bytes of the body
 * (-1: up to its NUL; NULL: none). The body of the response goes to the callback; without one it is the member
 * "body". -> {"handle","status","headers"} */
LIB_MLX_EXPORT char *lib_mlx_request(int64_t handle, const char *method, const char *path, const char *body,
                                     int64_t body_count, lib_mlx_chunk_callback callback, void *context);

/* Frees what the other functions return; NULL is fine. */
LIB_MLX_EXPORT void lib_mlx_free(void *pointer);

#ifdef __cplusplus
}
#endif

#endif
