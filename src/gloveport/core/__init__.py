"""The session itself, without any I/O: no clock, no randomness, no operating system, no event loop.

`Session`'s methods are generators. They yield *commands* (`commands.py`) and are sent what came of them; the two drivers in
`gloveport.host` perform the commands, one blocking, one awaiting. Everything that affects what a session is in is in
`session.py` and `run.py`.
"""
