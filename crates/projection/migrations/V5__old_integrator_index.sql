-- The shorter index of integrators is there instead.
SET LOCAL lock_timeout = '20s';

DROP INDEX fee_event_rows_integrator_idx;
