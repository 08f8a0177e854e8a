"""Where people and programs meet the verbs. Frames only: the parts say what they bring."""
