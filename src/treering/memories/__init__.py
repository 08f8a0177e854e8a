"""The named memories people ask for, built from the verbs: projects, tickets, the supervisor."""
