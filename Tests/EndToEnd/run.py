"""Black-box tests of the release binary: run.py BINARY [NAME-PART] [--patient] [--long]. The last line says how many passed.

Modules run side by side, since most cases wait for something. Those cases that take long without telling much about a
small change run with --patient alone. With --long the cases that go through a sample otherwise go through
everything; that takes half an hour."""

import os
import re
import selectors
import sys
import time
import traceback

import access_test
import adapters_test
import agents_test
import answer_formats_test
import audio_test
import batches_test
import batching_test
import chat_test
import checkpoints_test
import cli_test
import convert_test
import documents_test
import editors_test
import embeddings_test
import examples_test
import faces_test
import file_search_test
import gguf_test
import histories_test
import hub_test
import large_test
import launch_test
import mcp_test
import mcp_tools_test
import media_reference_test
import media_test
import media_urls_test
import message_files_test
import messages_test
import models_test
import ollama_test
import openapi_test
import packaging_test
import pages_test
import pgvector_test
import progress_test
import proxies_test
import rerank_test
import responses_stream_test
import responses_test
import sdk_test
import search_cases_test
import search_cli_test
import sessions_test
import stored_chat_test
import transcriptions_test
import uploads_test
import vector_stores_test
import vision_test
import wire_test
import written_answers_test
from page import browser
from page import answers_test as page_answers_test
from page import chat_test as page_chat_test
from page import chats_test as page_chats_test
from page import markdown_test as page_markdown_test
from page import files_test as page_files_test
from page import notes_test as page_notes_test
from page import preview_test as page_preview_test
from page import reach_test as page_reach_test
from page import server_test as page_server_test
from page import settings_test as page_settings_test
from page import tools_test as page_tools_test
from page import words_test as page_words_test
from reliability import (
    children_test, constraints_test, damage_test, files_test, framing_test, hosts_and_keys_test, hub_faults_test, json_test, limits_test, load_test, logs_test,
    memory_test, operating_system_test, parameters_test, prompts_test, sandbox_test, scheduler_test, streams_test,
    templates_test)
from reliability.watch import HOOKS, Watch
from server import Server

# What a case goes through when there is time: all of it.
LONG = {
    "large_test.test_weights_of_more_than_four_gib": {"whole": True},
    "hosts_and_keys_test.test_wrong_keys_take_one_time": {"count": 10_000},
    "memory_test.test_24_of_the_worst_at_once": {"tokens": 40},
    "memory_test.test_24_of_any_body_at_once": {"every": 1},
    "json_test.test_cut_and_flipped_documents_are_refused": {"step": 1},
    "constraints_test.test_many_schemas_stay_within_memory": {"count": 10_000},
    "scheduler_test.test_the_queue_has_its_length": {"rounds": 20},
    "scheduler_test.test_overload_keeps_the_queue_bounded": {"seconds": 60},
    "scheduler_test.test_leaving_at_any_time": {"count": 1000},
    "scheduler_test.test_many_streams_do_not_mix": {"count": 200},
    "files_test.test_settings_of_every_kind": {"count": 1000},
    "files_test.test_settings_of_every_family": {"step": 1},
    "hub_faults_test.test_after_any_failing_call_the_cache_is_whole_or_says_so": {"calls": 400},
    "load_test.test_mutated_messages_do_no_harm": {"count": 1_000_000},
    "load_test.test_after_chaos_all_is_as_before": {"seconds": 300},
}

# A third of all the time, for what few changes can break: many of the worst requests at once, deadlines, downloads that fail
# again and again, an index of many vectors, chaos.
PATIENT = {
    "memory_test.test_24_of_the_worst_at_once", "memory_test.test_24_of_any_body_at_once",
    "memory_test.test_24_of_the_others_at_once", "memory_test.test_24_of_every_export_at_once", "memory_test.test_the_worst_request_of_every_route",
    "memory_test.test_the_worst_request_of_every_other_route", "memory_test.test_files_that_become_large",
    "memory_test.test_batches_stay_within_the_limit", "memory_test.test_large_files_that_become_larger", "limits_test.test_slow_connections_meet_their_deadlines",
    "load_test.test_after_chaos_all_is_as_before", "cli_test.test_an_index_is_measured",
    "packaging_test.test_the_checksums_are_those_of_the_files", "packaging_test.test_the_same_binary_is_packed_to_the_same_bytes",
    "packaging_test.test_the_debian_package_comes_and_goes", "hub_test.test_passing_troubles_pass_and_others_end",
}

# Processes at a time.
WORKERS = max(2, min(6, os.cpu_count() or 2))

# The flags of a server, whether it must be as before after every case, and the modules that want it. Long modules come
# first, so that none is left over at the end.
GROUPS = [
    # A long answer takes ten seconds, so that a busy browser sees it before it is whole.
    (("--test-hooks", "--step-delay-ms", "5"), False, (
        page_chat_test, page_words_test, page_reach_test, page_files_test, page_chats_test, page_markdown_test,
        page_answers_test, page_settings_test, page_notes_test, page_preview_test, page_tools_test, page_server_test)),
    (HOOKS, True, (
        files_test, damage_test, operating_system_test, scheduler_test, limits_test, hub_faults_test, load_test, memory_test,
        hosts_and_keys_test, templates_test, framing_test, parameters_test, prompts_test, sandbox_test, children_test,
        constraints_test, logs_test, streams_test, json_test)),
    ((), False, (
        answer_formats_test, search_cases_test, hub_test, gguf_test, convert_test, proxies_test, vector_stores_test, cli_test, models_test,
        media_urls_test, packaging_test, chat_test, batching_test, checkpoints_test, embeddings_test, access_test,
        ollama_test, adapters_test, responses_test, search_cli_test, media_reference_test, examples_test, pages_test, openapi_test,
        rerank_test, wire_test, responses_stream_test, file_search_test, editors_test, media_test, audio_test,
        batches_test, messages_test, sdk_test, message_files_test, histories_test, agents_test, sessions_test,
        documents_test, written_answers_test, vision_test,
        stored_chat_test, transcriptions_test, uploads_test, large_test, pgvector_test, progress_test, launch_test, mcp_test, mcp_tools_test,
        faces_test)),
]


