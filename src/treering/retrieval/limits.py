"""Bounds of what a query reads, compares and prints.

Larger values cost time or space; none of them decides what is relevant. Numbers that do are in `tuning.toml`.
"""

MAX_CANDIDATES_PER_ARM = 100
"""More found no more."""

MAX_CANDIDATES_PER_LEAD = 30
"""Candidates for each lead of a deep search."""

CANDIDATES_PER_HIT = 3
"""Candidates that are compared with each other, for each hit wanted."""

SOURCES_PER_HIT = 2
"""Sources that are compared with each other, for each source wanted."""

FILE_CANDIDATES_FACTOR = 4
"""Candidates that are ranked by files, as a multiple of `MAX_CANDIDATES_PER_ARM`; a good file lifts low candidates."""

MAX_LONG_QUESTION_WORDS = 48
"""Words of a long question that are searched. More did not raise recall, and each costs a list of postings."""

MAX_COMMITS = 50
"""Commits with a similar subject that count for their files. 20 and 100 found as much (0068)."""

MAX_STATED_PASSAGES = 20
"""Passages whose statements are read for the graph."""

MAX_HUB_EDGES = 1_000
"""Edges of an entity that are read outside the walk; larger entities weigh next to nothing as seeds."""

MAX_ENTITY_WORDS = 7
"""Words of the name of an entity in a question."""

MAX_WALKED_PASSAGES = 100
"""Passages ranked by the walk. 200 gained on MuSiQue and 2Wiki, for 3 ms (0089)."""

MAX_PATH_NODES = 6
"""Nodes of a path that explains a hit of the walk. Half of the mass is lost at every step."""

WALK_ROUNDS = 4
"""Rounds of the walk. Half of the mass settles in each; four more cost a third of the walk in vain (0055)."""

MIN_UNDECIDED_MASS = 1e-5
"""Undecided mass per edge from which on a node is expanded. The best ten are exact in 98 of 100 places."""

MAX_SOURCE_HITS = 40
"""Passages of sources read for a context pack."""

MAX_KNOWLEDGE_HITS = 16
"""Knowledge, work and activities read for a context pack."""

MAX_FURTHER_FILES = 12
"""Further files whose best passages are read for a context pack. 24 found as much (0079)."""

MAX_WITHDRAWN_HITS = 8
"""Stale and superseded knowledge that is read for the warnings of a context pack."""

MAX_LINE_CHARS = 240
"""Characters of a line shown from a hit. A longer line is compared by sentences."""

MAX_TASK_CHARS = 120
"""Characters of the task in the heading of a pack."""

MAX_PLACE_CHARS = 200
"""Characters of a cited place, and of a line of a brief."""

MAX_HEADING_CHARS = 50
"""Characters of the heading of a passage in a pack."""

MAX_REASON_WORDS = 3
"""Words that state why a file is worth reading next."""

MAX_RULE_CHARS = 200
"""Characters of a rule in a pack or a hook."""

MAX_REASON_CHARS = 120
"""Characters of the reason of a rule or decision in a hook."""

MAX_POINTER_CHARS = 100
"""Characters of a pointer of a hook."""

MAX_FAILURE_CHARS = 400
"""Characters of an entry about a failure."""

GAP_TOKENS = 8
"""Tokens of the line that marks omitted lines, about."""

FRAME_TOKENS = 32
"""Tokens of the heading and the fence of a section of a pack, about."""

MAX_PERIOD_DAYS = 100
"""Days of a period in a question whose turns become candidates. Most turns of a conversation are in longer ones."""

MAX_NEAREST = 3
"""Passages that a pack without an answer names as the nearest."""

MAX_IDS = 4
"""Ids of a question whose passages are searched literally."""
