-- Tables as the requirement prints them, with the status in every row, and the same rows as ours. Their
-- keys have the block's time as well: without it a table cannot be cut into months.
CREATE SCHEMA plain;
GRANT USAGE ON SCHEMA plain TO sync_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA plain GRANT SELECT ON TABLES TO sync_reader;

CREATE TABLE plain.feed_updates (
    chain_id        INTEGER NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    status          adfs_state NOT NULL,
    version         INTEGER NOT NULL,
    stride          SMALLINT NOT NULL,
    feed_id         BYTEA NOT NULL CHECK (octet_length(feed_id) = 16),
    rb_index        SMALLINT NOT NULL CHECK (rb_index >= 0 AND rb_index < 8192),
    data            BYTEA NOT NULL,
    extra           JSONB NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (chain_id, tx_hash, log_index, feed_id, stride, rb_index, block_timestamp)
) PARTITION BY LIST (chain_id);
CREATE INDEX feed_updates_range_q_idx
    ON plain.feed_updates (chain_id, feed_id, stride, block_number, log_index);

CREATE TABLE plain.ring_buffer_updates (
    chain_id        INTEGER NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    status          adfs_state NOT NULL,
    version         INTEGER NOT NULL,
    table_index     BYTEA NOT NULL CHECK (octet_length(table_index) = 16),
    data            BYTEA NOT NULL,
    extra           JSONB NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (chain_id, tx_hash, log_index, table_index, block_timestamp)
) PARTITION BY LIST (chain_id);
CREATE INDEX ring_buffer_updates_slot_latest_idx
    ON plain.ring_buffer_updates (chain_id, table_index, block_number DESC, log_index DESC);

CREATE TABLE plain.feed_latest (
    chain_id        INTEGER NOT NULL,
    feed_id         BYTEA NOT NULL CHECK (octet_length(feed_id) = 16),
    stride          SMALLINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_timestamp TIMESTAMPTZ NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    rb_index        SMALLINT NOT NULL,
    data            BYTEA NOT NULL,
    version         INTEGER NOT NULL,
    extra           JSONB NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (chain_id, feed_id, stride)
);
CREATE INDEX feed_latest_point_lookup_idx ON plain.feed_latest (chain_id, feed_id, stride);

-- The same partitions as ours.
CREATE TABLE plain.feed_updates_c1 PARTITION OF plain.feed_updates
    FOR VALUES IN (1) PARTITION BY RANGE (block_timestamp);
CREATE TABLE plain.ring_buffer_updates_c1 PARTITION OF plain.ring_buffer_updates
    FOR VALUES IN (1) PARTITION BY RANGE (block_timestamp);
DO $$
DECLARE
    leaf RECORD;
BEGIN
    FOR leaf IN
        SELECT c.relname AS name, p.relname AS parent, pg_get_expr(c.relpartbound, c.oid) AS bound
        FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class p ON p.oid = i.inhparent
        WHERE p.relname IN ('feed_updates_c1', 'ring_buffer_updates_c1')
            AND p.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('CREATE TABLE plain.%I PARTITION OF plain.%I %s', leaf.name, leaf.parent, leaf.bound);
    END LOOP;
END
$$;

INSERT INTO plain.feed_updates
    SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
           CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state
                WHEN r.block_number <= s.last_safe_block THEN 'confirmed' ELSE 'pending' END,
           r.version, r.stride, r.feed_id, r.rb_index, r.data, r.extra
    FROM feed_update_rows r JOIN processing_state s USING (chain_id)
    LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash
    ORDER BY r.block_number, r.position;
INSERT INTO plain.ring_buffer_updates
    SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
           CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state
                WHEN r.block_number <= s.last_safe_block THEN 'confirmed' ELSE 'pending' END,
           r.version, r.table_index, r.data, r.extra
    FROM ring_buffer_update_rows r JOIN processing_state s USING (chain_id)
    LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash
    ORDER BY r.block_number, r.position;
INSERT INTO plain.feed_latest
    SELECT chain_id, feed_id, stride, block_number, block_timestamp, block_hash, tx_hash, log_index,
           rb_index, data, version, extra
    FROM feed_latest;