def cases(modules, part, is_patient=None):
    """Those whose name has this part; of all of them the patient ones, or the others."""
    found = [
        (name, function)
        for module in modules
        for name, function in ((f"{module.__name__}.{name}", value) for name, value in vars(module).items())
        if name.rpartition(".")[2].startswith("test_") and function.__module__ == module.__name__ and part in name
    ]
    return [case for case in found if is_patient in (None, case[0].removeprefix("reliability.") in PATIENT)]


def run(tests, server, watch, is_long):
    passed, failed = 0, 0
    for name, test in tests:
        begin = time.monotonic()
        try:
            note = test(server, **(LONG.get(name.removeprefix("reliability."), {}) if is_long else {}))
            if watch:
                watch.check()
            passed += 1
            print(f"ok    {name} ({time.monotonic() - begin:.2f} s){f': {note}' if note else ''}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    return passed, failed


def run_on_server(binary, flags, tests, is_watched, is_long):
    """Runs the cases against one server with these flags; how many passed and failed."""
    server = Server(binary, *flags)
    try:
        passed, failed = run(tests, server, Watch(server) if is_watched else None, is_long)
    finally:
        code = server.stop()
    if code != 0:
        failed += 1
        print(f"FAIL  the server ended with {code}; its log ends with {server.log[-5:]}")
    return passed, failed


class SideBySide:
    """Modules in processes of their own, some at a time, each with its server; what a module says stays together."""

    COUNTS = re.compile(rb"(\d+) passed, (\d+) failed\n\Z")

    def __init__(self, binary, is_patient, is_long):
        self.binary, self.is_long = binary, is_long
        self.passed, self.failed, self.seen, self.begin = 0, 0, 0, time.monotonic()
        self.units = [(flags, is_watched, tests) for flags, is_watched, modules in GROUPS for module in modules
                      if (tests := cases([module], "", is_patient))]
        if is_patient:
            self.units = [(*unit[:2], [case]) for unit in self.units for case in unit[2]]
        self.all = sum(len(tests) for _, _, tests in self.units)
        known = sum(len(cases(modules, "", True)) for _, _, modules in GROUPS)
        assert known == len(PATIENT), f"{len(PATIENT) - known} names of PATIENT are those of no case"

    def start(self, flags, is_watched, tests):
        """A forked process, which has imported everything already: its id, and the end of its output that is read."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        if process := os.fork():
            os.close(writing)
            return process, reading
        os.dup2(writing, 1)
        os.closerange(3, 256)
        passed, failed = 0, 1
        try:
            passed, failed = run_on_server(self.binary, flags, tests, is_watched, self.is_long)
            browser.close()
        except BaseException:
            print(f"FAIL  {tests[0][0]} or one after it\n{traceback.format_exc()}")
        print(f"{passed} passed, {failed} failed", flush=True)
        os._exit(0)

    def end(self, process, output):
        """Prints what a process said, and counts it; one that ended without its counts has failed."""
        os.waitpid(process, 0)
        counts = self.COUNTS.search(output)
        self.passed += int(counts[1]) if counts else 0
        self.failed += int(counts[2]) if counts else 1
        said = (output[: counts.start()] if counts else output).decode(errors="replace")
        print(said, end="", flush=True)
        before, self.seen = self.seen, self.seen + len(re.findall("^(?:ok|FAIL)  ", said, re.MULTILINE))
        if self.seen // 50 > before // 50:
            print(f"-- {self.seen} of {self.all} cases after {time.monotonic() - self.begin:.0f} s", flush=True)

    def run(self):
        waiting, running = list(self.units), selectors.DefaultSelector()
        while waiting or running.get_map():
            while waiting and len(running.get_map()) < WORKERS:
                process, reading = self.start(*waiting.pop(0))
                running.register(reading, selectors.EVENT_READ, (process, bytearray()))
            for key, _ in running.select():
                process, output = key.data
                output += (piece := os.read(key.fd, 65536))
                # What a case has left running may keep the pipe open.
                if not piece or self.COUNTS.search(output):
                    running.unregister(key.fd)
                    os.close(key.fd)
                    self.end(process, bytes(output))
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


def main():
    arguments = sys.argv[1:]
    words = [word for word in arguments if not word.startswith("--")]
    # Some cases start it from another folder.
    binary, part, is_long = os.path.abspath(words[0]), (words[1] if len(words) > 1 else ""), "--long" in arguments
    if not part:
        return SideBySide(binary, "--patient" in arguments, is_long).run()
    passed, failed = 0, 0
    for flags, is_watched, modules in GROUPS:
        if tests := cases(modules, part):
            good, bad = run_on_server(binary, flags, tests, is_watched, is_long)
            passed, failed = passed + good, failed + bad
    browser.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
