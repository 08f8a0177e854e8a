"""Exams of a memory: questions with what has to be found, asked again after every change."""
