"""Tickets that trackers export, each as a source with its comments as turns."""
