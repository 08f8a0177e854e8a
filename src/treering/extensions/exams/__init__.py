"""Exams of a memory: questions with expected results, repeated after every change."""
