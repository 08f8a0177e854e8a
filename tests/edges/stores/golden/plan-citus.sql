-- Run this with psql as the owner of the tables, after the first space was opened: that makes them.
-- psql --set ON_ERROR_STOP=1 --file PLAN DATABASE

-- A distributed Postgres (Citus), run at its coordinator while the tables are still empty.
-- Rows of one space lie on one server, in all tables: a commit stays on one server.
-- Limits: one space is as fast as one server; SKIP LOCKED works inside one space only;
-- advisory locks and NOTIFY are the coordinator's; no key is unique without the space.
SET citus.shard_count = 16;
SET citus.shard_replication_factor = 1;
SELECT create_reference_table('treering.space_names');
SELECT create_reference_table('treering.migrations');
SELECT create_distributed_table('treering.spaces', 'space');
SELECT create_distributed_table('treering.objects', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.revisions', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.texts', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.segments', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.dependencies', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.referrers', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.links', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.patches', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.receipts', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.audit', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.jobs', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.leases', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.index_state', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passage_scopes', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passages', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passage_words', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.posting_runs', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.postings', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passage_endings', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passage_days', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.code_names', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.graph_nodes', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.graph_passages', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passage_texts', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passage_models', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.passage_vectors', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.vector_queue', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.vector_log', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.waiting_objects', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.waiting_texts', 'space', colocate_with => 'treering.spaces');
SELECT create_distributed_table('treering.promised_work', 'space', colocate_with => 'treering.spaces');

-- A role that writes. It is held to the space it has opened (row-level security), and owns nothing.
GRANT USAGE ON SCHEMA treering TO "app";
GRANT SELECT ON treering.migrations TO "app";
GRANT SELECT, INSERT, UPDATE, DELETE ON treering.space_names, treering.spaces, treering.objects, treering.revisions, treering.texts, treering.segments, treering.dependencies, treering.referrers, treering.links, treering.patches, treering.receipts, treering.audit, treering.jobs, treering.leases, treering.index_state, treering.passage_scopes, treering.passages, treering.passage_words, treering.posting_runs, treering.postings, treering.passage_endings, treering.passage_days, treering.code_names, treering.graph_nodes, treering.graph_passages, treering.passage_texts, treering.passage_models, treering.passage_vectors, treering.vector_queue, treering.vector_log, treering.waiting_objects, treering.waiting_texts, treering.promised_work TO "app";
