// Loads a model, serves it, and asks it by OpenAI's API, as it answers. Not run yet; see README.md.
import 'dart:convert';
import 'dart:io';

import 'lib_mlx.dart';

Future<void> main(List<String> words) async {
  final mlx = MLX();
  final loaded = await mlx.load({'model_path': words[0]});
  if (loaded['ok'] != true) throw StateError(jsonEncode(loaded['error']));
  final int handle = loaded['handle'];
  final server = (await mlx.start(handle))['server'] as Map;
  final client = HttpClient();
  final request = await client.postUrl(Uri.parse('${server['base_url']}/v1/chat/completions'));
  request.headers.contentType = ContentType.json;
  request.write(jsonEncode({
    'model': loaded['model_id'],
    'stream': true,
    'messages': [
      {'role': 'user', 'content': words[1]}
    ],
  }));
  final response = await request.close();
  if (response.statusCode != 200) {
    stderr.writeln(await response.transform(utf8.decoder).join());
    exit(1);
  }
  await for (final line in response.transform(utf8.decoder).transform(const LineSplitter())) {
    if (!line.startsWith('data: ') || line == 'data: [DONE]') continue;
    final choices = jsonDecode(line.substring(6))['choices'] as List;
    stdout.write(choices.isEmpty ? '' : choices[0]['delta']['content'] ?? '');
  }
  stdout.writeln();
  client.close();
  await mlx.unload(handle);
}
