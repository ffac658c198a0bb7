"""What people are told, and how it reaches them: journal in, messages out.

Belongs here: which entries of the journal are worth a message, who gets it, when, and what becomes
of one that cannot be delivered. Does not: how a receiver is spoken to (`clients/receivers`), what
is kept (`store/outbox`), or any decision.
"""
