"""Conversations labelled by hand: what holds when they end."""
