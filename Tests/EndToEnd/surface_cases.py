"""Where each case of the specification of surfaces is tested, for downloads (G), Ollama (O), editors (I) and packaging (D).

`surface_cases_test` holds this table to the files. A case of many parts is named by the test of most of them."""

from cases import lost

FILES = {
    "hub": "EndToEnd/hub_test.py", "ollama": "EndToEnd/ollama_test.py", "editors": "EndToEnd/editors_test.py",
    "command": "EndToEnd/cli_test.py", "packaging": "EndToEnd/packaging_test.py", "models": "EndToEnd/models_test.py",
    "media": "EndToEnd/media_test.py", "llama": "ServerTests/LlamaRouteTests.swift",
    "middle": "ServerTests/FillInMiddleTests.swift", "configuration": "CLITests/ConfigurationTests.swift",
    "options": "WireTests/OllamaRequestTests.swift", "histories": "ChatTests/HistoryTests.swift", "measured": "../Fixtures/scripts/bench/fill.py",
    "release": "../Makefile",
}

DONE_AGAIN = ("hub", "test_G03_a_killed_pull_goes_on_where_it_was")
PARTIAL = ("hub", "test_G06_G07_G08_partial_files_of_every_kind")
WRONG = ("hub", "test_G08_G09_wrong_bytes_never_become_a_blob")
TOKEN = ("hub", "test_G15_G17_the_token_goes_to_the_hub_alone_and_is_seen_nowhere")
STRANGE = ("hub", "test_G21_G22_G48_strange_names_in_many_pages")
FOREIGN = ("hub", "test_G25_G27_what_the_hubs_own_tools_fetched_is_served")
UNFIT = ("hub", "test_G33_G34_what_cannot_be_served_is_refused_before_its_weights")
CHOSEN = ("hub", "test_G35_G36_what_is_wanted_can_be_said")
LISTED = ("hub", "test_G40_G41_G43_listing_and_removing")
TOLD = ("hub", "test_G49_G50_what_the_hub_says_is_told_once")

STATE = ("ollama", "test_version_tags_and_ps")
SHOW = ("ollama", "test_show")
STREAM = ("ollama", "test_a_stream_is_lines_that_make_the_whole")
KEPT = ("ollama", "test_loading_and_keep_alive")
TURNS = ("ollama", "test_tools")
OPTIONS = ("ollama", "test_options")
GIVES_WAY = ("ollama", "test_old_messages_give_way")
PYTHON = ("ollama", "test_O15_O46_a_call_is_one_whole_piece_and_the_python_client_does_it_all")
GENERATE = ("ollama", "test_generate")
VECTORS = ("ollama", "test_O29_O30_vectors")
PULLS = ("ollama", "test_O31_to_O34_models_come_and_go_where_that_is_allowed")
ABSENT = ("ollama", "test_what_is_not_there")
ROOT = ("ollama", "test_O41_O42_the_root_is_a_page_for_browsers_only")

AROUND = ("llama", "what stands around is needed")
EXTRAS = ("llama", "other texts have a text and perhaps a name")
TYPING = ("editors", "test_I07_I18_I29_llama_vim_and_vscode")
LIMITS = ("editors", "test_I09_I13_limits_of_time_and_context")
MARKS = ("editors", "test_I02_I06_I27_marks_come_from_the_vocabulary_and_not_from_code")
WIRES = ("editors", "test_I25_I26_three_wires_one_prompt")
EDITORS = ("editors", "test_I16_I29_continue_tabby_and_zed")
ITSELF = ("editors", "test_I22_I23_what_a_server_says_of_itself")
STRANGE_CODE = ("editors", "test_I20_I30_constraints_and_strange_code")

