-- A row is dropped where its block is listed, else confirmed where its height is at most the safe one, else
-- pending. `OFFSET 0` keeps the list from being read as a whole for the few rows that need a look.
SET LOCAL lock_timeout = '20s';

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
