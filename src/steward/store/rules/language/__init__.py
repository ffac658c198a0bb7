"""What may be written in a rule file: the table of fields, its words, and the schema from both.

Belongs here: facts about the language. Does not: reading a file by them.
"""
