-- How far the calldata is proven: `roots` where its transaction hashes to a leaf of the block's transactions
-- root, `claimed` where it is the word of the source. Rows of before do not say.
SET LOCAL lock_timeout = '20s';

ALTER TABLE adfs_event_rows
    ADD COLUMN calldata_level TEXT CHECK (calldata_level IN ('claimed', 'roots'));

CREATE OR REPLACE VIEW adfs_events AS
SELECT r.chain_id, r.block_number, r.block_hash, r.block_timestamp, r.tx_hash, r.log_index, r.topic0,
       CASE WHEN get_bit(s.dropped_bits, dropped_bit(r.block_number)) = 1 AND EXISTS (
                SELECT FROM dropped_blocks d
                WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash OFFSET 0)
                THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.calldata, r.extra, r.calldata_level
FROM adfs_event_rows r
JOIN processing_state s ON s.chain_id = r.chain_id;