CASES = {
    "G": [
        ("hub", "test_G01_a_model_is_pulled_into_the_shared_cache"), ("hub", "test_G02_a_model_that_is_there_costs_one_request"),
        DONE_AGAIN, ("hub", "test_G04_ctrl_c_keeps_what_has_come"), ("hub", "test_G05_a_server_without_ranges_gives_the_whole_file"),
        PARTIAL, PARTIAL, WRONG, WRONG, ("hub", "test_G10_a_body_that_breaks_is_continued"),
        ("hub", "test_G11_a_stall_is_given_up_and_continued"), ("hub", "test_G12_rate_limits_are_waited_for"),
        ("hub", "test_G13_passing_troubles_pass_and_others_end"), ("hub", "test_G14_refusals_say_what_to_do"), TOKEN,
        ("hub", "test_G16_redirects_that_are_not_followed"), TOKEN, ("hub", "test_G18_settings_of_curl_have_no_effect"),
        ("hub", "test_G19_a_token_is_not_sent_in_the_clear"), ("hub", "test_G20_names_that_lead_elsewhere_are_refused"),
        STRANGE, STRANGE, ("hub", "test_G23_two_pulls_at_once_fetch_everything_once"), ("hub", "test_G24_both_may_run_at_once"),
        FOREIGN, ("hub", "test_G26_what_is_pulled_serves_the_hubs_own_tools"), FOREIGN, ("hub", "test_G28_revisions_have_names"),
        ("hub", "test_G29_a_branch_that_has_moved"), ("hub", "test_G30_offline_is_offline"),
        ("hub", "test_G31_a_disk_that_fills_up_keeps_what_has_come"), ("hub", "test_G32_a_cache_that_can_only_be_read"),
        UNFIT, UNFIT, CHOSEN, CHOSEN, ("hub", "test_G37_what_is_told_and_where"),
        ("hub", "test_G38_progress_never_falls_and_ends_whole"), ("hub", "test_G39_short_names"), LISTED, LISTED,
        ("hub", "test_G42_a_model_in_use_is_not_removed"), LISTED, ("hub", "test_G44_showing_here_and_there"),
        ("hub", "test_G45_curl_is_needed"), ("hub", "test_G46_a_login_page_is_not_the_hub"),
        ("hub", "test_G47_modes_follow_the_umask"), STRANGE, TOLD, TOLD,
    ],
    "O": [
        STATE, STATE, STATE, SHOW, SHOW, EDITORS, STREAM, STREAM, STREAM, ("ollama", "test_names_and_bodies"), KEPT, KEPT,
        ("ollama", "test_thinking"), ("ollama", "test_O14_thoughts_come_before_the_answer_and_without_tags"), PYTHON, TURNS,
        ("histories", "results of calls go to their calls"), ("ollama", "test_formats"),
        ("media", "The images of Ollama's wire"), ("options", "options are read, clamped, or told as ignored"), OPTIONS,
        ("ollama", "test_O22_a_seed_gives_the_same_text_beside_others"), GIVES_WAY, GIVES_WAY,
        ("ollama", "test_images_and_logprobs"), GENERATE, WIRES, KEPT, VECTORS, VECTORS, ABSENT, PULLS,
        ("ollama", "test_O33_who_leaves_a_pull_finds_its_part_again"), PULLS, ABSENT,
        ("ollama", "test_O36_an_error_after_the_first_token_is_the_last_line"), ("ollama", "test_O37_who_leaves_ends_the_work"),
        ("ollama", "test_O38_a_full_queue_says_when_to_come_again"),
        ("ollama", "test_O39_a_key_is_needed_for_all_but_the_sign_of_life"), ("ollama", "test_O40_bodies_that_are_none"), ROOT, ROOT,
        ("ollama", "test_O43_only_origins_that_are_allowed_get_in"), ("ollama", "test_O44_every_line_is_whole_text"),
        ("ollama", "test_O45_a_long_prompt_sends_signs_of_life"), PYTHON, ("ollama", "test_O47_open_webui"),
        ("ollama", "test_O48_the_same_prompt_by_two_wires_gives_the_same_tokens"),
    ],
    "I": [
        ("llama", "an infill answers with all that llama-server says"), ("middle", "each family has its marks and its order"),
        AROUND, EXTRAS, EXTRAS, MARKS, TYPING, ("llama", "indentation ends an answer"), LIMITS,
        ("llama", "members of the answer can be chosen"), ("llama", "samplers are named or lettered"),
        ("llama", "a model without marks says so with 501"), LIMITS, AROUND,
        ("editors", "test_I15_a_stream_ends_with_all_of_it"), EDITORS,
        ("editors", "test_I17_who_leaves_frees_the_engine_within_a_step"), ("measured", "typing"),
        ("llama", "prompts come as text, ids, both, or several"), STRANGE_CODE, ("llama", "the end has its reason"), ITSELF, ITSELF,
        ("models", "test_I24_what_happens_to_models_is_streamed"), WIRES, WIRES, MARKS,
        ("llama", "what nobody can honour is named, and what changes nothing is not"), EDITORS, STRANGE_CODE,
    ],
    "D": [
        ("packaging", "test_the_archive_runs_where_nothing_else_is"), ("release", "release-sysroot"),
        ("packaging", "test_the_checksums_are_those_of_the_files"), ("packaging", "test_the_image_runs_as_nobody_and_cannot_write"),
        ("packaging", "test_the_debian_package_comes_and_goes"),
        ("command", "test_zsh_and_fish_complete_commands_flags_and_values"),
        ("command", "test_shells_take_the_completions_and_man_the_page"),
        ("command", "test_D08_flags_go_before_variables_variables_before_the_file_and_the_file_before_defaults"),
        ("configuration", "a bad value says where it stands"), ("command", "test_colours_are_for_terminals_that_have_them"),
        ("hub", "test_D11_every_exit_code_of_the_manual_is_met"), ("command", "test_the_doctor_names_what_is_missing"),
        ("command", "test_a_command_that_needs_no_network_asks_for_none"),
        ("packaging", "test_the_same_binary_is_packed_to_the_same_bytes"), ("command", "test_a_health_check_needs_no_other_program"),
    ],
}

COUNTS = {"G": 50, "O": 48, "I": 30, "D": 15}


def missing(root):
    """Series that lack a case, and tests that are not where this table says."""
    wrong = [(letter, len(tests)) for letter, tests in CASES.items() if len(tests) != COUNTS[letter]]
    numbered = [(f"{letter}{number:02}", test) for letter, tests in CASES.items() for number, test in enumerate(tests, 1)]
    return wrong + lost(root, FILES, numbered)
