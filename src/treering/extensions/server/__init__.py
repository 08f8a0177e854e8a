"""The HTTP server: the four tools, project memory and chats with memory for programs, on this machine.

It needs the extra `server`; nothing else of Treering imports it before `treering serve` is run.
"""
