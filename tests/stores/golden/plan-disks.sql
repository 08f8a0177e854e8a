-- Run this with psql as the owner of the tables, after the first space was opened: that makes them.
-- psql --set ON_ERROR_STOP=1 --file PLAN DATABASE

-- Partitions on several disks: the rows of one space lie on one of them, with their indexes.
-- Each table is locked while it is copied. First make the tablespaces (CREATE TABLESPACE), as a superuser,
-- and grant CREATE on them to the owner of the tables.
ALTER TABLE treering.spaces_0 SET TABLESPACE "fast";
ALTER TABLE treering.objects_0 SET TABLESPACE "fast";
ALTER TABLE treering.revisions_0 SET TABLESPACE "fast";
ALTER TABLE treering.texts_0 SET TABLESPACE "fast";
ALTER TABLE treering.segments_0 SET TABLESPACE "fast";
ALTER TABLE treering.dependencies_0 SET TABLESPACE "fast";
ALTER TABLE treering.referrers_0 SET TABLESPACE "fast";
ALTER TABLE treering.links_0 SET TABLESPACE "fast";
ALTER TABLE treering.patches_0 SET TABLESPACE "fast";
ALTER TABLE treering.receipts_0 SET TABLESPACE "fast";
ALTER TABLE treering.audit_0 SET TABLESPACE "fast";
ALTER TABLE treering.jobs_0 SET TABLESPACE "fast";
ALTER TABLE treering.leases_0 SET TABLESPACE "fast";
ALTER TABLE treering.index_state_0 SET TABLESPACE "fast";
ALTER TABLE treering.passage_scopes_0 SET TABLESPACE "fast";
ALTER TABLE treering.passages_0 SET TABLESPACE "fast";
ALTER TABLE treering.passage_words_0 SET TABLESPACE "fast";
ALTER TABLE treering.posting_runs_0 SET TABLESPACE "fast";
ALTER TABLE treering.postings_0 SET TABLESPACE "fast";
ALTER TABLE treering.passage_endings_0 SET TABLESPACE "fast";
ALTER TABLE treering.passage_days_0 SET TABLESPACE "fast";
ALTER TABLE treering.code_names_0 SET TABLESPACE "fast";
ALTER TABLE treering.graph_nodes_0 SET TABLESPACE "fast";
ALTER TABLE treering.graph_passages_0 SET TABLESPACE "fast";
ALTER TABLE treering.passage_texts_0 SET TABLESPACE "fast";
ALTER TABLE treering.passage_models_0 SET TABLESPACE "fast";
ALTER TABLE treering.passage_vectors_0 SET TABLESPACE "fast";
ALTER TABLE treering.vector_queue_0 SET TABLESPACE "fast";
ALTER TABLE treering.vector_log_0 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_objects_0 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_texts_0 SET TABLESPACE "fast";
ALTER TABLE treering.promised_work_0 SET TABLESPACE "fast";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_0'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "fast"', one); END LOOP;
END $$;
ALTER TABLE treering.spaces_1 SET TABLESPACE "wide";
ALTER TABLE treering.objects_1 SET TABLESPACE "wide";
ALTER TABLE treering.revisions_1 SET TABLESPACE "wide";
ALTER TABLE treering.texts_1 SET TABLESPACE "wide";
ALTER TABLE treering.segments_1 SET TABLESPACE "wide";
ALTER TABLE treering.dependencies_1 SET TABLESPACE "wide";
ALTER TABLE treering.referrers_1 SET TABLESPACE "wide";
ALTER TABLE treering.links_1 SET TABLESPACE "wide";
ALTER TABLE treering.patches_1 SET TABLESPACE "wide";
ALTER TABLE treering.receipts_1 SET TABLESPACE "wide";
ALTER TABLE treering.audit_1 SET TABLESPACE "wide";
ALTER TABLE treering.jobs_1 SET TABLESPACE "wide";
ALTER TABLE treering.leases_1 SET TABLESPACE "wide";
ALTER TABLE treering.index_state_1 SET TABLESPACE "wide";
ALTER TABLE treering.passage_scopes_1 SET TABLESPACE "wide";
ALTER TABLE treering.passages_1 SET TABLESPACE "wide";
ALTER TABLE treering.passage_words_1 SET TABLESPACE "wide";
ALTER TABLE treering.posting_runs_1 SET TABLESPACE "wide";
ALTER TABLE treering.postings_1 SET TABLESPACE "wide";
ALTER TABLE treering.passage_endings_1 SET TABLESPACE "wide";
ALTER TABLE treering.passage_days_1 SET TABLESPACE "wide";
ALTER TABLE treering.code_names_1 SET TABLESPACE "wide";
ALTER TABLE treering.graph_nodes_1 SET TABLESPACE "wide";
ALTER TABLE treering.graph_passages_1 SET TABLESPACE "wide";
ALTER TABLE treering.passage_texts_1 SET TABLESPACE "wide";
ALTER TABLE treering.passage_models_1 SET TABLESPACE "wide";
ALTER TABLE treering.passage_vectors_1 SET TABLESPACE "wide";
ALTER TABLE treering.vector_queue_1 SET TABLESPACE "wide";
ALTER TABLE treering.vector_log_1 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_objects_1 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_texts_1 SET TABLESPACE "wide";
ALTER TABLE treering.promised_work_1 SET TABLESPACE "wide";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_1'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "wide"', one); END LOOP;
END $$;
ALTER TABLE treering.spaces_2 SET TABLESPACE "fast";
ALTER TABLE treering.objects_2 SET TABLESPACE "fast";
ALTER TABLE treering.revisions_2 SET TABLESPACE "fast";
ALTER TABLE treering.texts_2 SET TABLESPACE "fast";
ALTER TABLE treering.segments_2 SET TABLESPACE "fast";
ALTER TABLE treering.dependencies_2 SET TABLESPACE "fast";
ALTER TABLE treering.referrers_2 SET TABLESPACE "fast";
ALTER TABLE treering.links_2 SET TABLESPACE "fast";
ALTER TABLE treering.patches_2 SET TABLESPACE "fast";
ALTER TABLE treering.receipts_2 SET TABLESPACE "fast";
ALTER TABLE treering.audit_2 SET TABLESPACE "fast";
ALTER TABLE treering.jobs_2 SET TABLESPACE "fast";
ALTER TABLE treering.leases_2 SET TABLESPACE "fast";
ALTER TABLE treering.index_state_2 SET TABLESPACE "fast";
ALTER TABLE treering.passage_scopes_2 SET TABLESPACE "fast";
ALTER TABLE treering.passages_2 SET TABLESPACE "fast";
ALTER TABLE treering.passage_words_2 SET TABLESPACE "fast";
ALTER TABLE treering.posting_runs_2 SET TABLESPACE "fast";
ALTER TABLE treering.postings_2 SET TABLESPACE "fast";
ALTER TABLE treering.passage_endings_2 SET TABLESPACE "fast";
ALTER TABLE treering.passage_days_2 SET TABLESPACE "fast";
ALTER TABLE treering.code_names_2 SET TABLESPACE "fast";
ALTER TABLE treering.graph_nodes_2 SET TABLESPACE "fast";
ALTER TABLE treering.graph_passages_2 SET TABLESPACE "fast";
ALTER TABLE treering.passage_texts_2 SET TABLESPACE "fast";
ALTER TABLE treering.passage_models_2 SET TABLESPACE "fast";
ALTER TABLE treering.passage_vectors_2 SET TABLESPACE "fast";
ALTER TABLE treering.vector_queue_2 SET TABLESPACE "fast";
ALTER TABLE treering.vector_log_2 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_objects_2 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_texts_2 SET TABLESPACE "fast";
ALTER TABLE treering.promised_work_2 SET TABLESPACE "fast";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_2'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "fast"', one); END LOOP;
END $$;
ALTER TABLE treering.spaces_3 SET TABLESPACE "wide";
ALTER TABLE treering.objects_3 SET TABLESPACE "wide";
ALTER TABLE treering.revisions_3 SET TABLESPACE "wide";
ALTER TABLE treering.texts_3 SET TABLESPACE "wide";
ALTER TABLE treering.segments_3 SET TABLESPACE "wide";
ALTER TABLE treering.dependencies_3 SET TABLESPACE "wide";
ALTER TABLE treering.referrers_3 SET TABLESPACE "wide";
ALTER TABLE treering.links_3 SET TABLESPACE "wide";
ALTER TABLE treering.patches_3 SET TABLESPACE "wide";
ALTER TABLE treering.receipts_3 SET TABLESPACE "wide";
ALTER TABLE treering.audit_3 SET TABLESPACE "wide";
ALTER TABLE treering.jobs_3 SET TABLESPACE "wide";
ALTER TABLE treering.leases_3 SET TABLESPACE "wide";
ALTER TABLE treering.index_state_3 SET TABLESPACE "wide";
ALTER TABLE treering.passage_scopes_3 SET TABLESPACE "wide";
ALTER TABLE treering.passages_3 SET TABLESPACE "wide";
ALTER TABLE treering.passage_words_3 SET TABLESPACE "wide";
ALTER TABLE treering.posting_runs_3 SET TABLESPACE "wide";
ALTER TABLE treering.postings_3 SET TABLESPACE "wide";
ALTER TABLE treering.passage_endings_3 SET TABLESPACE "wide";
ALTER TABLE treering.passage_days_3 SET TABLESPACE "wide";
ALTER TABLE treering.code_names_3 SET TABLESPACE "wide";
ALTER TABLE treering.graph_nodes_3 SET TABLESPACE "wide";
ALTER TABLE treering.graph_passages_3 SET TABLESPACE "wide";
ALTER TABLE treering.passage_texts_3 SET TABLESPACE "wide";
ALTER TABLE treering.passage_models_3 SET TABLESPACE "wide";
ALTER TABLE treering.passage_vectors_3 SET TABLESPACE "wide";
ALTER TABLE treering.vector_queue_3 SET TABLESPACE "wide";
ALTER TABLE treering.vector_log_3 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_objects_3 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_texts_3 SET TABLESPACE "wide";
ALTER TABLE treering.promised_work_3 SET TABLESPACE "wide";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_3'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "wide"', one); END LOOP;
END $$;
ALTER TABLE treering.spaces_4 SET TABLESPACE "fast";
ALTER TABLE treering.objects_4 SET TABLESPACE "fast";
ALTER TABLE treering.revisions_4 SET TABLESPACE "fast";
ALTER TABLE treering.texts_4 SET TABLESPACE "fast";
ALTER TABLE treering.segments_4 SET TABLESPACE "fast";
ALTER TABLE treering.dependencies_4 SET TABLESPACE "fast";
ALTER TABLE treering.referrers_4 SET TABLESPACE "fast";
ALTER TABLE treering.links_4 SET TABLESPACE "fast";
ALTER TABLE treering.patches_4 SET TABLESPACE "fast";
ALTER TABLE treering.receipts_4 SET TABLESPACE "fast";
ALTER TABLE treering.audit_4 SET TABLESPACE "fast";
ALTER TABLE treering.jobs_4 SET TABLESPACE "fast";
ALTER TABLE treering.leases_4 SET TABLESPACE "fast";
ALTER TABLE treering.index_state_4 SET TABLESPACE "fast";
ALTER TABLE treering.passage_scopes_4 SET TABLESPACE "fast";
ALTER TABLE treering.passages_4 SET TABLESPACE "fast";
ALTER TABLE treering.passage_words_4 SET TABLESPACE "fast";
ALTER TABLE treering.posting_runs_4 SET TABLESPACE "fast";
ALTER TABLE treering.postings_4 SET TABLESPACE "fast";
ALTER TABLE treering.passage_endings_4 SET TABLESPACE "fast";
ALTER TABLE treering.passage_days_4 SET TABLESPACE "fast";
ALTER TABLE treering.code_names_4 SET TABLESPACE "fast";
ALTER TABLE treering.graph_nodes_4 SET TABLESPACE "fast";
ALTER TABLE treering.graph_passages_4 SET TABLESPACE "fast";
ALTER TABLE treering.passage_texts_4 SET TABLESPACE "fast";
ALTER TABLE treering.passage_models_4 SET TABLESPACE "fast";
ALTER TABLE treering.passage_vectors_4 SET TABLESPACE "fast";
ALTER TABLE treering.vector_queue_4 SET TABLESPACE "fast";
ALTER TABLE treering.vector_log_4 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_objects_4 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_texts_4 SET TABLESPACE "fast";
ALTER TABLE treering.promised_work_4 SET TABLESPACE "fast";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_4'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "fast"', one); END LOOP;
END $$;
ALTER TABLE treering.spaces_5 SET TABLESPACE "wide";
ALTER TABLE treering.objects_5 SET TABLESPACE "wide";
ALTER TABLE treering.revisions_5 SET TABLESPACE "wide";
ALTER TABLE treering.texts_5 SET TABLESPACE "wide";
ALTER TABLE treering.segments_5 SET TABLESPACE "wide";
ALTER TABLE treering.dependencies_5 SET TABLESPACE "wide";
ALTER TABLE treering.referrers_5 SET TABLESPACE "wide";
ALTER TABLE treering.links_5 SET TABLESPACE "wide";
ALTER TABLE treering.patches_5 SET TABLESPACE "wide";
ALTER TABLE treering.receipts_5 SET TABLESPACE "wide";
ALTER TABLE treering.audit_5 SET TABLESPACE "wide";
ALTER TABLE treering.jobs_5 SET TABLESPACE "wide";
ALTER TABLE treering.leases_5 SET TABLESPACE "wide";
ALTER TABLE treering.index_state_5 SET TABLESPACE "wide";
ALTER TABLE treering.passage_scopes_5 SET TABLESPACE "wide";
ALTER TABLE treering.passages_5 SET TABLESPACE "wide";
ALTER TABLE treering.passage_words_5 SET TABLESPACE "wide";
ALTER TABLE treering.posting_runs_5 SET TABLESPACE "wide";
ALTER TABLE treering.postings_5 SET TABLESPACE "wide";
ALTER TABLE treering.passage_endings_5 SET TABLESPACE "wide";
ALTER TABLE treering.passage_days_5 SET TABLESPACE "wide";
ALTER TABLE treering.code_names_5 SET TABLESPACE "wide";
ALTER TABLE treering.graph_nodes_5 SET TABLESPACE "wide";
ALTER TABLE treering.graph_passages_5 SET TABLESPACE "wide";
ALTER TABLE treering.passage_texts_5 SET TABLESPACE "wide";
ALTER TABLE treering.passage_models_5 SET TABLESPACE "wide";
ALTER TABLE treering.passage_vectors_5 SET TABLESPACE "wide";
ALTER TABLE treering.vector_queue_5 SET TABLESPACE "wide";
ALTER TABLE treering.vector_log_5 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_objects_5 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_texts_5 SET TABLESPACE "wide";
ALTER TABLE treering.promised_work_5 SET TABLESPACE "wide";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_5'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "wide"', one); END LOOP;
END $$;
ALTER TABLE treering.spaces_6 SET TABLESPACE "fast";
ALTER TABLE treering.objects_6 SET TABLESPACE "fast";
ALTER TABLE treering.revisions_6 SET TABLESPACE "fast";
ALTER TABLE treering.texts_6 SET TABLESPACE "fast";
ALTER TABLE treering.segments_6 SET TABLESPACE "fast";
ALTER TABLE treering.dependencies_6 SET TABLESPACE "fast";
ALTER TABLE treering.referrers_6 SET TABLESPACE "fast";
ALTER TABLE treering.links_6 SET TABLESPACE "fast";
ALTER TABLE treering.patches_6 SET TABLESPACE "fast";
ALTER TABLE treering.receipts_6 SET TABLESPACE "fast";
ALTER TABLE treering.audit_6 SET TABLESPACE "fast";
ALTER TABLE treering.jobs_6 SET TABLESPACE "fast";
ALTER TABLE treering.leases_6 SET TABLESPACE "fast";
ALTER TABLE treering.index_state_6 SET TABLESPACE "fast";
ALTER TABLE treering.passage_scopes_6 SET TABLESPACE "fast";
ALTER TABLE treering.passages_6 SET TABLESPACE "fast";
ALTER TABLE treering.passage_words_6 SET TABLESPACE "fast";
ALTER TABLE treering.posting_runs_6 SET TABLESPACE "fast";
ALTER TABLE treering.postings_6 SET TABLESPACE "fast";
ALTER TABLE treering.passage_endings_6 SET TABLESPACE "fast";
ALTER TABLE treering.passage_days_6 SET TABLESPACE "fast";
ALTER TABLE treering.code_names_6 SET TABLESPACE "fast";
ALTER TABLE treering.graph_nodes_6 SET TABLESPACE "fast";
ALTER TABLE treering.graph_passages_6 SET TABLESPACE "fast";
ALTER TABLE treering.passage_texts_6 SET TABLESPACE "fast";
ALTER TABLE treering.passage_models_6 SET TABLESPACE "fast";
ALTER TABLE treering.passage_vectors_6 SET TABLESPACE "fast";
ALTER TABLE treering.vector_queue_6 SET TABLESPACE "fast";
ALTER TABLE treering.vector_log_6 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_objects_6 SET TABLESPACE "fast";
ALTER TABLE treering.waiting_texts_6 SET TABLESPACE "fast";
ALTER TABLE treering.promised_work_6 SET TABLESPACE "fast";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_6'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "fast"', one); END LOOP;
END $$;
ALTER TABLE treering.spaces_7 SET TABLESPACE "wide";
ALTER TABLE treering.objects_7 SET TABLESPACE "wide";
ALTER TABLE treering.revisions_7 SET TABLESPACE "wide";
ALTER TABLE treering.texts_7 SET TABLESPACE "wide";
ALTER TABLE treering.segments_7 SET TABLESPACE "wide";
ALTER TABLE treering.dependencies_7 SET TABLESPACE "wide";
ALTER TABLE treering.referrers_7 SET TABLESPACE "wide";
ALTER TABLE treering.links_7 SET TABLESPACE "wide";
ALTER TABLE treering.patches_7 SET TABLESPACE "wide";
ALTER TABLE treering.receipts_7 SET TABLESPACE "wide";
ALTER TABLE treering.audit_7 SET TABLESPACE "wide";
ALTER TABLE treering.jobs_7 SET TABLESPACE "wide";
ALTER TABLE treering.leases_7 SET TABLESPACE "wide";
ALTER TABLE treering.index_state_7 SET TABLESPACE "wide";
ALTER TABLE treering.passage_scopes_7 SET TABLESPACE "wide";
ALTER TABLE treering.passages_7 SET TABLESPACE "wide";
ALTER TABLE treering.passage_words_7 SET TABLESPACE "wide";
ALTER TABLE treering.posting_runs_7 SET TABLESPACE "wide";
ALTER TABLE treering.postings_7 SET TABLESPACE "wide";
ALTER TABLE treering.passage_endings_7 SET TABLESPACE "wide";
ALTER TABLE treering.passage_days_7 SET TABLESPACE "wide";
ALTER TABLE treering.code_names_7 SET TABLESPACE "wide";
ALTER TABLE treering.graph_nodes_7 SET TABLESPACE "wide";
ALTER TABLE treering.graph_passages_7 SET TABLESPACE "wide";
ALTER TABLE treering.passage_texts_7 SET TABLESPACE "wide";
ALTER TABLE treering.passage_models_7 SET TABLESPACE "wide";
ALTER TABLE treering.passage_vectors_7 SET TABLESPACE "wide";
ALTER TABLE treering.vector_queue_7 SET TABLESPACE "wide";
ALTER TABLE treering.vector_log_7 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_objects_7 SET TABLESPACE "wide";
ALTER TABLE treering.waiting_texts_7 SET TABLESPACE "wide";
ALTER TABLE treering.promised_work_7 SET TABLESPACE "wide";
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\_7'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE "wide"', one); END LOOP;
END $$;
