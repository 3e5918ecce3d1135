-- Keeps an action on many tasks short: it holds their row locks until it commits.
--
-- tasks: the ids it was given. Errors: LQ400 more than 1,000.
create or replace function lakequeue._check_chunk(tasks bigint[])
returns void
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if cardinality(tasks) > 1000 then
    raise exception using errcode = 'LQ400', message = format('%s tasks are too many for one call', cardinality(tasks)),
      hint = 'Pass at most 1,000; call again for the rest.';
  end if;
end $$;

comment on function lakequeue._check_chunk(bigint[]) is 'Refuses more than 1,000 tasks in one action.';
