"""Looking from many machines at once: what an agent packs, keeps and sends to its server.

Belongs here: the parcel of both ends, the agent's buffer and its clock. Does not: reading
sources (`collectors`), or what the server does with parcels (`observe/intake`).
"""
