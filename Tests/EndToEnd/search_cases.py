"""Where each of the 134 cases of the specification of search is tested: a file, and a test in it.

`search_cases_test` holds this table to the files. A case of many parts is named by the test of most of them."""

from cases import lost

FILES = {
    "pair": "PipelineTests/PairTests.swift", "embedder": "PipelineTests/EmbedderTests.swift",
    "route": "ServerTests/EmbeddingsRouteTests.swift", "rerank": "ServerTests/RerankRouteTests.swift",
    "file search": "ServerTests/FileSearchRouteTests.swift", "citations": "WireTests/FileSearchTests.swift",
    "library": "ServerTests/LibraryTests.swift", "faults": "ServerTests/LibraryFaultTests.swift",
    "index": "VectorsTests/IndexFaultTests.swift", "scan": "VectorsTests/ScanTests.swift",
    "search": "SearchTests/SearchTests.swift",
    "cases": "EndToEnd/search_cases_test.py", "embeddings": "EndToEnd/embeddings_test.py",
    "reranking": "EndToEnd/rerank_test.py", "stores": "EndToEnd/vector_stores_test.py",
    "uploads": "EndToEnd/uploads_test.py", "tool": "EndToEnd/file_search_test.py", "command": "EndToEnd/search_cli_test.py",
    "ollama": "EndToEnd/ollama_test.py", "langchain": "EndToEnd/clients/langchain_smoke.py",
    "cohere": "EndToEnd/clients/cohere_smoke.py", "bench": "EndToEnd/cli_test.py",
    "measured": "../Fixtures/scripts/bench/compare_search.py",
}

VECTORS = ("cases", "test_S001_S002_S006_S014_vectors_of_every_encoder")
BITS = ("embeddings", "test_a_text_has_its_bits_alone_shuffled_and_in_any_number")
MINILM = ("embeddings", "test_S011_S012_S013_the_real_minilm")
PAIRS = ("reranking", "test_S007_S008_scores_are_those_of_the_reference")
DECODER = ("reranking", "test_S009_S050_S052_a_decoder_that_judges")
REFUSED = ("route", "what is no input is refused with its path")
TEI = ("reranking", "test_S035_S036_S037_S038_vectors_for_clients_of_tei")
CHUNKS = ("stores", "test_S067_S068_S070_chunks_and_attributes")
BOUNDS = ("stores", "test_S082_S086_S087_S088_S096_bounds_of_a_search")
FEW = ("stores", "test_S085_S097_S098_few_among_many")
FILTERS = ("stores", "test_S071_S083_filters")
KILLED = ("stores", "test_S063_S115_a_killed_server_loses_nothing")
DELETED = ("stores", "test_S075_S076_what_is_deleted_is_not_found")
STORE = ("stores", "test_S064_S065_a_store_of_files")
BATCHES = ("stores", "test_S072_S073_batches")
TAKES_OVER = ("stores", "test_S121_S122_another_model_takes_over")
FOLDER = ("command", "test_S125_S126_a_folder_is_followed")
CHOICES = ("tool", "test_S103_S104_S105_choices_and_stores")
EVENTS = ("tool", "test_S100_S114_the_events_and_their_replay")
FORCED = ("tool", "test_S099_S101_a_forced_search_and_its_results")
CITED = ("file search", "S106 S107: citations leave the text")
SAYS = ("embeddings", "test_S015_S016_S020_what_a_folder_says_decides")

