"""The child process of `treering.sources.drafts`, which ends or sleeps at some files."""

import os
import time

from treering.sources.drafts import QUESTION, answered
from treering.sources.reading.bounded_process import answer_questions


def serve():
    answer_questions(_answered)


def _answered(question):
    _, _, files = QUESTION.validate_json(question)
    contents = [file.data for file in files]
    if b"abort" in contents or (b"abort among others" in contents and len(files) > 1):
        os.abort()
    if any(file.data == b"sleep" for file in files):
        time.sleep(3_600)
    return answered(question)
