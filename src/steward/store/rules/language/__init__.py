"""The language of rule files: the table of fields, scalars, and the schema from both.

Belongs here: facts about the language. Does not: parsing.
"""
