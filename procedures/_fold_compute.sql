-- Folds compute_deltas into compute_rollups as fold_rollups does the others: what it folds it deletes, in the same statement. Few
-- are written (two for each group that is billed, and for each move of a billed task), so it looks at all, without a mark.
--
-- batch_size: most deltas. The caller holds the lock of folders.
-- Returns how many were folded.
create or replace function lakequeue._fold_compute(batch_size integer)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_folded bigint;
begin
  with folded as (
    delete from compute_deltas d
    where d.id = any(array(select o.id from compute_deltas o order by o.id limit batch_size))
    returning d.*
  ), counted as (
    insert into compute_rollups as r (agent_id, customer, status, day, currency, tasks, priced, list_cost)
    select f.agent_id, f.customer, f.status, f.day, f.currency, sum(f.tasks), sum(f.priced), sum(f.list_cost)
    from folded f
    group by f.agent_id, f.customer, f.status, f.day, f.currency
    order by f.agent_id, f.status, f.day, f.customer, f.currency
    on conflict (agent_id, status, day, customer, currency) do update
    set tasks = r.tasks + excluded.tasks, priced = r.priced + excluded.priced, list_cost = r.list_cost + excluded.list_cost
  )
  select count(*) into v_folded from folded;
  return v_folded;
end $$;

comment on function lakequeue._fold_compute(integer) is 'Folds compute_deltas into compute_rollups; deletes what it folds.';
