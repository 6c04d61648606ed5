-- What readers ask most, faster. No row means anything else than before.
--
-- Indexes first: readers go on while they are built, and writers wait. What locks readers out comes last and
-- takes no time. A lock that cannot be had fails all of it, and the next `db init` tries again.
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

-- Few blocks are dropped, and every row that is read has to be compared with them. So a chain has a bit for
-- each number modulo 8192: where it is 0, no block of that number was ever dropped, and there is nothing to
-- look for. A bit may be 1 for no reason, which costs a look. Bits are set by whatever is written into
-- `dropped_blocks`, and never taken back.
ALTER TABLE processing_state ADD COLUMN dropped_bits BYTEA NOT NULL
    DEFAULT decode(repeat('00', 1024), 'hex') CHECK (octet_length(dropped_bits) = 1024);

CREATE FUNCTION dropped_bit(block_number BIGINT) RETURNS BIGINT
LANGUAGE SQL IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT $1 & 8191
$$;

CREATE FUNCTION note_dropped_block() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE processing_state s
    SET dropped_bits = set_bit(s.dropped_bits, dropped_bit(NEW.block_number), 1)
    WHERE s.chain_id = NEW.chain_id AND get_bit(s.dropped_bits, dropped_bit(NEW.block_number)) = 0;
    RETURN NULL;
END
$$;
CREATE TRIGGER dropped_blocks_noted AFTER INSERT OR UPDATE ON dropped_blocks
    FOR EACH ROW EXECUTE FUNCTION note_dropped_block();

-- A chain that is written down anew may have dropped blocks already.
CREATE FUNCTION collect_dropped_bits() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    dropped BIGINT;
BEGIN
    FOR dropped IN SELECT d.block_number FROM dropped_blocks d WHERE d.chain_id = NEW.chain_id LOOP
        NEW.dropped_bits := set_bit(NEW.dropped_bits, dropped_bit(dropped), 1);
    END LOOP;
    RETURN NEW;
END
$$;
CREATE TRIGGER processing_state_collects BEFORE INSERT ON processing_state
    FOR EACH ROW EXECUTE FUNCTION collect_dropped_bits();

DROP INDEX fee_event_rows_integrator_idx;

-- Those that are there by now, by way of the trigger.
UPDATE dropped_blocks SET dropped_at = dropped_at;

-- A row is dropped where its block is listed, else confirmed where its height is at most the safe one, else
-- pending. `OFFSET 0` keeps the list from being read as a whole for the few rows that need a look.

CREATE OR REPLACE VIEW fee_events AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
       r.position, r.event, r.contract, r.token, r.integrator, r.integrator_fee, r.lifi_fee,
       r.recipient, r.amount, r.created_at,
       CASE WHEN get_bit(s.dropped_bits, dropped_bit(r.block_number)) = 1 AND EXISTS (
                SELECT FROM dropped_blocks d
                WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash OFFSET 0)
                THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status
FROM fee_event_rows r
JOIN processing_state s ON s.chain_id = r.chain_id;

CREATE OR REPLACE VIEW adfs_events AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index, r.topic0,
       CASE WHEN get_bit(s.dropped_bits, dropped_bit(r.block_number)) = 1 AND EXISTS (
                SELECT FROM dropped_blocks d
                WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash OFFSET 0)
                THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.calldata, r.extra
FROM adfs_event_rows r
JOIN processing_state s ON s.chain_id = r.chain_id;

CREATE OR REPLACE VIEW tx_inputs AS
SELECT r.chain_id, r.tx_hash,
       CASE WHEN get_bit(s.dropped_bits, dropped_bit(r.block_number)) = 1 AND EXISTS (
                SELECT FROM dropped_blocks d
                WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash OFFSET 0)
                THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.selector, r.decoded
FROM tx_input_rows r
JOIN processing_state s ON s.chain_id = r.chain_id;

CREATE OR REPLACE VIEW feed_updates AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
       CASE WHEN get_bit(s.dropped_bits, dropped_bit(r.block_number)) = 1 AND EXISTS (
                SELECT FROM dropped_blocks d
                WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash OFFSET 0)
                THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.stride, r.feed_id, r.rb_index, r.data, r.extra
FROM feed_update_rows r
JOIN processing_state s ON s.chain_id = r.chain_id;

CREATE OR REPLACE VIEW ring_buffer_updates AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
       CASE WHEN get_bit(s.dropped_bits, dropped_bit(r.block_number)) = 1 AND EXISTS (
                SELECT FROM dropped_blocks d
                WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash OFFSET 0)
                THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.table_index, r.data, r.extra
FROM ring_buffer_update_rows r
JOIN processing_state s ON s.chain_id = r.chain_id;
