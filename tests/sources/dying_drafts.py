"""The child process of `treering.sources.drafts`, which ends at some files."""

import os

from treering.sources.drafts import QUESTION, answered
from treering.sources.reading.bounded_process import answer_questions


def serve():
    answer_questions(_answered)


def _answered(question):
    _, _, files = QUESTION.validate_json(question)
    contents = [file.data for file in files]
    if b"abort" in contents or (b"abort among others" in contents and len(files) > 1):
        os.abort()
    return answered(question)
