-- Folds compute_deltas into compute_rollups as fold_rollups does the others: what it folds it deletes, in the same statement.
--
-- batch_size: most deltas. The caller holds the lock of folders.
create or replace function lakequeue._fold_compute(batch_size integer)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  with folded as (
    delete from compute_deltas d
    where d.id = any(array(select o.id from compute_deltas o order by o.id limit batch_size))
    returning d.*
  )
  insert into compute_rollups as r (agent_id, customer, status, day, currency, tasks, priced, list_cost, asked_at)
  select f.agent_id, f.customer, f.status, f.day, f.currency, sum(f.tasks), sum(f.priced), sum(f.list_cost), max(f.asked_at)
  from folded f
  group by f.agent_id, f.customer, f.status, f.day, f.currency
  order by f.agent_id, f.status, f.day, f.customer, f.currency
  on conflict (agent_id, status, day, customer, currency) do update
  set tasks = r.tasks + excluded.tasks, priced = r.priced + excluded.priced, list_cost = r.list_cost + excluded.list_cost,
      asked_at = greatest(r.asked_at, excluded.asked_at);
end $$;

comment on function lakequeue._fold_compute(integer) is 'Folds compute_deltas into compute_rollups; deletes what it folds.';
