"""The grammar: questions in English to calls of tools, without any model. Deterministic."""
