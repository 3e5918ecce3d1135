-- What an action did to each of the tasks it was given, in their order. outcomes: {"id": [outcome, detail]}; a task
-- that is not in it does not exist.
create or replace function lakequeue._outcomes(tasks bigint[], outcomes jsonb)
returns table (task_id bigint, outcome text, detail text)
language sql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
  select u.id, coalesce(outcomes -> u.id::text ->> 0, 'skipped'),
         case when outcomes ? u.id::text then outcomes -> u.id::text ->> 1 else 'there is no such task' end
  from unnest(tasks) with ordinality u(id, number)
  order by u.number
$$;

comment on function lakequeue._outcomes(bigint[], jsonb) is 'What an action did to each task, in the order given.';
