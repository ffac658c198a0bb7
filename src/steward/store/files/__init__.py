"""The files of a store folder: their layout, atomic writes, compaction and retention.

Belongs here: writing, reading back, merging and removing files. Does not: queries of
them (`store/query`), or what a sample means.
"""
