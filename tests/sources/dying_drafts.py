"""The child process of `treering.sources.drafts`, which ends at some files."""

import os

from treering.sources.drafts import QUESTION, answered
from treering.sources.reading.bounded_process import answer_questions


def serve():
    answer_questions(_answered)


def _answered(question):
    _, _, files = QUESTION.validate_json(question)
    if any(file.data == b"abort" for file in files):
        os.abort()
    return answered(question)
