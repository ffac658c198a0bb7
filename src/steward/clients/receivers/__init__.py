"""How messages are handed to what people read: webhooks, Slack, Teams, e-mail, Alertmanager.

Belongs here: the form that each receiver wants and its protocol. Does not: who gets what, and when.
All text of messages may come from logs and names of jobs: it is escaped for the receiver's markup.
"""
