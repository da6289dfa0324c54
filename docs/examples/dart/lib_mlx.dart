// lib_mlx for Dart: JSON in, JSON out. Not run yet; see README.md.
import 'dart:convert';
import 'dart:ffi';
import 'dart:isolate';

import 'package:ffi/ffi.dart';

typedef _Json = Pointer<Utf8> Function(Pointer<Utf8>);
typedef _HandleC = Pointer<Utf8> Function(Int64);
typedef _Handle = Pointer<Utf8> Function(int);
typedef _HandleJsonC = Pointer<Utf8> Function(Int64, Pointer<Utf8>);
typedef _HandleJson = Pointer<Utf8> Function(int, Pointer<Utf8>);

class MLX {
  final String path;
  MLX([this.path = 'liblib_mlx.so']);

  Future<Map> load(Map config) => _run((l, j) => l.lookupFunction<_Json, _Json>('lib_mlx_load_model')(j), config);
  Future<Map> start(int handle, [Map config = const {}]) => _run(
      (l, j) => l.lookupFunction<_HandleJsonC, _HandleJson>('lib_mlx_start_server')(handle, j), config);
  Future<Map> stop(int handle) => _of('lib_mlx_stop_server', handle);
  Future<Map> status(int handle) => _of('lib_mlx_server_status', handle);
  Future<Map> unload(int handle) => _of('lib_mlx_unload_model', handle);

  Future<Map> _of(String name, int handle) => _run((l, _) => l.lookupFunction<_HandleC, _Handle>(name)(handle), {});

  Future<Map> _run(Pointer<Utf8> Function(DynamicLibrary, Pointer<Utf8>) call, Map config) {
    final path = this.path, text = jsonEncode(config);
    return Isolate.run(() {
      final library = DynamicLibrary.open(path);
      final free = library.lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>('lib_mlx_free');
      final answer = using((arena) => call(library, text.toNativeUtf8(allocator: arena)));
      try {
        return jsonDecode(answer.toDartString()) as Map;
      } finally {
        free(answer.cast());
      }
    });
  }
}