CASES = {
    1: VECTORS, 2: VECTORS, 3: BITS, 4: BITS, 5: ("cases", "test_S005_every_pooling_in_both_generations_of_folders"),
    6: VECTORS, 7: PAIRS, 8: PAIRS, 9: DECODER, 10: ("reranking", "test_S010_sparse_vectors"),
    11: MINILM, 12: MINILM, 13: MINILM, 14: VECTORS, 15: SAYS, 16: SAYS,
    17: ("cases", "test_S017_positions_bound_the_length"), 18: ("reranking", "test_S018_models_are_used_for_what_they_are"),
    19: ("cases", "test_S019_S095_the_book_by_vectors_alone_and_its_sentences"),
    20: ("cases", "test_S020_verify_knows_encoders_and_finds_one_changed_byte"),
    21: ("embeddings", "test_vectors_are_those_of_the_reference"),
    22: ("route", "base64 holds the bits of the numbers"), 23: ("route", "requests have their limits"), 24: REFUSED,
    25: ("route", "all four forms of input are read, and the short path answers too"), 26: REFUSED,
    27: ("route", "dimensions are whole numbers up to the model's"), 28: REFUSED,
    29: ("cases", "test_S029_a_request_has_its_most_tokens"),
    30: ("route", "a long text is refused with both numbers, and cut only on request"),
    31: ("route", "prompts are named, written out, or follow from the use"),
    32: ("embeddings", "test_a_second_request_is_answered_from_memory"),
    33: ("embeddings", "test_S033_many_clients_at_once"), 34: ("embeddings", "test_work_ends_when_the_client_leaves"),
    35: ("reranking", "test_S035_the_mean_of_all_states_is_the_vector"), 36: TEI, 37: TEI, 38: TEI,
    39: ("ollama", "python.embed("), 40: ("langchain", "def embeddings("),
    41: ("rerank", "documents come in order, with scores from 0 to 1, in one shape for all clients"),
    42: ("cohere", "def documents_in_order("), 43: ("rerank", "TEI's rerank is known by its texts"),
    44: ("rerank", "the number of results is a whole number of at least 1"),
    45: ("rerank", "documents are texts, or objects with one"),
    46: ("rerank", "equal documents keep the order of the request, and one has its own score"),
    47: ("rerank", "equal documents keep the order of the request, and one has its own score"),
    48: ("rerank", "a query is one text, which may be empty"), 49: ("pair", "no document can end the turn of the judge"),
    50: DECODER, 51: ("rerank", "a pair that is too long is refused by its name, and cut only on request"), 52: DECODER,
    53: ("rerank", "documents come in order, with scores from 0 to 1, in one shape for all clients"),
    54: ("rerank", "logits that are no numbers are a 500, and the server lives"),
    55: ("rerank", "pairs are scored in the order of the request"),
    56: ("rerank", "TEI's predict takes a text, a pair, and a list of both"),
    57: ("reranking", "test_S057_work_ends_when_the_client_leaves"),
    58: ("stores", "test_S058_a_file_is_kept_told_and_deleted"), 59: ("stores", "test_S059_names_are_shown_and_lead_nowhere"),
    60: ("stores", "test_S060_a_file_beyond_the_limit"), 61: ("stores", "test_S061_purposes"),
    62: ("library", "a file is gone when its time has come"), 63: KILLED, 64: STORE, 65: STORE,
    66: ("stores", "test_S066_kinds_of_files"), 67: CHUNKS, 68: CHUNKS,
    69: ("stores", "test_S069_the_tail_of_a_long_chunk_is_found"), 70: CHUNKS, 71: FILTERS, 72: BATCHES, 73: BATCHES,
    74: ("stores", "test_S074_lists"), 75: DELETED, 76: DELETED, 77: ("stores", "test_S077_metadata"),
    78: ("library", "a store that nobody used for its days has expired, and says so"),
    79: ("stores", "test_S079_keys_see_their_own"), 80: ("uploads", "test_S080_files_in_parts"),
    81: ("command", "test_S081_the_book_is_searched_as_well_as_promised"), 82: BOUNDS, 83: FILTERS, 84: FILTERS, 85: FEW,
    86: BOUNDS, 87: BOUNDS, 88: BOUNDS, 89: ("cases", "test_S089_an_index_is_a_scan_in_float32"),
    90: ("cases", "test_S090_equal_passages_keep_their_order"), 91: ("stores", "test_S091_S124_searching_while_files_come"),
    92: ("cases", "test_S092_winter_boarding"),
    93: ("cases", "test_S093_reasons_are_the_same_with_any_number_of_threads"),
    94: ("search", "nothing is invented where nothing fits"),
    95: ("cases", "test_S019_S095_the_book_by_vectors_alone_and_its_sentences"), 96: BOUNDS, 97: FEW, 98: FEW,
    99: FORCED, 100: EVENTS, 101: FORCED,
    102: ("file search", "S102: instructions, other tools and reasoning are beside what was found"), 103: CHOICES, 104: CHOICES,
    105: CHOICES, 106: CITED, 107: CITED, 108: ("tool", "test_S108_an_empty_store"),
    109: ("file search", "S109: a file cannot spell a special token"),
    110: ("file search", "S110: what has no room is left out"),
    111: ("file search", "S111: a model that only searches is stopped after four searches"),
    112: ("file search", "S112: the next response knows what was found"),
    113: ("file search", "S113: a response that is cancelled while it searches ends"), 114: EVENTS, 115: KILLED,
    116: ("index", "a log cut anywhere opens with what came before"),
    117: ("index", "a changed bit in a segment is found, wherever it is"),
    118: ("cases", "test_S118_a_full_disk_fails_files_and_nothing_else"),
    119: ("index", "a second process is told, and may read"), 120: ("index", "compaction changes no result"),
    121: TAKES_OVER, 122: TAKES_OVER, 123: ("cases", "test_S123_an_index_for_another_model_goes_on_after_a_kill"),
    124: ("stores", "test_S091_S124_searching_while_files_come"), 125: FOLDER, 126: FOLDER,
    127: ("stores", "test_S127_too_many_searches_are_told"), 128: ("measured", "def beside_chat("),
    129: ("cases", "test_S129_indexing_stays_within_a_small_ceiling"),
    130: ("command", "test_S130_what_was_done_before_Ctrl_C_stays"),
    131: ("command", "test_S131_what_is_no_plain_file_is_left_out_and_told"),
    132: ("command", "test_S132_a_reader_that_leaves_is_no_error"), 133: ("bench", "test_S133_an_index_is_measured"),
    134: ("cases", "test_S134_metrics_have_their_names_and_no_text"),
}


def missing(root):
    """Numbers without a test, and tests that are not where this table says."""
    return sorted(set(range(1, 135)) ^ set(CASES)) + lost(root, FILES, CASES.items())
