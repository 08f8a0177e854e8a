"""Project memory, tickets, and the supervisor: rules, commands and routes."""
