// Schemas of what reranking, scoring and TEI's routes answer.

enum OpenAPIScores {
  /// In the notation of `OpenAPIResponses`, members of an object.
  static let answers = #"""
    "RankedDocument": {"index": "integer", "relevance_score": "number", "document?": {"text": "string"}},
    "Ranking": {"id": "string", "object": "'list'", "model": "string", "results": ["RankedDocument"],
      "usage": {"prompt_tokens": "integer", "total_tokens": "integer"}, "truncated?": ["integer"],
      "meta": {"api_version": {"version": "string"}, "billed_units": {"search_units": "integer"},
        "tokens": {"input_tokens": "integer"}}},
    "AnyRanking": "Ranking|TEIRanking",
    "TEIRanking": [{"index": "integer", "text?": "string", "score": "number"}],
    "Scores": {"id": "string", "object": "'list'", "created": "integer", "model": "string",
      "data": [{"index": "integer", "object": "'score'", "score": "number"}],
      "usage": {"prompt_tokens": "integer", "total_tokens": "integer"}, "truncated?": ["integer"]},
    "Vectors": ["Vector"],
    "VectorLists": ["Vectors"],
    "SparseVectors": ["SparseVector"],
    "SparseVector": [{"index": "integer", "value": "number"}],
    "Prediction": [{"score": "number", "label": "string"}],
    "PredictionList": ["Prediction"],
    "Predictions": "Prediction|PredictionList",
    "TEIError": {"error": "string", "error_type": "string"},
    "ErrorOfTwoWires": "Error|TEIError"
    """#
}
