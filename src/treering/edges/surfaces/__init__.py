"""Where people and programs meet the tools: Python, command line, MCP."""
