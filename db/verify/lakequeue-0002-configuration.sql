-- The configuration tables have their columns, and the installation its one row.
select id, secret, time_zone, schema_version from lakequeue.installation where false;
select id, name, max_concurrent_tasks, max_tpm, cooldown_until from lakequeue.model_endpoints where false;
select id, name, job_id, model_endpoint_id, former_endpoint_ids, max_concurrent_tasks, max_tpm, lease_duration,
       reconcile_grace, max_attempts, max_rate_limited, retry_base, retry_cap, tokens_per_task, tokens_per_page,
       parameters, paused_at, paused_by, pause_reason
from lakequeue.agents where false;
select model, valid_from, input_usd, cached_usd, output_usd from lakequeue.model_prices where false;
select identity, role from lakequeue.people where false;
do $$ begin assert (select count(*) = 1 from lakequeue.installation), 'the installation has no row'; end $$;
