-- The oracle contract ADFS. `adfs_events`, `tx_inputs`, `feed_updates`, `ring_buffer_updates` and
-- `proxy_versions` are what people read; tables that end in `_rows` hold it. A transaction that was
-- mined again is there once for each of its blocks, so every key has the block's hash, and the block's
-- time because a partition is found by it. Status is that of the block, as everywhere.

CREATE TABLE contracts (
    chain_id           BIGINT NOT NULL REFERENCES chains (chain_id),
    proxy_address      BYTEA NOT NULL CHECK (octet_length(proxy_address) = 20),
    initial_topic_hash BYTEA NOT NULL CHECK (octet_length(initial_topic_hash) = 32),
    start_block        BIGINT NOT NULL CHECK (start_block >= 0),
    UNIQUE (chain_id)
);

-- Implementations that an operator named beside the settings.
CREATE TABLE versions_added (
    chain_id       BIGINT NOT NULL,
    implementation BYTEA NOT NULL CHECK (octet_length(implementation) = 20),
    version        INTEGER NOT NULL CHECK (version >= 0),
    added_at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    operator       TEXT NOT NULL,
    PRIMARY KEY (chain_id, implementation)
);

-- Every upgrade that was seen, once for each block it was in.
CREATE TABLE proxy_version_rows (
    chain_id        BIGINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    version         INTEGER NOT NULL,
    implementation  BYTEA NOT NULL CHECK (octet_length(implementation) = 20),
    topic_hash      BYTEA NOT NULL CHECK (octet_length(topic_hash) = 32),
    bytecode_hash   BYTEA CHECK (octet_length(bytecode_hash) = 32),
    PRIMARY KEY (chain_id, block_number, log_index, block_hash)
);

-- Nothing is ever taken out of the table; an upgrade of a block that is on no chain is not in the view.
-- A version may be left and come back, so it may be there more than once.
CREATE VIEW proxy_versions AS
SELECT r.chain_id, r.version, r.implementation, r.topic_hash, r.bytecode_hash,
       r.block_number AS activated_block
FROM proxy_version_rows r
WHERE NOT EXISTS (SELECT FROM dropped_blocks d
                  WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash);

CREATE TABLE adfs_event_rows (
    chain_id        BIGINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    topic0          BYTEA NOT NULL CHECK (octet_length(topic0) = 32),
    version         INTEGER NOT NULL,
    calldata        BYTEA NOT NULL,
    extra           JSONB NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (chain_id, tx_hash, log_index, block_hash, block_timestamp)
) PARTITION BY LIST (chain_id);
CREATE INDEX adfs_events_block_idx ON adfs_event_rows (chain_id, block_number, log_index);
CREATE INDEX adfs_events_topic_idx ON adfs_event_rows (chain_id, topic0, block_number);

CREATE TABLE tx_input_rows (
    chain_id        BIGINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    version         INTEGER NOT NULL,
    selector        BYTEA NOT NULL CHECK (octet_length(selector) IN (1, 4)),
    decoded         JSONB NOT NULL,
    PRIMARY KEY (chain_id, tx_hash, block_hash, block_timestamp)
) PARTITION BY LIST (chain_id);

-- `position` is the place in the calldata: of two values of one feed the later one is the newer one,
-- whatever their indexes are, since a ring begins anew behind 8191.
CREATE TABLE feed_update_rows (
    chain_id        BIGINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    version         INTEGER NOT NULL,
    stride          SMALLINT NOT NULL CHECK (stride >= 0 AND stride < 32),
    feed_id         BYTEA NOT NULL CHECK (octet_length(feed_id) = 16),
    rb_index        SMALLINT NOT NULL CHECK (rb_index >= 0 AND rb_index < 8192),
    data            BYTEA NOT NULL,
    extra           JSONB NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (chain_id, tx_hash, log_index, feed_id, stride, rb_index, block_hash, block_timestamp)
) PARTITION BY LIST (chain_id);
CREATE INDEX feed_updates_range_q_idx
    ON feed_update_rows (chain_id, feed_id, stride, block_number, log_index);

CREATE TABLE ring_buffer_update_rows (
    chain_id        BIGINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    version         INTEGER NOT NULL,
    table_index     BYTEA NOT NULL CHECK (octet_length(table_index) = 16),
    data            BYTEA NOT NULL CHECK (octet_length(data) = 32),
    extra           JSONB NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (chain_id, tx_hash, log_index, table_index, block_hash, block_timestamp)
) PARTITION BY LIST (chain_id);
CREATE INDEX ring_buffer_updates_slot_latest_idx
    ON ring_buffer_update_rows (chain_id, table_index, block_number DESC, log_index DESC);

