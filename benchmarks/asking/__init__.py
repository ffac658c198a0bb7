"""The generated site, the phrasings and the truths of `benchmarks/ask.py`."""
