-- The breaker counts in its book, and in the agent's row no more; what runs for long has places of its own.
select agent_id, no, failures from lakequeue.breaker_books where false;
select overtaken, overtaken_from from lakequeue.running_books where false;
do $$
begin
  assert not exists (
    select from pg_attribute a
    where a.attrelid = 'lakequeue.agents'::regclass and a.attname = 'failures_in_a_row' and not a.attisdropped),
    'agents still has failures_in_a_row';
end $$;
