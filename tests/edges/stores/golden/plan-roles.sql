-- Run this with psql as the owner of the tables, after the first space was opened: that makes them.
-- psql --set ON_ERROR_STOP=1 --file PLAN DATABASE

-- A role that writes. It is held to the space it has opened (row-level security), and owns nothing.
GRANT USAGE ON SCHEMA treering TO "app";
GRANT SELECT ON treering.migrations TO "app";
GRANT SELECT, INSERT, UPDATE, DELETE ON treering.space_names, treering.spaces, treering.objects, treering.revisions, treering.texts, treering.segments, treering.dependencies, treering.referrers, treering.links, treering.patches, treering.receipts, treering.audit, treering.jobs, treering.leases, treering.index_state, treering.passage_scopes, treering.passages, treering.passage_words, treering.posting_runs, treering.postings, treering.passage_endings, treering.passage_days, treering.code_names, treering.graph_nodes, treering.graph_passages, treering.passage_texts, treering.passage_models, treering.passage_vectors, treering.vector_queue, treering.vector_log, treering.waiting_objects, treering.waiting_texts, treering.promised_work TO "app";

-- A role that only reads. It is held to the space it has opened (row-level security), and owns nothing.
GRANT USAGE ON SCHEMA treering TO "report";
GRANT SELECT ON treering.migrations TO "report";
GRANT SELECT ON treering.space_names, treering.spaces, treering.objects, treering.revisions, treering.texts, treering.segments, treering.dependencies, treering.referrers, treering.links, treering.patches, treering.receipts, treering.audit, treering.jobs, treering.leases, treering.index_state, treering.passage_scopes, treering.passages, treering.passage_words, treering.posting_runs, treering.postings, treering.passage_endings, treering.passage_days, treering.code_names, treering.graph_nodes, treering.graph_passages, treering.passage_texts, treering.passage_models, treering.passage_vectors, treering.vector_queue, treering.vector_log, treering.waiting_objects, treering.waiting_texts, treering.promised_work TO "report";
