"""The files of a store folder: how each kind lies on disk, how no crash tears it, how it ends.

Belongs here: writing, reading back, merging and removing files. Does not: asking questions of
them (`store/query`), or what a sample means.
"""