-- The newest confirmed value of each feed. It only ever moves forward.
CREATE TABLE feed_latest (
    chain_id        BIGINT NOT NULL,
    feed_id         BYTEA NOT NULL CHECK (octet_length(feed_id) = 16),
    stride          SMALLINT NOT NULL CHECK (stride >= 0 AND stride < 32),
    block_number    BIGINT NOT NULL,
    block_timestamp TIMESTAMPTZ NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    rb_index        SMALLINT NOT NULL CHECK (rb_index >= 0 AND rb_index < 8192),
    data            BYTEA NOT NULL,
    version         INTEGER NOT NULL,
    extra           JSONB NOT NULL DEFAULT '{}'::jsonb,
    position        INTEGER NOT NULL,
    CONSTRAINT feed_latest_point_lookup_idx PRIMARY KEY (chain_id, feed_id, stride)
) WITH (fillfactor = 70);

CREATE VIEW adfs_events AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index, r.topic0,
       CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.calldata, r.extra
FROM adfs_event_rows r
JOIN processing_state s ON s.chain_id = r.chain_id
LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash;

CREATE VIEW tx_inputs AS
SELECT r.chain_id, r.tx_hash,
       CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.selector, r.decoded
FROM tx_input_rows r
JOIN processing_state s ON s.chain_id = r.chain_id
LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash;

CREATE VIEW feed_updates AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
       CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.stride, r.feed_id, r.rb_index, r.data, r.extra
FROM feed_update_rows r
JOIN processing_state s ON s.chain_id = r.chain_id
LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash;

CREATE VIEW ring_buffer_updates AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
       CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.table_index, r.data, r.extra
FROM ring_buffer_update_rows r
JOIN processing_state s ON s.chain_id = r.chain_id
LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash;

-- Ids are sixteen bytes, the most significant first.
CREATE FUNCTION hex_to_bytea16(hex TEXT) RETURNS BYTEA
LANGUAGE SQL IMMUTABLE PARALLEL SAFE AS $$
    SELECT decode(lpad(regexp_replace(lower($1), '^0x', ''), 32, '0'), 'hex')
$$;

CREATE FUNCTION bytea16_to_hex(val BYTEA) RETURNS TEXT
LANGUAGE SQL IMMUTABLE PARALLEL SAFE AS $$
    SELECT '0x' || encode(val, 'hex')
$$;

-- (stride * 2^115 + feed id) / 16, as bits: there is no integer so wide, and a NUMERIC knows no bytes.
CREATE FUNCTION compute_table_index(feed_id BYTEA, stride SMALLINT) RETURNS BYTEA
LANGUAGE SQL IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT decode(lpad(to_hex(substring(bits FROM 1 FOR 64)::bit(64)::bigint), 16, '0')
               || lpad(to_hex(substring(bits FROM 65 FOR 64)::bit(64)::bigint), 16, '0'), 'hex')
    FROM (SELECT (('x' || lpad(encode($1, 'hex'), 32, '0'))::bit(128) >> 4)
               | ($2::int::bit(128) << 111) AS bits) number
$$;

-- For people: ids as text.
CREATE VIEW feed_updates_hex AS
SELECT chain_id, block_number, block_timestamp, bytea16_to_hex(block_hash) AS block_hash,
       bytea16_to_hex(tx_hash) AS tx_hash, log_index, status, version, stride,
       bytea16_to_hex(feed_id) AS feed_id, rb_index,
       bytea16_to_hex(compute_table_index(feed_id, stride)) AS table_index,
       bytea16_to_hex(data) AS data, extra
FROM feed_updates;

CREATE VIEW feed_latest_hex AS
SELECT chain_id, bytea16_to_hex(feed_id) AS feed_id, stride,
       bytea16_to_hex(compute_table_index(feed_id, stride)) AS table_index, block_number,
       block_timestamp, bytea16_to_hex(block_hash) AS block_hash, bytea16_to_hex(tx_hash) AS tx_hash,
       log_index, rb_index, bytea16_to_hex(data) AS data, version, extra
FROM feed_latest;

CREATE VIEW ring_buffer_updates_hex AS
SELECT chain_id, block_number, block_timestamp, bytea16_to_hex(block_hash) AS block_hash,
       bytea16_to_hex(tx_hash) AS tx_hash, log_index, status, version,
       bytea16_to_hex(table_index) AS table_index, bytea16_to_hex(data) AS data, extra
FROM ring_buffer_updates;

-- Where the ring of a feed did not go on by one, of everything that is confirmed: values that never
-- came, or that are not projected yet.
CREATE VIEW feed_ring_gaps AS
SELECT chain_id, feed_id, stride, block_number, log_index, before AS rb_index_before, rb_index
FROM (SELECT f.chain_id, f.feed_id, f.stride, f.block_number, f.log_index, f.rb_index,
             lag(f.rb_index) OVER (PARTITION BY f.chain_id, f.feed_id, f.stride
                 ORDER BY f.block_number, f.log_index, f.position) AS before
      FROM feed_update_rows f
      JOIN processing_state s ON s.chain_id = f.chain_id AND f.block_number <= s.last_safe_block
      WHERE NOT EXISTS (SELECT FROM dropped_blocks d
                        WHERE d.chain_id = f.chain_id AND d.block_hash = f.block_hash)) steps
WHERE rb_index <> (before + 1) % 8192;
