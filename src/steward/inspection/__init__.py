"""Rules over what lies in files: the loop's observe and decide, once, with no act behind them.

Belongs here: what joins readers of logs and telemetry (`observe`) with the rule engine (`decide`):
running rules over files, folders and pipes, following them, and testing rules on their own logs.
Does not: matching, formats, or how findings are shown (`cli`, `service`).
"""
