-- What readers of fees ask most, faster. Readers go on while an index is built, and writers wait.
--
-- Of this migration and those behind it each locks one thing that others use, and nothing more: whoever
-- reads or writes locks several, in an order of its own. One that cannot have its lock is not applied, and
-- the next `db init` goes on with it.
SET LOCAL lock_timeout = '20s';

-- How many fees were collected, and which block a page begins at, is read from an index alone: in the order of
-- blocks, and with nothing else in it.
CREATE INDEX fee_event_rows_collected_idx ON fee_event_rows (chain_id, block_number)
    WHERE event = 'FeesCollected';

-- Which stretches of a table may have a token: a tree of all tokens would make an insert half as expensive
-- again, and this costs nothing that could be measured.
CREATE INDEX fee_event_rows_token_idx ON fee_event_rows
    USING brin (token bytea_bloom_ops(n_distinct_per_range = 200))
    WITH (pages_per_range = 16, autosummarize = on);

-- The events of an integrator: the same as before, and cheaper to keep. A partition has one chain, and events
-- come in ascending order, so that they go behind those that are there. It is read backwards as well.
CREATE INDEX fee_event_rows_of_integrator_idx ON fee_event_rows (integrator, block_number, log_index)
    WHERE integrator IS NOT NULL;
