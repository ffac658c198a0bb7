"""Model servers that are not there: continuous batching, KV blocks, prefix caches, failures."""
