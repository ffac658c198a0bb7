"""Rules over files: the loop's observe and decide stages, run once, without act.

Belongs here: the code between readers of logs and telemetry (`observe`) and the rule engine
(`decide`): running rules over files, folders and pipes, following them, and testing rules on their
own logs. Does not: matching, formats, or how findings are shown (`cli`, `service`).
"""
