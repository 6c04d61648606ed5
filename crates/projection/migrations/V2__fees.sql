-- Events of fee contracts. `fee_events` is what people read; `fee_event_rows` holds it.

CREATE TYPE fee_event AS ENUM
    ('FeesCollected', 'FeesWithdrawn', 'LiFiFeesWithdrawn', 'FeesForwarded');

CREATE TABLE fee_event_rows (
    chain_id        BIGINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    event           fee_event NOT NULL,
    contract        BYTEA NOT NULL CHECK (octet_length(contract) = 20),
    token           BYTEA NOT NULL CHECK (octet_length(token) = 20),
    integrator      BYTEA CHECK (octet_length(integrator) = 20),
    integrator_fee  NUMERIC(78, 0),
    lifi_fee        NUMERIC(78, 0),
    recipient       BYTEA CHECK (octet_length(recipient) = 20),
    amount          NUMERIC(78, 0),
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    -- A transaction may be mined again in another block, and both have their rows. Where a log stands in
    -- its block says which transaction it is of, so the hash of that is not needed here; with it in front
    -- every row would go to another page of the index. Lists read this key forwards or backwards.
    PRIMARY KEY (chain_id, block_number, log_index, position, block_hash, block_timestamp)
) PARTITION BY LIST (chain_id);

-- For whoever knows a transaction.
CREATE INDEX fee_event_rows_tx_idx ON fee_event_rows USING hash (tx_hash);
CREATE INDEX fee_event_rows_integrator_idx
    ON fee_event_rows (integrator, chain_id, block_number DESC, log_index DESC)
    WHERE integrator IS NOT NULL;

CREATE VIEW fee_events AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index,
       r.position, r.event, r.contract, r.token, r.integrator, r.integrator_fee, r.lifi_fee,
       r.recipient, r.amount, r.created_at,
       CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status
FROM fee_event_rows r
JOIN processing_state s ON s.chain_id = r.chain_id
LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash;
