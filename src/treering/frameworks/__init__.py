"""Adapters to agent frameworks: a module for each, which nothing else imports."""
