-- Who did what, which process held what before, and the texts of errors are for operators: they name people and machines,
-- and consumers of the rows log in as readers. The present holders of jobs and leases stay: the overview reads them.
SET LOCAL lock_timeout = '20s';

REVOKE SELECT ON operator_acts, lease_history, jobs FROM sync_reader;

-- All but `error`.
GRANT SELECT (id, chain_id, projection, from_block, to_block, next_block, status, attempts, token, locked_by, locked_until,
              retry_at, created_at, updated_at)
    ON jobs TO sync_reader;
