"""The HTTP server: the four tools and project memory for programs, on this machine.

It needs the extra `server`; nothing else of Treering imports it before `treering serve` is run.
"""
