"""Memories that other systems exported, each as a source, and what it states as a candidate."""
